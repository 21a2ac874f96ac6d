"""Run the studio: listen, print the address, open a browser."""

from __future__ import annotations

import errno
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

from seqloom.errors import SeqloomError
from seqloom.studio.app import create_app
from seqloom.studio.lesson import Lesson, lesson_document
from seqloom.studio.runs import StudioRuns, find_runs
from seqloom.studio.security import StudioAccess, allowed_hosts


def run_studio(
    paths: Sequence[Path],
    *,
    host: str,
    port: int,
    device: str = "auto",
    threads: int | None = None,
    imports: Sequence[str] = (),
    state: str = "",
    lesson: Lesson | None = None,
    announce: Callable[[str], None] = print,
    open_browser: bool = True,
) -> None:
    """Serve the runs until the process is interrupted; `announce` gets the address with its token."""
    folders = find_runs(paths)
    listener = _listen(host, port)
    access = StudioAccess(listener.getsockname()[1], allowed_hosts(host))
    runs = StudioRuns(folders, device=device, threads=threads, imports=imports)
    shown_lesson: dict[str, Any] = {}
    failures: list[SeqloomError] = []
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host in ("0.0.0.0", "") else host
    address = f"http://{shown}:{access.port}/?{urlencode({'token': access.token})}{state}"
    config = uvicorn.Config(
        create_app(runs, access, shown_lesson),
        log_config=None,  # uvicorn's own closes the log handlers of other packages
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )

    class StudioServer(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            try:
                if lesson is not None:
                    shown_lesson.update(await lesson_document(lesson, runs))
            except SeqloomError as error:
                failures.append(error)
                self.should_exit = True
                return
            announce(address)
            sys.stdout.flush()
            if open_browser:
                webbrowser.open(address)

    StudioServer(config).run(sockets=[listener])
    if failures:
        raise failures[0]


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise SeqloomError(
                f"Port {port} is in use.", "choose another one, e.g. --port 0 for any"
            ) from error
        raise SeqloomError(f"Cannot listen on {host}:{port}: {error}.", "use --host 127.0.0.1") from error
    return listener
