"""The benchmark of spoken digits: who is tested in which fold, what a run is made of, and the table."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from seqloom.errors import SeqloomError
from seqloom.run.data_settings import adapt_to_data


@pytest.fixture
def digits() -> ModuleType:
    return importlib.import_module("digits")


@pytest.fixture
def clips(digits: ModuleType, tmp_path: Path) -> Any:
    (tmp_path / "spoken-digits").mkdir()
    for name in ("3_theo_5", "3_theo_10", "3_theo_20", "0_lucas_9", "0_lucas_12", "0_lucas_13"):
        (tmp_path / "spoken-digits" / f"{name}.wav").touch()
    return digits.find_clips({"SEQLOOM_DATA": str(tmp_path)})


def test_file_names_hold_digit_speaker_and_take(digits: ModuleType, clips: Any) -> None:
    assert [(clip.word, clip.speaker, clip.take) for clip in clips][:2] == [
        ("zero", "lucas", 12),
        ("zero", "lucas", 13),
    ]
    with pytest.raises(SeqloomError, match=r"\.wav .*nowhere/spoken-digits"):
        digits.find_clips({"SEQLOOM_DATA": "nowhere"})


def test_a_recording_is_in_one_part_of_a_fold(digits: ModuleType, clips: Any, tmp_path: Path) -> None:
    def parts(fold: str) -> dict[str, list[str]]:
        tables = digits.write_tables(clips, fold, tmp_path / "tables")
        lines = {part: table.read_text().splitlines() for part, table in tables.items()}
        return {part: [Path(line.split("\t")[0]).stem for line in every] for part, every in lines.items()}

    assert parts("mixed") == {
        "train": ["0_lucas_13", "3_theo_20"],
        "valid": ["0_lucas_12", "3_theo_10"],
        "test": ["0_lucas_9", "3_theo_5"],
    }
    assert parts("theo") == {
        "train": ["0_lucas_12", "0_lucas_13"],
        "valid": ["0_lucas_9"],
        "test": ["3_theo_10", "3_theo_20", "3_theo_5"],
    }


def test_every_model_has_the_options_of_the_recipe(digits: ModuleType, clips: Any, tmp_path: Path) -> None:
    tables = digits.write_tables(clips, "mixed", tmp_path / "tables")
    recipe, other = (digits.configure(tables, name, 2) for name in ("lstm-additive", "transformer"))
    assert recipe.text == other.text and recipe.train.max_steps == other.train.max_steps
    assert adapt_to_data(recipe).text.kinds[0] == "frames"
    assert (other.model.name, other.model.size, other.train.seed) == ("transformer", "tiny", 2)


def test_the_table_has_a_mean_where_all_speakers_were_done(digits: ModuleType) -> None:
    def row(fold: str, model: str, right: float) -> dict[str, Any]:
        return {"fold": fold, "model": model, "seed": 1, "exact": right, "low": right - 1, "high": right + 1}

    every = [row(name, "lstm", 80.0 + place) for place, name in enumerate(digits.SPEAKERS)]
    lines = digits.table([row("mixed", "hmm", 97.0), row("mixed", "lstm", 98.0), *every]).splitlines()
    assert lines[0] == "| fold | `hmm` | `lstm` |"
    assert lines[2] == "| mixed | 97.0 [96.0, 98.0] | 98.0 [97.0, 99.0] |"
    assert lines[3] == "| george | – | 80.0 [79.0, 81.0] |"
    assert lines[-1] == "| new speakers, mean | – | 82.5 |"
