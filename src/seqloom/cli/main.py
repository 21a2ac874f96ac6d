"""Entry point of the command `seqloom`. Each subcommand has its own module in this package."""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from seqloom import __version__
from seqloom.cli import (
    align,
    backtranslate,
    compare,
    data,
    demo,
    distill,
    doctor,
    evaluate,
    evaluate_alignment,
    export,
    fill,
    generate,
    import_model,
    info,
    inspect,
    lab,
    models,
    plan,
    rerank,
    score,
    serve,
    shortlist,
    studio,
    train,
    translate,
    tune,
)
from seqloom.cli.commands import Command, CommandGroup
from seqloom.cli.user_modules import UserModules, imports_first
from seqloom.errors import SeqloomError
from seqloom.log import console

_TOPICS: dict[str, dict[str, Callable[..., None] | typer.Typer]] = {
    "Train": {
        "demo": demo.demo,
        "train": train.train,
        "plan": plan.plan,
        "resume": train.resume,
        "tune": tune.app,
        "distill": distill.distill,
        "models": models.models,
    },
    "Use": {
        "translate": translate.translate,
        "rerank": rerank.rerank,
        "generate": generate.generate,
        "fill": fill.fill,
        "align": align.align,
        "shortlist": shortlist.shortlist,
        "serve": serve.serve,
    },
    "Evaluate": {
        "evaluate": evaluate.evaluate,
        "compare": compare.compare,
        "evaluate-alignment": evaluate_alignment.evaluate_alignment,
        "score": score.score,
    },
    "Understand": {
        "info": info.info,
        "doctor": doctor.doctor,
        "inspect": inspect.app,
        "lab": lab.app,
        "studio": studio.studio,
    },
    "Data": {"data": data.app, "backtranslate": backtranslate.backtranslate},
    "Exchange": {"export": export.export, "import": import_model.import_model},
}


class _Seqloom(CommandGroup):
    topics = tuple(_TOPICS)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, imports_first(args))


app = typer.Typer(
    name="seqloom",
    cls=_Seqloom,
    help="Train, use, evaluate and understand sequence-to-sequence models.\n\n"
    "For the arguments, options and examples of a command: seqloom COMMAND --help",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _topic, _commands in _TOPICS.items():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name, rich_help_panel=_topic)
        else:
            app.command(_name, cls=Command, rich_help_panel=_topic)(_command)


def _show_version(value: bool) -> None:
    if value:
        print(f"seqloom {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    user_modules: UserModules = None,
) -> None:
    context.with_resource(console(force=True))


def main() -> None:
    """Run the command line; a SeqloomError is printed as a message and a hint, with exit code 2."""
    atexit.register(gc.freeze)  # a last collection over the objects of torch takes a third of a second
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # the encoding of the terminal may lack a character
    try:
        app()
    except SeqloomError as error:
        rank = os.environ.get("RANK", "0")
        print(f"error{f' in process {rank}' if rank != '0' else ''}: {error.message}", file=sys.stderr)
        if error.hint and rank == "0":  # once, not by every process
            print(f"hint:  {error.hint}", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        from seqloom.training.step import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        print("error: Not enough memory.", file=sys.stderr)
        print("hint:  use shorter lines, a smaller --beam or a smaller model", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `seqloom ... | head` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        name = f"{str(error.filename)[:200]}: " if error.filename else ""
        print(f"error: {name}{error.strerror or error}.", file=sys.stderr)
        print("hint:  check the path, its permissions and the free disk space", file=sys.stderr)
        sys.exit(2)
