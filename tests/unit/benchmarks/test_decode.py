"""The decoding benchmark: the stopwatch, the summary, the targets, the peers' weights, and a run of it all."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import seqloom
from seqloom.errors import SeqloomError

PAIRS = [(f"a b {word}", f"{word} y") for word in ("c", "d", "e", "f")]


@pytest.fixture
def module() -> Any:
    return importlib.import_module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned enough to end its outputs, of the shape that the peers can hold."""
    folder = tmp_path_factory.mktemp("decode")
    (folder / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS * 10), encoding="utf-8")
    settings = {
        "text.tokenizer": "char",
        "model.width": 16,
        "model.layers": 2,
        "model.heads": 2,
        "model.ffn": 24,
        "train.max_steps": 120,
        "train.checkpoint_every": 120,
        "train.learning_rate": 0.01,
        "train.warmup": 10,
        "train.threads": 1,
    }
    seqloom.train(folder / "pairs.tsv", out=folder / "run", settings=settings, plan="fixed", quiet=True)
    return folder / "run"


def result(decoders: ModuleType, seconds: float, outputs: list[str], latency: float = 0.01) -> Any:
    timing = decoders.Timing(seconds, [latency] * 9 + [10 * latency], outputs)
    return decoders.Result(2.0, {1: timing, 5: timing})


def summaries(module: Any, seconds: dict[str, list[float]]) -> Any:
    decode, decoders = module("decode"), module("decoders")
    toolkits = {name: decoders.Decoder(name, "1", "driver.py", {}) for name in seconds}
    outputs = {name: ["the cat sat on it", "x" if name == "opennmt" else "so it is now"] for name in seconds}
    results = {name: [result(decoders, s, outputs[name]) for s in runs] for name, runs in seconds.items()}
    return decode.summarise(toolkits, results, ["the cat sat on it", "so it is now"])


def test_stopwatch_counts_neither_loading_nor_warming_up(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stopwatch = module("stopwatch")
    clock = 0.0
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: clock)
    monkeypatch.setattr(stopwatch, "_BEGAN", 0.0)

    def load(options: dict[str, Any]) -> Any:
        nonlocal clock
        clock += 100

        def translate(lines: list[str], beam: int) -> list[str]:
            nonlocal clock
            clock += beam * len(lines)
            return [f"{options['prefix']} {line} {beam}" for line in lines]

        return translate

    task, found = tmp_path / "task.json", tmp_path / "result.json"
    content = {"lines": ["a", "b", "c"], "beams": [1, 5], "single": 2, "options": {"prefix": "it is"}}
    task.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["driver.py", str(task), str(found)])
    stopwatch.run(load)
    data = json.loads(found.read_text(encoding="utf-8"))
    assert data["start_to_first_output"] == 101
    assert data["searches"]["1"]["seconds"] == 3 and data["searches"]["5"]["seconds"] == 15
    assert data["searches"]["5"]["latencies"] == [5, 5]
    assert data["searches"]["5"]["outputs"] == ["it is a 5", "it is b 5", "it is c 5"]


def test_summary_has_medians_and_compares_with_our_torch_engine(module: Any) -> None:
    rows = summaries(module, {"seqloom-torch": [1.0, 2.0, 4.0], "opennmt": [4.0, 3.0, 5.0]})
    ours, peer = (row for row in rows if row.beam == 5)
    assert (ours.sentences_per_second, ours.slowest, ours.fastest) == (1.0, 0.5, 2.0)
    assert peer.ratio == 0.5 and ours.ratio == 1
    assert (ours.equal, peer.equal) == (2, 1)
    assert ours.bleu == pytest.approx(100) and peer.bleu < 90
    assert (ours.p50, ours.p95) == (10.0, 100.0)


def test_summary_without_our_torch_engine_has_no_ratio(module: Any) -> None:
    (row, _) = summaries(module, {"opennmt": [1.0]})
    assert row.ratio is None and row.equal is None


@pytest.mark.parametrize(("percent", "expected"), [(50, 2), (95, 4), (1, 1), (75, 3)])
def test_percentile_is_one_of_the_values(module: Any, percent: int, expected: int) -> None:
    assert module("decode").percentile([3, 1, 4, 2], percent) == expected


