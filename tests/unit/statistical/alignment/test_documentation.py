"""docs/ladder/alignment.md: its example runs, and it names every model and symmetrisation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqloom.statistical.alignment.align import MODELS
from seqloom.statistical.alignment.symmetrise import METHODS

PAGE = (Path(__file__).parents[4] / "docs" / "ladder" / "alignment.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out == "[[0, 0], [1, 1]] [[0], [1], [2]]\n"


@pytest.mark.parametrize("name", [*MODELS, *METHODS])
def test_every_option_is_documented(name: str) -> None:
    assert f"`{name}`" in PAGE
