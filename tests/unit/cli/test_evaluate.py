"""`seqloom evaluate`: several references, compared with sacreBLEU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from support.commands import Command


@pytest.fixture
def files(runs: Path, tmp_path: Path, command: Command) -> list[Path]:
    """Translations of text.txt by the run, and two files of references that agree with parts of them."""
    output = tmp_path / "output.txt"
    assert command("translate", runs / "pairs", runs / "text.txt", "--beam", 1, "--out", output).code == 0
    lines = output.read_text().splitlines()
    references = [
        [line if i % 2 == side else f"{line[: 9 + side]} {side}" for i, line in enumerate(lines)]
        for side in (0, 1)
    ]
    for name, texts in zip(("one.txt", "two.txt"), references, strict=True):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
    return [output, tmp_path / "one.txt", tmp_path / "two.txt"]


def test_every_target_file_is_a_reference(runs: Path, files: list[Path], command: Command) -> None:
    targets = [word for file in files[1:] for word in ("--target", file)]
    metrics = "bleu,chrf,ter,exact,wer"
    done = command(
        *("evaluate", runs / "pairs", "--source", runs / "text.txt", *targets),
        *("--beam", 1, "--metrics", metrics, "--json"),
    )
    scores = {score["name"]: score for score in json.loads(done.out)["scores"]}
    texts, *references = [file.read_text().splitlines() for file in files]
    for name, oracle in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        assert scores[name]["value"] == pytest.approx(oracle.corpus_score(texts, references).score)
        assert f"|{str(oracle.get_signature()).split('|')[0]}|" in scores[name]["signature"]
    assert all("nrefs:2" in score["signature"] for score in scores.values())
    assert scores["exact"]["value"] == 100  # every line equals one of its references
    assert scores["wer"]["value"] == 0
    assert oracle.corpus_score(texts, references[1:]).score > 0  # one file alone would give other scores


def test_suspicious_outputs_are_counted_for_every_run(runs: Path, lstm: Path, command: Command) -> None:
    tiny = ("--set", "search.longest=1", "--beam", 1)
    done = command("evaluate", runs / "pairs", runs / "pairs.tsv", "--compare", lstm, *tiny)
    assert done.code == 0, done.err
    for run in (runs / "pairs", lstm):
        assert f"suspicious: 20 of 20 outputs of {run} (cut: " in done.err
    assert "look at" not in done.out
