"""The shared runs that most commands are tried on, and a disk that is full."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.runs import SharedRuns


@pytest.fixture(scope="session")
def runs(shared_runs: SharedRuns) -> Path:
    """The folder of the shared runs and their data."""
    return shared_runs.build("lm", "mlm", "restore", "pairs", "exportable", "ngram")


@pytest.fixture(scope="session")
def lstm(shared_runs: SharedRuns) -> Path:
    """A run of an LSTM with the vocabulary of the run pairs."""
    return shared_runs.build("lstm") / "lstm"


@pytest.fixture(scope="session")
def back(shared_runs: SharedRuns) -> Path:
    """A run of an LSTM that translates from the second column of pairs.tsv to the first."""
    return shared_runs.build("back") / "back"


@pytest.fixture(scope="session")
def phrase(shared_runs: SharedRuns) -> Path:
    """A run of a phrase-based model, fitted on pairs.tsv."""
    return shared_runs.build("phrase") / "phrase"


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Let this process write files of at most so many bytes: native code gets errors as from a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
