"""HTTP clients that load a server, in a process of their own.

    python benchmarks/http_load.py TASK.json RESULT.json

The task has the requests to send, over and over, and how: `clients` connections that each send the next
request as soon as the last response has arrived, or `rate` requests per second over new connections, whatever
the server does. The result has one row per request. Uses uvloop if it is installed, else only the standard
library.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

LOST = 0  # status of a request without a response


class Row(NamedTuple):
    """A request and its response; times are in seconds, `end` since the start."""

    request: int  # its place in the task
    status: int
    seconds: float
    end: float
    content: str


@dataclass(frozen=True)
class Task:
    """What to send, and how. The end is after all `count` requests, or after `seconds`."""

    port: int
    requests: list[tuple[str, str]]  # path and JSON body
    clients: int = 1
    count: int = 0
    seconds: float = 0.0
    rate: float = 0.0  # requests per second, each over a connection of its own; 0: one after the other

    def message(self, number: int) -> bytes:
        """Return a request as bytes."""
        path, text = self.requests[number % len(self.requests)]
        body = text.encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Reply(NamedTuple):
    status: int
    content: bytes
    closes: bool


_NOTHING = _Reply(LOST, b"", True)


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> _Reply:
    with contextlib.suppress(OSError):  # a server that refuses a connection does not read from it
        writer.write(message)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    content = await reader.readexactly(length)
    return _Reply(int(head.split(b" ", 2)[1]), content, b"connection: close" in head)


class Load:
    """Clients of one server."""

    def __init__(self, task: Task) -> None:
        self._task, self._rows = task, list[Row]()
        self._next, self._started = 0, 0.0

    async def run(self) -> list[Row]:
        """Send the requests and return one row for each."""
        self._started = time.perf_counter()
        if self._task.rate:
            await self._at_rate()
        else:
            await asyncio.gather(*(self._client() for _ in range(self._task.clients)))
        return self._rows

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    def _take(self) -> int | None:
        """Return the number of the next request, None after the last one."""
        task, number = self._task, self._next
        if (task.count and number >= task.count) or (task.seconds and self._elapsed() > task.seconds):
            return None
        self._next += 1
        return number

    async def _client(self) -> None:
        connection = await asyncio.open_connection("127.0.0.1", self._task.port)
        while (number := self._take()) is not None:
            if await self._send(number, time.perf_counter(), *connection):
                connection = await asyncio.open_connection("127.0.0.1", self._task.port)
        connection[1].close()

    async def _at_rate(self) -> None:
        draw, due, running = random.Random(0), 0.0, set[asyncio.Task[None]]()
        while (number := self._take()) is not None:
            due += draw.expovariate(self._task.rate)
            await asyncio.sleep(max(0.0, due - self._elapsed()))
            running.add(one := asyncio.create_task(self._alone(number)))
            one.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def _alone(self, number: int) -> None:
        started = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._task.port)
        except OSError:
            self._record(number, started, _NOTHING)
            return
        await self._send(number, started, reader, writer)
        writer.close()

    async def _send(
        self, number: int, started: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Send a request, record its response, and return whether the connection is closed."""
        try:
            reply = await _exchange(reader, writer, self._task.message(number))
        except (OSError, asyncio.IncompleteReadError):
            reply = _NOTHING
        self._record(number, started, reply)
        return reply.closes

    def _record(self, number: int, started: float, reply: _Reply) -> None:
        seconds, place = time.perf_counter() - started, number % len(self._task.requests)
        self._rows.append(Row(place, reply.status, seconds, self._elapsed(), reply.content.decode()))


def main() -> None:
    """Run the task of the first argument and write the rows to the second."""
    task_file, result_file = sys.argv[1:]
    with open(task_file, encoding="utf-8") as file:
        task = Task(**json.load(file))
    load = Load(task)
    try:
        import uvloop
    except ImportError:
        rows = asyncio.run(load.run())
    else:
        rows = uvloop.run(load.run())
    with open(result_file, "w", encoding="utf-8") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main()
