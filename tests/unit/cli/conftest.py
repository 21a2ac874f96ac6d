"""The shared runs that most tests of commands use, and a full disk."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.runs import SharedRuns


@pytest.fixture(scope="session")
def runs(shared_runs: SharedRuns) -> Path:
    """Return the folder of the shared runs and their data."""
    return shared_runs.build("lm", "mlm", "restore", "pairs", "exportable", "ngram")


@pytest.fixture(scope="session")
def lstm(shared_runs: SharedRuns) -> Path:
    """Run of an LSTM with the vocabulary of the run pairs."""
    return shared_runs.build("lstm") / "lstm"


@pytest.fixture(scope="session")
def back(shared_runs: SharedRuns) -> Path:
    """Run of an LSTM that translates from the second column of pairs.tsv to the first."""
    return shared_runs.build("back") / "back"


@pytest.fixture(scope="session")
def phrase(shared_runs: SharedRuns) -> Path:
    """Run of a phrase-based model, fitted on pairs.tsv."""
    return shared_runs.build("phrase") / "phrase"


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Limit the size of files that this process writes: native code gets errors as from a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
