from __future__ import annotations

import re
from pathlib import Path

import pytest

from seqloom.evaluate.metrics import METRICS, evaluate

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "evaluation.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(example, {})
    assert "PER 6.7" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in METRICS if name != "bleu:13a"])
def test_every_metric_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_documented_signatures_are_current() -> None:
    bleu = evaluate(["a b"], [["a b"]], "bleu")[0].signature
    per = evaluate(["a", "b"], [["a"], ["b", "c"]], "per")[0].signature
    for signature in (bleu, per):
        assert _without_versions(signature) in _without_versions(PAGE)


def _without_versions(text: str) -> str:
    return re.sub(r"\d+\.\d+\.\d+", "N", text)
