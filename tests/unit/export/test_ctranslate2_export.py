"""Verification of exports against the run, and selection of the engine."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.decode import select as engines
from seqloom.decode.select import load_translator
from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2 import cache as converted
from seqloom.export.ctranslate2 import convert as ctranslate2
from seqloom.export.ctranslate2.export import export_ctranslate2, is_export, load_exported
from seqloom.export.ctranslate2.translator import CTranslate2Translator
from seqloom.export.verify import compare, sentences
from seqloom.run.directory import Run
from seqloom.run.load import load, load_scorer
from seqloom.types import Hypothesis
from support.configs import TINY
from support.runs import train_run

pytest.importorskip("ctranslate2")

SETTINGS: dict[str, Any] = {
    **TINY,
    "model.width": 32,
    "model.ffn": 32,
    "train.max_steps": 30,
    "train.checkpoint_every": 15,
    "train.learning_rate": 0.01,
    "train.warmup": 10,
}
GREEDY = {"beam": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run after a little training."""
    folder = tmp_path_factory.mktemp("run")
    lines = [f"{a} {b} {c}\t{c.upper()} {a}\n" for a in "abcdef" for b in "ghi" for c in "jklm"]
    (folder / "pairs.tsv").write_text("".join(lines))
    return train_run(folder / "run", folder / "pairs.tsv", SETTINGS)


