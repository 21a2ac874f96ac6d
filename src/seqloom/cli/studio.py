"""`seqloom studio`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from seqloom.cli.options import Device, Threads
from seqloom.errors import SeqloomError

_LESSON_NAMES = "why-attention, how-beam-search-decides"


def studio(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories, or folders of them.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 chooses a free one.")
    ] = 8766,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Begin with the curves of the first run.")] = False,
    lesson: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help=f"Lesson to show: {_LESSON_NAMES}, or a YAML file."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Write the views, or the lesson, to a page that works offline, and exit."
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Source text to begin with.",
            show_default="an example from the data of the run",
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
) -> None:
    """Open a local web page that shows what models do.

    Translates while you type, and shows the probability of every token with its alternatives, attention, the
    beam search, hidden states and learning curves. The address contains a token, without which nobody can use
    the page. Ctrl-C stops the server.

    Examples:
      seqloom studio runs/mine
      seqloom studio runs/lstm runs/transformer --port 0 --no-open
      seqloom studio runs/lstm-last runs/transformer --lesson why-attention
      seqloom studio runs/mine --export mine.html
    """
    try:
        from seqloom.studio.lesson import read_lesson
        from seqloom.studio.server import run_studio
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise SeqloomError("The studio needs starlette and uvicorn.", "pip install 'seqloom[serve]'") from error
    if follow and lesson is not None:
        raise SeqloomError("--follow and --lesson both say what the page begins with.", "leave one out")
    if text is not None and lesson is not None:
        raise SeqloomError("--text and --lesson both give a text.", "leave one out")
    chosen = None if lesson is None else read_lesson(lesson)
    if export is not None:
        from seqloom.studio.export import export_page
        from seqloom.studio.runs import find_runs

        export_page(find_runs(runs), export, lesson=chosen, text=text, device=device)
        return
    imports = [str(file.resolve()) for file in context.find_root().params["user_modules"] or ()]
    run_studio(
        runs,
        host=host,
        port=port,
        device=device,
        threads=threads,
        imports=imports,
        state="#view=curves" if follow else f"#{urlencode({'text': text})}" if text else "",
        lesson=chosen,
        announce=lambda address: print(f"Studio: {address}\nCtrl-C stops it."),
        open_browser=not no_open,
    )
