"""`seqloom evaluate --contrast`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from seqloom.cli.output import new_table, print_json, print_tables
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.decode.ensemble import Space
    from seqloom.evaluate.contrast import Contrast, ContrastAccuracy, ContrastReport

_SUPPORTED = {"run", "contrast", "ensemble", "ensemble_space", "checkpoint", "device", "json_"}


def evaluate_contrast(
    run: Path,
    file: str,
    *,
    ensemble: Sequence[Path],
    space: str,
    checkpoint: str | None,
    device: str,
    as_json: bool,
) -> None:
    """Print the share of contrasts whose right text has the higher score."""
    from seqloom.data.contrasts import read_contrasts
    from seqloom.evaluate.contrast import contrast_report

    contrasts = read_contrasts(file)
    right, wrong = _scores(run, contrasts, ensemble, cast("Space", space), checkpoint, device)
    report = contrast_report(contrasts, right, wrong)
    if as_json:
        settings = {"run": " + ".join(map(str, [run, *ensemble])), "data": file}
        print_json({"settings": settings, **report.as_dict()})
    else:
        _print(report)


def refuse_other_options(context: typer.Context) -> None:
    """Raise for an option of `evaluate` that has no effect on contrasts."""
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in _SUPPORTED:
            flag = parameter.opts[0] if parameter.opts[0].startswith("-") else "test data"
            raise SeqloomError(
                f"--contrast scores given texts, so it does not support {flag}.",
                "leave one of them out; --contrast supports --ensemble, --checkpoint, --device and --json",
            )


def _scores(
    run: Path,
    contrasts: Sequence[Contrast],
    ensemble: Sequence[Path],
    space: Space,
    checkpoint: str | None,
    device: str,
) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Return the scores of the right and of the wrong texts."""
    from seqloom.progress import counter
    from seqloom.run.directory import Run
    from seqloom.run.load import has_own_search, load_derivations, load_scorer, use_of

    config = Run.open(run).config()
    translates = use_of(config) == "translate"
    for number, contrast in enumerate(contrasts, 1):
        if bool(contrast.source.strip()) != translates:
            kind = "translates, but it has no source" if translates else "reads plain text, but it has a source"
            raise SeqloomError(
                f"Contrast {number} does not fit {run} ({config.model.name}): the run {kind}.",
                "fill the column source for a translation model, and leave it empty for a language model",
            )
    pairs = [(one.source, text) for one in contrasts for text in (one.right, one.wrong)]
    scores: list[float | None]
    with counter("scored", total=len(pairs)) as advance:
        if has_own_search(config) and not ensemble and space == "probability":
            derivations = load_derivations(run, checkpoint=checkpoint)
            scores = [one.score for one in derivations.score(pairs, on_progress=advance)]
        else:
            scorer = load_scorer(run, ensemble=ensemble, space=space, checkpoint=checkpoint, device=device)
            scores = [one.log_prob for one in scorer.score(pairs, on_progress=advance)]
    return scores[::2], scores[1::2]


def _print(report: ContrastReport) -> None:
    def row(group: ContrastAccuracy) -> tuple[str, ...]:
        distance = "all" if group.distance is None else str(group.distance)
        kind = "all" if group.kind is None else group.kind or "-"
        return kind, distance, f"{group.count:,}", f"{group.accuracy:.1f}"

    table = new_table(
        "kind", "distance", "contrasts", "accuracy, %", right=("distance", "contrasts", "accuracy, %")
    )
    several = len(report.kinds) > 1
    for group in (*report.groups, *(report.kinds if several else ()), *(report.distances if several else ())):
        table.add_row(*row(group))
    table.add_row(*row(report.total))
    print_tables(table)
    if report.ties:
        typer.echo(f"{report.ties:,} contrasts have equal scores, or none; they count as errors")