@pytest.fixture(scope="module")
def exported(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "deep" / "model"
    export_ctranslate2(run.folder, out)
    return out


def test_an_export_is_complete_and_reports_the_comparison(run: Run, exported: Path) -> None:
    report = json.loads((exported / "export.json").read_text())
    assert (report["to"], report["quantization"], report["positions"]) == ("ctranslate2", "float32", 2048)
    verified = report["verified"]
    assert verified["on"] == "the run's train data"
    assert set(verified["answers"]) == {"greedy", "beam 5"}
    greedy = verified["answers"]["greedy"]
    assert (greedy["sentences"], greedy["share"], greedy["first_other"]) == (64, 1.0, None)
    assert 0 < max(greedy["score_difference"], verified["token_score_difference"]) < 1e-4
    names = {path.name for path in exported.iterdir()}
    assert names >= {"model.bin", "config.json", "config.yaml", "tokenizer", "export.json"}
    assert is_export(exported) and not is_export(run.folder)
    assert str(run.folder) not in (exported / "export.json").read_text()
    lines = ["a g j", "f i m", ""]
    ours = load(run.folder).translate(lines, beam=1)
    assert [best[0].text for best in load_exported(exported).translate(lines, beam=1)] == [
        best[0].text for best in ours
    ]


def test_int8_is_smaller_and_reported(run: Run, exported: Path, tmp_path: Path) -> None:
    report = export_ctranslate2(run.folder, tmp_path / "int8", quantization="int8")
    assert report["quantization"] == "int8"
    assert report["verified"]["token_score_difference"] > 1e-4
    assert (tmp_path / "int8/model.bin").stat().st_size < (exported / "model.bin").stat().st_size


def test_a_deep_encoder_with_a_shallow_decoder_is_exported(run: Run, tmp_path: Path) -> None:
    pairs, settings = run.folder.parent / "pairs.tsv", {**SETTINGS, "model.name": "transformer-fast"}
    fast = train_run(tmp_path / "fast", pairs, {**settings, "model.layers": 6, "model.decoder_layers": 1})
    report = export_ctranslate2(fast.folder, tmp_path / "float")
    assert report["verified"]["answers"]["greedy"]["share"] == 1.0
    assert export_ctranslate2(fast.folder, tmp_path / "int8", quantization="int8")["quantization"] == "int8"


def test_an_export_with_different_outputs_is_refused_and_nothing_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ctranslate2._array
    monkeypatch.setattr(ctranslate2, "_array", lambda weight: right(weight)[..., ::-1].copy())
    with pytest.raises(
        SeqloomError, match=r"translates \d+ of 64 sentences differently from the run, first 'a g j'"
    ):
        export_ctranslate2(run.folder, tmp_path / "wrong")
    monkeypatch.setattr(ctranslate2, "_array", lambda weight: right(weight) * np.float32(1.003))
    with pytest.raises(SeqloomError, match=r"scores .* differ from those of the run by .* Nothing was written"):
        export_ctranslate2(run.folder, tmp_path / "wrong")
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused_before_any_work(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SeqloomError, match="already exists"):
        export_ctranslate2(run.folder, tmp_path)
    with pytest.raises(SeqloomError, match="There is no quantization called 'int4'"):
        export_ctranslate2(run.folder, tmp_path / "x", quantization="int4")
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(SeqloomError, match=r"empty.txt/x cannot be written: File exists"):
        export_ctranslate2(run.folder, tmp_path / "empty.txt" / "x")
    with pytest.raises(SeqloomError, match="has no line to verify the export with"):
        export_ctranslate2(run.folder, tmp_path / "x", verify=str(tmp_path / "empty.txt"))
    assert not (tmp_path / "x").exists()


def test_the_sentences_to_compare_on(run: Run, tmp_path: Path) -> None:
    config, tokenizer = run.config(), run.tokenizers().source
    (tmp_path / "own.txt").write_text("a g\n\nb h\n")
    assert sentences(config, tokenizer, str(tmp_path / "own.txt")) == (
        ["a g", "b h"],
        str(tmp_path / "own.txt"),
    )
    gone = config.model_copy(update={"data": config.data.model_copy(update={"train": ("gone.tsv",)})})
    lines, origin = sentences(gone, tokenizer, None)
    assert (len(lines), origin) == (64, "random pieces")
    assert lines == sentences(gone, tokenizer, None)[0]
    assert all(line.strip() for line in lines)


def test_how_outputs_are_compared() -> None:
    a, b, c = (
        Hypothesis(text, score, tokens=(text,)) for text, score in (("a", -1.0), ("a", -1.5), ("c", -9.0))
    )
    found = compare(["x", "y"], [[a], [a]], [[b], [c]])
    assert (found.sentences, found.equal, found.share, found.score_difference) == (2, 1, 0.5, 0.5)
    assert found.first_other == {"source": "y", "ours": "a", "theirs": "c"}
    assert compare([], [], []).share == 0


def test_auto_selects_ctranslate2_only_if_the_outputs_are_the_same(run: Run) -> None:
    for wanted, device, engine in (
        ({"search": GREEDY}, "cpu", "ctranslate2"),
        ({}, "cpu", "ctranslate2"),
        ({"search": {"beam": 3, "nbest": 2}}, "auto", "ctranslate2"),
        ({"search": {"stop": "ahead"}}, "cpu", "torch"),
        ({"search": {"no_repeat": 2}}, "cpu", "torch"),
        ({"search": GREEDY, "needs": {"alignment"}}, "cpu", "torch"),
        ({"needs": {"prefix"}}, "cpu", "torch"),
    ):
        assert load_translator(run.folder, device=device, **wanted).engine == engine
    assert load_translator(run.folder, "torch", search=GREEDY).engine == "torch"
    translator = load_translator(run.folder, "ctranslate2")
    lines = ["a g j", "", "d h k"]
    assert translator.engine == "ctranslate2"
    assert [best[0].text for best in translator.translate(lines, beam=1)] == [
        best[0].text for best in load(run.folder).translate(lines, beam=1)
    ]


def test_auto_without_the_package_or_for_another_shape(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "is_installed", lambda: False)
    assert load_translator(run.folder, search=GREEDY).engine == "torch"
    monkeypatch.undo()
    monkeypatch.setattr(engines, "obstacle", lambda settings: "its blocks have norms")
    assert load_translator(run.folder, search=GREEDY).engine == "torch"


def test_a_run_is_converted_once_and_again_for_other_weights(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SEQLOOM_CACHE", str(tmp_path))
    made = []
    real = converted.write_model
    monkeypatch.setattr(converted, "write_model", lambda *given: made.append(given[0]) or real(*given))
    for checkpoint in (None, None, "step-15", "step-15"):
        translator = load_translator(run.folder, "ctranslate2", checkpoint=checkpoint)
        assert isinstance(translator, CTranslate2Translator)
        assert translator.translate(["a g j"])[0][0].source_tokens == ("a", "g", "j")
    assert len(made) == 2
    assert len(list((tmp_path / "ctranslate2").iterdir())) == 2


def test_lines_that_are_too_long_are_translated_by_torch(run: Run) -> None:
    translator = load_translator(run.folder, "ctranslate2")
    assert isinstance(translator, CTranslate2Translator)
    translator._max_positions = 5
    lines = ["a g j " * 3, "a"]
    assert [best[0].text for best in translator.translate(lines, beam=1)] == [
        best[0].text for best in load(run.folder).translate(lines, beam=1)
    ]


def test_an_exported_folder_has_one_engine(exported: Path) -> None:
    translator = load_translator(exported, threads=1, scores=False)
    assert translator.engine == "ctranslate2"
    assert translator.translate(["a g j"])[0][0].token_log_probs == ()
    for engine, checkpoint in (("torch", None), ("auto", "best")):
        with pytest.raises(SeqloomError, match="is a model exported to CTranslate2"):
            load_translator(exported, engine, checkpoint=checkpoint)


def test_what_an_exported_folder_does_not_support_its_run_does(run: Run, exported: Path) -> None:
    with pytest.raises(SeqloomError, match="does not support alignments") as error:
        load_translator(exported).translate(["a g j"], alignment=True)
    assert error.value.hint == f"use the run that the model was exported from ({run.folder.name})"


def test_an_exported_folder_is_not_a_run(exported: Path, tmp_path: Path) -> None:
    for use in (
        lambda: export_ctranslate2(exported, tmp_path / "again"),
        lambda: load_scorer(exported),
    ):
        with pytest.raises(SeqloomError, match="is an exported model, not a run") as error:
            use()
        assert "exported from" in error.value.hint


def test_an_unknown_engine(run: Run) -> None:
    with pytest.raises(SeqloomError, match="There is no engine called 'ctranslate'") as error:
        load_translator(run.folder, "ctranslate")
    assert error.value.hint == "did you mean 'ctranslate2'?"


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def test_a_damaged_conversion_in_the_cache_is_replaced(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    before = load_translator(run.folder, "ctranslate2", search=GREEDY).translate(["a g j"])
    (file,) = tmp_path.rglob("model.bin")
    whole = file.read_bytes()
    _flip(file)
    after = load_translator(run.folder, "ctranslate2", search=GREEDY).translate(["a g j"])
    assert after == before
    assert file.read_bytes() == whole


def test_a_damaged_export_is_named(exported: Path, tmp_path: Path) -> None:
    shutil.copytree(exported, tmp_path / "model")
    _flip(tmp_path / "model" / "model.bin")
    with pytest.raises(SeqloomError, match=r"model\.bin is damaged: its checksum does not match"):
        load_translator(tmp_path / "model")
