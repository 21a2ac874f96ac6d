"""What every test needs: one thread, a cache folder of its own, no clock in property tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from importlib.util import find_spec

import hypothesis
import pytest
import torch

from support.commands import Command, run_command, run_process
from support.runs import SharedRuns

# `make test-browser` installs playwright; without it the modules of tests/browser cannot be imported.
collect_ignore = [] if find_spec("playwright") else ["browser"]

torch.set_num_threads(1)  # the models here are so small that waking a second thread costs more than it gives

hypothesis.settings.register_profile("seqloom", deadline=None, database=None)
hypothesis.settings.load_profile("seqloom")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, and no process that a test starts, writes into the user's cache."""
    before = os.environ.get("SEQLOOM_CACHE")
    os.environ["SEQLOOM_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["SEQLOOM_CACHE"]
    else:
        os.environ["SEQLOOM_CACHE"] = before


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """The messages that seqloom logs during the test."""
    found: list[str] = []
    logger, handler = logging.getLogger("seqloom"), logging.Handler(logging.INFO)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield found
    logger.setLevel(before)
    logger.removeHandler(handler)


@pytest.fixture(scope="session")
def command(_own_cache: None) -> Command:
    """Run a command in this process."""
    return run_command


@pytest.fixture(scope="session")
def process(_own_cache: None) -> Command:
    """Run a command in a process of its own."""
    return run_process


@pytest.fixture(scope="session")
def shared_runs(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Iterator[SharedRuns]:
    """Yield the runs that all tests share, and check in the end that none was changed."""
    shared = SharedRuns(tmp_path_factory.mktemp("runs"))
    yield shared
    shared.check_unchanged()
