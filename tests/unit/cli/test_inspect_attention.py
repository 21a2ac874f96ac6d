"""`seqloom inspect attention`: JSON, text, figures and errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from seqloom.run.load import load_decoder
from support.commands import Command

TEXT = "a man is running."


def test_weights_of_every_head_sum_to_one_and_their_mean_is_the_alignment(
    lstm: Path, runs: Path, command: Command
) -> None:
    for run, shape in ((runs / "pairs", (1, 2)), (lstm, (1, 1))):
        translator = load_decoder(run)
        ((best,),) = translator.translate([TEXT], alignment=True)
        done = command("inspect", "attention", run, TEXT, "--json")
        assert done.code == 0, done.err
        told = json.loads(done.out)
        layers, heads = len(told["weights"]), len(told["weights"][0])
        assert (layers, heads) == shape
        assert told["target"] == [*best.tokens, "</s>"]
        for t, row in enumerate(best.alignment[: len(told["target"])]):
            mean = [
                sum(told["weights"][i][j][t][s] for i in range(layers) for j in range(heads)) / (layers * heads)
                for s in range(len(row))
            ]
            assert mean == pytest.approx(row, abs=1e-4)


def test_attention_of_a_given_target(runs: Path, command: Command) -> None:
    told = json.loads(command("inspect", "attention", runs / "pairs", TEXT, "--target", "A DOG", "--json").out)
    assert "".join(told["target"][:-1]).replace("▁", " ").strip() == "A DOG"


@pytest.mark.parametrize("choice", [(), ("--mean",), ("--layer", 1, "--head", 2)])
def test_figures_of_all_heads_one_head_and_the_mean(
    runs: Path, command: Command, tmp_path: Path, choice: tuple[Any, ...]
) -> None:
    done = command("inspect", "attention", runs / "pairs", TEXT, "--out", tmp_path / "a.png", *choice)
    assert done.code == 0, done.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_file_it_is_drawn_in_characters(runs: Path, command: Command) -> None:
    shown = command("inspect", "attention", runs / "pairs", TEXT, "--layer", 1, "--head", 1).out
    assert "█" in shown and "(end)" in shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((TEXT, "--layer", 1), "--layer and --head"),
        ((TEXT, "--mean", "--layer", 1, "--head", 1), "--mean"),
        ((TEXT, "--layer", 2, "--head", 1), "no head 1 in layer 2"),
        ((" ",), "no attention to show"),
        ((TEXT, "--out", "a.gif"), "cannot be written as .gif"),
        ((TEXT, "--heads", "1 2"), "is not a dependency tree of"),
    ],
)
def test_requests_that_cannot_be_shown_are_errors(
    runs: Path, command: Command, given: tuple[Any, ...], message: str
) -> None:
    done = command("inspect", "attention", runs / "pairs", *given)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(("name", "kind"), [("transformer", "encoder"), ("transformer", "decoder")])
def test_self_attention_by_kind(shared_runs: Any, command: Command, name: str, kind: str) -> None:
    run = shared_runs.build(name) / name
    told = json.loads(command("inspect", "attention", run, "1 2", "--kind", kind, "--json").out)
    assert (told["version"], told["kind"]) == (1, kind)
    assert told["source"] == told["target"]


def test_the_default_kind_is_that_of_the_language_model(runs: Path, command: Command) -> None:
    for name, kind in (("lm", "decoder"), ("mlm", "encoder"), ("pairs", "cross")):
        done = command("inspect", "attention", runs / name, TEXT, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["kind"] == kind


def test_the_entropy_of_every_head_is_printed(runs: Path, command: Command) -> None:
    assert "entropy" in command("inspect", "attention", runs / "pairs", TEXT).out


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("pairs", ("--kind", "encoder"), "no self-attention in an encoder"),
        ("pairs", ("--kind", "heads"), "kind of attention"),
        ("lm", ("--kind", "cross"), "has no cross-attention"),
        ("lm", ("--target", "A DOG"), "takes no target"),
        ("mlm", ("--target", "A DOG"), "does not depend on a target"),
    ],
)
def test_kinds_that_a_model_does_not_have_are_errors(
    runs: Path, command: Command, name: str, given: tuple[str, ...], message: str
) -> None:
    done = command("inspect", "attention", runs / name, TEXT, *given)
    assert done.code == 2
    assert message in done.err


def test_raw_weights_are_not_shown_as_a_distribution(runs: Path, command: Command, tmp_path: Path) -> None:
    raw = Path(shutil.copytree(runs / "pairs", tmp_path / "raw", symlinks=True))
    lines = (raw / "config.yaml").read_text().splitlines()[:-1]  # without the checksum
    config = "\n".join(lines).replace("attention_weights: softmax", "attention_weights: raw")
    (raw / "config.yaml").write_text(config + "\n")
    for kind in ("cross", "encoder", "decoder"):
        done = command("inspect", "attention", raw, TEXT, "--kind", kind)
        assert done.code == 2
        assert "model.attention_weights=raw" in done.err and "do not sum" in done.err.replace("\n", " ")
    assert "attention" in command("translate", raw, "--alignment", "--json", given=TEXT).err
