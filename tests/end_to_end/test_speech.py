"""Speech recognition: sound files as data, from the table to the output."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqloom
from seqloom.inspect.attention import attention_data
from seqloom.run.load import load, load_scorer
from support.commands import Command

PITCHES = {"low": 300, "middle": 900, "high": 2000}
QUICK: dict[str, Any] = {
    "model.width": 16,
    "model.layers": 1,
    "model.dropout": 0.0,
    "text.tokenizer": "char",
    "text.byte_fallback": False,
    "text.stack": 2,
    "train.max_steps": 60,
    "train.warmup": 5,
    "train.learning_rate": 0.02,
    "train.label_smoothing": 0.0,
    "train.batch_tokens": 400,
    "train.metrics": ["exact"],
    "train.validate_lines": 6,
    "search.beam": 2,
    "search.max_length_factor": 0.2,
    "search.max_length_extra": 8,
}
# A Transformer needs more and smaller steps.
TRANSFORMER = {"model.heads": 2, "model.ffn": 32, "train.max_steps": 200, "train.learning_rate": 0.005}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write tones of three pitches with their names to pairs.tsv and clips/; one file is missing."""
    made = tmp_path_factory.mktemp("speech")
    (made / "clips").mkdir()
    random, lines = np.random.default_rng(1), []
    for number in range(36):
        name, pitch = list(PITCHES.items())[number % 3]
        at = np.arange(800 + 80 * (number % 7)) / 8000
        sound = 9000 * np.sin(2 * np.pi * pitch * at) + random.normal(size=len(at)) * 300
        with wave.open(str(made / "clips" / f"{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            file.writeframes(sound.astype("<i2").tobytes())
        lines.append(f"clips/{number}.wav\t{name}\n")
    (made / "pairs.tsv").write_text("".join([*lines, "clips/gone.wav\tlow\n"]))
    (made / "test.tsv").write_text("".join(lines[:6]))
    return made


@pytest.fixture(scope="module", params=["lstm-additive", "transformer"])
def run(request: pytest.FixtureRequest, folder: Path) -> Path:
    out = folder / request.param
    settings = QUICK | (TRANSFORMER if request.param == "transformer" else {})
    seqloom.train(
        folder / "pairs.tsv",
        valid=folder / "test.tsv",
        out=out,
        model=request.param,
        settings=settings,
        plan="fixed",
        quiet=True,
    )
    return out


def test_models_learn_to_name_a_sound(run: Path, folder: Path) -> None:
    sounds = [str(folder / "clips" / f"{number}.wav") for number in range(3)]
    found = load(run).translate([*sounds[::-1], ""])
    assert [best[0].text for best in found] == [*list(PITCHES)[::-1], ""]


def test_unreadable_files_are_in_the_report(run: Path) -> None:
    report = json.loads((run / "data-report.json").read_text())
    assert report["dropped"] == 1
    assert report["lines"][0]["line"] == 37
    assert report["lines"][0]["reason"] == "unreadable features: the file does not exist"


def test_attention_has_times(run: Path, folder: Path) -> None:
    best = load(run).translate([str(folder / "clips" / "0.wav")], alignment=True)[0][0]  # type: ignore[call-arg]
    data = attention_data(best)
    assert data["source"][:3] == ["0.00s", "0.02s", "0.04s"] and len(data["source"]) == 5
    assert data["target"] == [*"low", "</s>"]
    assert np.asarray(data["weights"]).sum(axis=1) == pytest.approx(1, abs=1e-4)


def test_a_given_output_has_a_probability(run: Path, folder: Path) -> None:
    sound = str(folder / "clips" / "0.wav")
    right, wrong = load_scorer(run).score([(sound, "low"), (sound, "high")])
    assert right.log_prob > wrong.log_prob
    found = load(run).translate([sound])[0][0]
    assert right.log_prob == pytest.approx(found.log_prob, abs=1e-4)
    with pytest.raises(seqloom.SeqloomError, match="Pair 1 of 1 cannot be scored: its source has no frames"):
        load_scorer(run).score([("", "low")])


def test_commands_accept_paths(
    run: Path, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = folder / "lines.txt"
    lines.write_text("clips/2.wav\n\nclips/0.wav\n")
    assert command("translate", run, lines).out == "high\n\nlow\n"  # relative to the folder of the file
    measured = command("evaluate", run, folder / "test.tsv", "--metrics", "exact", "--json")
    assert json.loads(measured.out)["scores"][0]["value"] == 100
    monkeypatch.chdir(folder)
    assert command("translate", run, given=b"clips/1.wav\n").out == "middle\n"


def test_a_missing_sound_file_is_an_error(run: Path, command: Command) -> None:
    done = command("translate", run, given=b"\ngone.wav\n")
    assert done.code == 2
    assert "Line 2 of 2: gone.wav cannot be read as features: the file does not exist." in done.err
    assert "not the path of a" in command("translate", run, given=b"a text\n").err


def test_operations_that_support_only_text_are_rejected(run: Path, folder: Path, command: Command) -> None:
    lines = folder / "lines.txt"
    lines.write_text("clips/2.wav\n")
    results = [command("inspect", "search", run, "a.wav")]
    if run.name == "transformer":
        results.append(command("translate", run, lines, "--engine", "ctranslate2"))
        results.append(command("export", run, "--to", "ctranslate2", "--out", folder / "exported"))
    for done in results:
        assert done.code == 2
        assert "feature files, but this operation supports only text" in done.err
    assert not (folder / "exported").exists()
