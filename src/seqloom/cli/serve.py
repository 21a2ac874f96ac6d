"""`seqloom serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqloom.cli.options import ConfigFile, Threads

_COMPARE = "Comparison"


def serve(
    context: typer.Context,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]RUN", help="Run directories; a name such as en-de is a language pair."),
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to bind to.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help="Port; 0 is any free one.", show_default="5000"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Decoding engine: torch, ctranslate2 or auto.", show_default="auto"),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="Device: auto, cpu or cuda.", show_default="auto")
    ] = None,
    threads: Threads = None,
    config: ConfigFile = None,
    api_keys: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with one API key per line; reread on SIGHUP.")
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Serve other machines without API keys.")] = False,
    suggestions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Table (.tsv or .jsonl) to which clients add corrected translations."
        ),
    ] = None,
    cors: Annotated[
        bool, typer.Option("--cors", help="Allow requests from web pages of other origins.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Serve a new best checkpoint as soon as the run has one.")
    ] = False,
    shadow: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run that translates a part of the texts for comparison.",
            rich_help_panel=_COMPARE,
        ),
    ] = None,
    shadow_share: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Fraction of the requests to compare.",
            show_default="0.1",
            rich_help_panel=_COMPARE,
        ),
    ] = None,
    shadow_report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="HTML page on which the disagreements are written.",
            show_default="shadow.html",
            rich_help_panel=_COMPARE,
        ),
    ] = None,
) -> None:
    """Serve models over HTTP.

    The APIs are those of LibreTranslate, OpenAI and seqloom: see docs/guides/serving.md. A name of two language
    codes is a language pair; any other name is selected by the field `model`. Several runs separated by commas
    are an ensemble. SIGTERM finishes the accepted requests and stops.

    Examples:
      seqloom serve runs/x
      seqloom serve en-de=runs/a de-en=runs/b g2p=runs/c --port 8080
      seqloom serve --config serve.yaml --host 0.0.0.0 --api-keys keys.txt
    """
    from seqloom.errors import SeqloomError
    from seqloom.serve.config import ServeConfig, models_of

    try:
        from seqloom.serve.logs import json_log
        from seqloom.serve.server import serve as run_server
    except ImportError as error:
        raise SeqloomError(
            f"The server needs {error.name}, which is not installed.", "pip install 'seqloom[serve]'"
        ) from error
    options = ServeConfig.compose(
        config,
        {
            "models": models_of(runs) if runs else None,
            "host": host,
            "port": port,
            "engine": engine,
            "device": device,
            "threads": threads,
            "api_keys": _text(api_keys),
            "no_auth": no_auth or None,
            "suggestions": _text(suggestions),
            "cors": cors or None,
            "follow": follow or None,
            "shadow": _text(shadow),
            "shadow_share": shadow_share,
            "shadow_report": _text(shadow_report),
        },
    )
    imports = tuple(str(file.resolve()) for file in context.find_root().params["user_modules"] or ())
    with json_log():
        run_server(options, imports)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
