"""Settings of a comparison from options and YAML files, and the split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.compare.settings import LADDER, MINUTES, CompareSettings, compare_settings
from seqloom.compare.split import split
from seqloom.errors import SeqloomError
from seqloom.types import Example


def test_the_default_is_the_ladder_for_ten_minutes() -> None:
    settings, out = compare_settings(None, {"pairs": ["a.tsv"], "minutes": None})
    assert list(settings.models) == list(LADDER) and settings.minutes == MINUTES == 10 and out is None
    assert settings.budget == "10 minutes"
    assert settings.options("word-based")["model.aligner"] == "ibm1"
    assert settings.options("gru-last") == {"model.name": "gru-last"} if "gru-last" in settings.models else True


def test_a_file_has_the_same_keys_and_options_replace_them(tmp_path: Path) -> None:
    file = tmp_path / "compare.yaml"
    file.write_text(
        "pairs: a.tsv\nminutes: 3\nseeds: 2\nset: train.threads=1\nout: cmp\n"
        "models:\n- phrase\n- wide: {model.name: transformer, model.width: 512}\n"
    )
    settings, out = compare_settings(file, {"steps": 50})
    assert (settings.pairs, settings.steps, settings.minutes, settings.seeds) == (("a.tsv",), 50, None, 2)
    assert settings.models == {"phrase": {}, "wide": {"model.name": "transformer", "model.width": 512}}
    assert settings.options("wide")["model.width"] == 512 and settings.set == ("train.threads=1",)
    assert out == "cmp" and settings.budget == "50 updates"
    assert list(compare_settings(file, {"models": "transformer, lstm-last"})[0].models) == [
        "transformer",
        "lstm-last",
    ]


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"minutes": 1, "steps": 1}, "budget is given twice"),
        ({"pairs": ()}, "give either tables of pairs"),
        ({"source": "a", "target": "b"}, "give either tables of pairs"),
        ({"models": "a,b,a"}, "named twice"),
        ({"models": {"../a": {}}}, "not a valid name"),
        ({"seeds": 0}, "seeds"),
        ({"minute": 3}, "minute"),
    ],
)
def test_wrong_settings_are_errors(values: dict[str, Any], match: str) -> None:
    with pytest.raises(SeqloomError, match=match):
        CompareSettings.checked({"pairs": "a.tsv", **values}, "compare")


def test_the_split_depends_on_the_sources_only(tmp_path: Path) -> None:
    examples = [Example(f"line {i % 700}", str(i), i) for i in range(1000)]

    def written(name: str, order: list[Example]) -> dict[str, set[tuple[str, str]]]:
        folder = tmp_path / name
        folder.mkdir()
        sizes = split(lambda: order, len(order), lambda part: folder / part)
        found = {}
        for part, size in sizes.model_dump().items():
            rows = [json.loads(line) for line in (folder / part).read_text().splitlines()]
            assert len(rows) == size
            found[part] = {(row["source"], row["target"]) for row in rows}
        return found

    parts = written("first", examples)
    assert written("second", examples[::-1]) == parts
    assert sum(map(len, parts.values())) == 1000
    assert 60 < len(parts["test"]) < 140 and 25 < len(parts["valid"]) < 80
    sources = [{source for source, _ in part} for part in parts.values()]
    assert sum(map(len, sources)) == 700  # equal sources are in one part
