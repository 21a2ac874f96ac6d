"""A server with models that copy, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.serving import TestServer, copying_server


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    """Yield a server with the models en-de, de-en and lm."""
    with copying_server() as found:
        yield found
