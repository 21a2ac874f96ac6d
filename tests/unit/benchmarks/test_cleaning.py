"""The benchmark of `seqloom data clean`: how pairs are spoiled, and how the result is read."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("cleaning")


PAIRS = [(f"source {i} of {i % 7}", f"target {i} " + "word " * (i % 5) + "end") for i in range(1000)]


def test_lines_are_spoiled_as_their_kind_says(benchmark: Any) -> None:
    pairs, kinds = benchmark.spoil(PAIRS, 0.05, Random(1))
    others = dict.fromkeys(("copied", "cut", "repeated"), 10)
    assert Counter(kinds) == {"good": 920, "shuffled": 25, "similar length": 25, **others}
    originals = dict(PAIRS)
    for place, ((source, target), kind) in enumerate(zip(pairs, kinds, strict=True)):
        match kind:
            case "good":
                assert originals[source] == target
            case "copied":
                assert target == source
            case "cut":
                assert originals[source].startswith(target) and originals[source] != target
            case "repeated":
                earlier = [(a.upper(), b.upper()) for a, b in pairs[:place]]
                assert (source, target) in earlier
            case _:
                assert originals[source] != target in originals.values()


def test_the_same_seed_spoils_the_same_lines(benchmark: Any) -> None:
    one, same, other = (benchmark.spoil(PAIRS, 0.05, Random(seed)) for seed in (1, 1, 2))
    assert one == same != other


def test_a_measurement_counts_dropped_lines_by_kind(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: str) -> None:
        out = arguments[arguments.index("--out") + 1]
        rows = ["file\tline\trule", "a\t1\tduplicate", "a\t3\talignment", 'a\t4\t"script']
        Path(f"{out}.dropped.tsv").write_text("".join(f"{row}\n" for row in rows))

    monkeypatch.setattr(benchmark, "run_seqloom", run)
    kinds = ["good", "good", "shuffled", "cut", "similar length", "copied", "repeated"]
    found = benchmark.measure("x", tmp_path / "x.jsonl", kinds, "default", ())
    nothing = dict.fromkeys(("similar length", "copied", "repeated"), 0.0)
    assert found.found == {"good": 0.5, "shuffled": 1.0, "cut": 1.0, **nothing}
    assert found.good_by_rule == {"duplicate": 1}
    assert "| x | 7 | default | 100.0 | 0.0 | 0.0 | 100.0 | 0.0 | 50.00 (duplicate 1) |" in benchmark.table(
        [found]
    )
