"""A studio in its own process, and requests to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from support.commands import start_process


class Reply(NamedTuple):
    """Status, headers and body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class StudioServer(NamedTuple):
    """The address of a running studio."""

    address: str

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2].partition("#")[0]

    def request(self, path: str, body: object = None, **headers: str) -> Reply:
        """Send a request as the page does; headers replace those that it sends."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Cookie": f"seqloom-studio-{self.port}={self.token}"}
        if body is not None:
            sent |= {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{self.port}"}
        sent |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, data, sent)
        response = connection.getresponse()
        found = Reply(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return found


@contextmanager
def running_studio(runs: Sequence[Path], *options: str) -> Iterator[StudioServer]:
    """Start `seqloom studio` on a free port, and stop it as Ctrl-C does."""
    process = start_process("studio", *runs, "--port", "0", "--no-open", "--threads", "1", *options)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found is not None, first + (process.stderr.read() if process.stderr else "")
        yield StudioServer(found[0])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
