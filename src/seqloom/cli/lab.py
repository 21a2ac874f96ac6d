"""`seqloom lab`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqloom.cli.commands import Command, CommandGroup
from seqloom.cli.figures import check_figure, write_figure
from seqloom.cli.options import Json, Style
from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from rich.table import Table

    from seqloom.labs.framework.lab import Lab
    from seqloom.labs.framework.results import LabResult

Name = Annotated[str, typer.Argument(metavar="NAME", help="Lab: see seqloom lab list.")]
Results = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")]
_RESULTS = Path("lab-results")

app = typer.Typer(cls=CommandGroup, help="Test claims of lecture notes by experiments.")


@app.command("list", cls=Command)
def list_(out: Results = _RESULTS, json_: Json = False) -> None:
    """List the labs, with the last verdict of each.

    Example:
      seqloom lab list
    """
    from seqloom.labs.framework.discovery import labs
    from seqloom.labs.framework.results import ResultStore

    latest = ResultStore(out).latest()
    verdicts = {name: result.judgement.verdict.value for name, result in latest.items()}
    if json_:
        print_json([{**_facts(lab), "verdict": verdicts.get(name)} for name, lab in labs().items()])
        return
    table = new_table("", "lab", "claim", "notes", "time", "last verdict", right=("",), no_wrap=("lab", "time"))
    for number, (name, lab) in enumerate(labs().items(), 1):
        kind = f"{lab.seconds:g} s"
        table.add_row(str(number), name, lab.claim, str(lab.note), kind, verdicts.get(name, "-"))
    print_tables(table)


@app.command(cls=Command)
def show(name: Name, json_: Json = False) -> None:
    """Show claim, method, criterion and commands of a lab.

    Example:
      seqloom lab show vanish
    """
    from seqloom.labs.framework.discovery import lab_named

    lab = lab_named(name)
    if json_:
        print_json(_facts(lab))
        return
    print_tables(
        f"Claim: {lab.claim}.",
        f"Notes: {lab.note}",
        f"Equation (TeX): {lab.equation}",
        f"Method: {lab.method}",
        f"Criterion: {lab.criterion}",
        _settings_table(lab),
        "Commands:",
        f"  seqloom lab run {name}",
        f"  seqloom lab run {name} --full",
        *(f"  {_command(lab, one.settings)}\n    {one.question}" for one in lab.variations),
    )


@app.command(cls=Command)
def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Labs: see seqloom lab list; or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small settings, for seconds (the default).")] = False,
    full: Annotated[bool, typer.Option("--full", help="Large settings, for minutes or hours.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Random seeds of labs that train.", show_default="by lab"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Setting of the lab, e.g. width=64; repeatable."),
    ] = None,
    out: Results = _RESULTS,
    again: Annotated[bool, typer.Option("--again", help="Do not reuse stored results.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the figure of one lab: .png, .svg or .pdf.")
    ] = None,
    style: Style = "page",
    json_: Json = False,
) -> None:
    """Run experiments and print a verdict for each.

    The criterion is printed first. Results are stored in DIR at once, so that an interrupted command loses no
    finished experiment, and results with equal settings are reused.

    Examples:
      seqloom lab run vanish --plot vanish.png
      seqloom lab run all --out lab-results
    """
    from seqloom.labs.framework.choice import has_seeds, settings_of
    from seqloom.labs.framework.discovery import ALL, labs_named
    from seqloom.labs.framework.results import ResultStore
    from seqloom.labs.framework.running import run_or_reuse

    chosen = labs_named(names)
    if quick and full:
        raise SeqloomError("--quick and --full exclude each other.", "use one of them")
    if len(chosen) > 1 and (set_ or plot):
        raise SeqloomError("--set and --plot are options of one lab.", "name one lab")
    check_figure(plot, style)
    assignments = set_ or ()
    plans = [
        (
            lab,
            settings_of(
                lab,
                full=full,
                seeds=None if ALL in names and not has_seeds(lab) else seeds,
                assignments=assignments,
            ),
        )
        for lab in chosen
    ]
    store = ResultStore(out)
    store.create_folder()
    results: list[LabResult] = []
    for lab, settings in plans:
        if not json_:
            print_tables(f"{lab.name}: {lab.claim}.", f"  Criterion: {lab.criterion}")
            if full and lab.measured_by:
                print_tables(f"  The numbers are stored. To measure them again, run: {lab.measured_by}")
        try:
            result, reused = run_or_reuse(lab, settings, store, again=again)
        except KeyboardInterrupt:
            typer.echo(
                f"stopped; {len(results)} of {len(plans)} labs are finished and stored in {out}. Run the same "
                "command again to continue.",
                err=True,
            )
            raise typer.Exit(130) from None
        results.append(result)
        if not json_:
            _print(result, reused=reused)
        if plot:
            write_figure(lab.plot(result.numbers), plot, style=style)
    if json_:
        print_json([result.to_dict() for result in results])


@app.command("report", cls=Command)
def report_(
    results: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of results: --out of seqloom lab run.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="HTML file to write.", show_default="DIR/report.html")
    ] = None,
) -> None:
    """Write a book of all labs: one HTML file, which works offline.

    Each claim has a page with equation, figure, numbers, verdict, commands and an exercise. Of several results
    of a lab, the last one is shown.

    Examples:
      seqloom lab run all --out lab-results
      seqloom lab report lab-results
    """
    from seqloom.labs.framework.discovery import labs
    from seqloom.labs.framework.report import report
    from seqloom.labs.framework.results import ResultStore
    from seqloom.outputs import check_can_write, write_output
    from seqloom.progress import ProgressBar

    path = out or results / "report.html"
    latest = ResultStore(results).latest()
    if not latest:
        raise SeqloomError(
            f"{results} contains no results of labs.", f"run some first: seqloom lab run all --out {results}"
        )
    check_can_write(path)
    with ProgressBar("pages", total=len(labs())) as progress:
        page = report(latest, on_page=progress.advance)
    write_output(path, page)
    print(f"report: {path} ({len(latest)} of {len(labs())} labs have a result)")


@app.command("notebook", cls=Command)
def notebook_(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Notebook to write.", show_default="NAME.ipynb")
    ] = None,
) -> None:
    """Write a Jupyter notebook that runs a lab.

    Example:
      seqloom lab notebook vanish
    """
    from seqloom.labs.framework.discovery import lab_named
    from seqloom.labs.framework.notebook import notebook
    from seqloom.outputs import write_output

    path = out or Path(f"{name}.ipynb")
    write_output(path, notebook(lab_named(name)))
    print(f"notebook: {path}")


def _facts(lab: Lab[Any, Any]) -> dict[str, Any]:
    return {
        "name": lab.name,
        "claim": lab.claim,
        "notes": str(lab.note),
        "equation": lab.equation,
        "method": lab.method,
        "criterion": lab.criterion,
        "trains": lab.trains,
        "seconds": lab.seconds,
        "settings": lab.settings().model_dump(mode="json"),
        "full": dict(lab.full),
        "commands": [_command(lab, ""), *(_command(lab, one.settings) for one in lab.variations)],
    }


def _command(lab: Lab[Any, Any], settings: str) -> str:
    from seqloom.labs.framework.choice import run_command

    return run_command(lab, settings)


def _settings_table(lab: Lab[Any, Any]) -> Table:
    table = new_table("setting", "quick", "full", "description", title="Settings")
    for name, info in lab.settings.model_fields.items():
        quick = info.default
        table.add_row(name, _plain(quick), _plain(lab.full.get(name, quick)), info.description or "")
    return table


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _print(result: LabResult, *, reused: bool) -> None:
    """Print numbers and verdict."""
    numbers = result.lab.table(result.numbers)
    table = new_table(*numbers.columns, right=numbers.columns[1:])
    for row in numbers.rows:
        table.add_row(*row)
    judgement = result.judgement
    source = "stored result" if reused else f"{result.seconds:.1f} s of processor time"
    print_tables(table, f"  Verdict: {judgement.verdict}. {judgement.reason} ({source})\n")
