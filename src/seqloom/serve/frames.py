"""Messages between the server and a worker: JSON after its length in four bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, BinaryIO

_SIZE = 4


def pack(message: object) -> bytes:
    """Return a message as bytes."""
    content = json.dumps(message, ensure_ascii=True).encode()
    return len(content).to_bytes(_SIZE, "big") + content


def read(stream: BinaryIO) -> Any:
    """Return the next message; None at the end of the stream."""
    size = stream.read(_SIZE)
    content = stream.read(int.from_bytes(size, "big"))
    return json.loads(content) if content else None


async def receive(stream: asyncio.StreamReader) -> Any:
    """Return the next message; raise IncompleteReadError at the end of the stream."""
    size = await stream.readexactly(_SIZE)
    return json.loads(await stream.readexactly(int.from_bytes(size, "big")))