def test_targets_are_ratios_to_the_best_of_the_others(module: Any) -> None:
    seconds = {
        "seqloom-torch": [3.0],
        "seqloom-int8": [1.0],
        "ctranslate2-workers": [4.0],
        "ctranslate2-int8-workers": [2.0],
        "huggingface": [9.0],
        "opennmt": [6.0],
    }
    found = {target.what: target for target in module("decode").targets(summaries(module, seconds))}
    assert len(found) == 6
    peer = found["seqloom-torch to opennmt, beam 5"]
    assert (peer.ratio, peer.reached) == (pytest.approx(2), True)
    other = found["seqloom-torch to huggingface, beam 5"]
    assert (other.ratio, other.reached) == (pytest.approx(3), False)
    assert found["best of seqloom to best plain CTranslate2, greedy"].ratio == pytest.approx(2)
    assert found["the same by the p50 of single lines, beam 5"].ratio == pytest.approx(1)


def test_without_peers_there_are_no_targets(module: Any) -> None:
    assert module("decode").targets(summaries(module, {"seqloom-torch": [1.0]})) == []


def test_pegasus_has_the_weights_in_its_own_order(module: Any, run: Path, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from seqloom.export.marian.weights import alternating, blocks_from_marian
    from seqloom.nn.positions import sinusoids
    from seqloom.run.build import load_model
    from seqloom.run.directory import Run

    module("peer_models").write_huggingface(run, tmp_path / "model")
    theirs = load_file(tmp_path / "model" / "model.safetensors")
    model, _ = load_model(Run.open(run))
    state, order = model.state_dict(), alternating(16)
    again = blocks_from_marian(theirs, (2, 2), 16)
    assert all(tensor.equal(state[name]) for name, tensor in again.items())
    assert theirs["model.shared.weight"][:, order].equal(state["target_embedding.weight"])
    assert theirs["model.decoder.layer_norm.weight"][order].equal(state["decoder_norm.weight"])
    positions = theirs["model.encoder.embed_positions.weight"]
    assert positions[:, order].equal(sinusoids(torch.arange(len(positions)), 16))


def test_opennmt_has_every_weight_once(module: Any, run: Path) -> None:
    from seqloom.run.build import load_model
    from seqloom.run.directory import Run

    model, _ = load_model(Run.open(run))
    weights = module("peer_models")._opennmt_weights(model, 16)
    names = [name for name in weights if not name.endswith(("pe.pe", "emb_luts.0.weight"))]
    ours = {
        name: t
        for name, t in model.state_dict().items()
        if not name.startswith(("output", "source_", "target_"))
    }
    assert sum(weights[name].numel() for name in names) == sum(t.numel() for t in ours.values())
    block = "decoder.transformer_layers.1"
    own = "decoder.1.cross.key_value.weight"
    assert weights[f"{block}.context_attn.linear_keys.weight"].equal(ours[own][:16])
    assert weights[f"{block}.context_attn.linear_values.weight"].equal(ours[own][16:])


def test_a_shape_that_peers_do_not_have_is_refused(module: Any, run: Path, tmp_path: Path) -> None:
    other = tmp_path / "run"
    shutil.copytree(run, other)
    config = (other / "config.yaml").read_text(encoding="utf-8").replace("activation: relu", "activation: gelu")
    (other / "config.yaml").write_text(config.rpartition("#")[0], encoding="utf-8")  # without its checksum
    with pytest.raises(SeqloomError, match=r"model\.activation is gelu, not relu"):
        module("peer_models").write_opennmt(other, tmp_path / "model.pt")


def test_contestants_of_our_own_python_give_the_same_answers(module: Any, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    decoders = module("decoders")
    setup = decoders.Setup(run, tmp_path, tmp_path / "environments", threads=1, batch=2)
    lines = [source for source, _ in PAIRS]
    found = {}
    for name in ("seqloom-torch", "seqloom-ctranslate2", "ctranslate2-workers"):
        folder = tmp_path / f"{name}-0"
        folder.mkdir()
        decoder = decoders.SYSTEMS[name](setup)
        found[name] = decoders.run_decoder(decoder, setup, lines, (1, 2), single=1, folder=folder)
    greedy = {name: result.searches[1].outputs for name, result in found.items()}
    assert greedy["seqloom-torch"] == greedy["seqloom-ctranslate2"] == greedy["ctranslate2-workers"]
    assert all(len(result.searches[2].latencies) == 1 for result in found.values())


def test_the_log_of_a_failed_decoder_is_printed(
    module: Any, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decoders = module("decoders")
    setup = decoders.Setup(run, tmp_path, tmp_path, threads=1, batch=2)
    options = {"folder": str(run), "engine": "torch", "expected": "ctranslate2"}
    decoder = decoders.Decoder("ours", "1", "seqloom_translate.py", options)
    with pytest.raises(SeqloomError, match="exit code 1"):
        decoders.run_decoder(decoder, setup, ["a"], (1,), single=1, folder=tmp_path)
    assert "--engine torch selected torch" in capsys.readouterr().err
