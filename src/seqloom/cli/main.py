"""The command `seqloom`: every command is a thin file beside this one."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from seqloom import __version__
from seqloom.cli import (
    align,
    data,
    demo,
    doctor,
    evaluate,
    evaluate_alignment,
    export,
    fill,
    generate,
    import_,
    info,
    inspect,
    models,
    rerank,
    score,
    shortlist,
    train,
    translate,
)
from seqloom.cli.importing import Commands, Imports
from seqloom.errors import SeqloomError

app = typer.Typer(
    name="seqloom",
    cls=Commands,
    help="Sequence-to-sequence learning: bring pairs, leave with a model that is trained and measured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.train)
app.command("resume")(train.resume)
app.command("translate")(translate.translate)
app.command("rerank")(rerank.rerank)
app.command("evaluate")(evaluate.evaluate)
app.command("align")(align.align)
app.command("evaluate-alignment")(evaluate_alignment.evaluate_alignment)
app.command("generate")(generate.generate)
app.command("fill")(fill.fill)
app.command("score")(score.score)
app.command("shortlist")(shortlist.shortlist)
app.command("export")(export.export)
app.command("import")(import_.import_)
app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("info")(info.info)
app.command("doctor")(doctor.doctor)
app.add_typer(data.app, name="data")
app.add_typer(inspect.app, name="inspect")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"seqloom {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    imports: Imports = None,
) -> None:
    pass


def main() -> None:
    """Runs the command; a SeqloomError becomes one sentence and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # a letter that the terminal has not
    try:
        app()
    except SeqloomError as error:
        rank = os.environ.get("RANK", "0")
        print(f"error{f' in process {rank}' if rank != '0' else ''}: {error.message}", file=sys.stderr)
        if error.hint and rank == "0":  # of several processes one tells
            print(f"hint:  {error.hint}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        from seqloom.training.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        print("error: This machine has not enough memory for that.", file=sys.stderr)
        print("hint:  give shorter lines, a smaller --beam or a smaller model", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `seqloom ... | head` is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # a file that the system refuses, whoever asked for it
        name = f"{str(error.filename)[:200]}: " if error.filename else ""
        print(f"error: {name}{error.strerror or error}.", file=sys.stderr)
        print("hint:  check the path, its permissions and the room on the disk", file=sys.stderr)
        sys.exit(2)
