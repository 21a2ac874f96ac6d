"""One comparison of tiny models that the tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqloom.compare import prepare
from seqloom.compare.folder import ComparisonFolder
from support.comparisons import compared, settings_for, write_pairs


@pytest.fixture(autouse=True, scope="session")
def _short_measurement() -> Iterator[None]:
    """Measure the speed of a model by a few updates."""
    patch = pytest.MonkeyPatch()
    patch.setattr(prepare, "_SPEED_SECONDS", 0.01)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def comparison(
    _short_measurement: None, _own_cache: None, tmp_path_factory: pytest.TempPathFactory
) -> ComparisonFolder:
    """A finished comparison, which no test changes."""
    folder = tmp_path_factory.mktemp("comparison")
    pairs = write_pairs(folder / "pairs.tsv")
    return compared(folder / "cmp", settings_for(pairs))[0]
