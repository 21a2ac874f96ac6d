"""Documents of views, compared with the translator, the scorer and the model itself."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.errors import SeqloomError
from seqloom.inspect.labels import END
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import VIEWS, document, document_text
from seqloom.run.load import load_scorer
from seqloom.types import Request
from support.commands import Command
from support.golden import GOLDEN
from support.runs import SharedRuns

TEXT = "the old cat hides the dog ."


@pytest.fixture(scope="module")
def viewed() -> ViewedRun:
    return ViewedRun(GOLDEN / "fixtures" / "transformer", device="cpu")


def test_a_translation_is_that_of_the_translator(viewed: ViewedRun) -> None:
    found = document(viewed, "translation", {"text": TEXT, "beam": 4, "nbest": 3})
    expected = seqloom.load(viewed.run.folder, device="cpu").translate(TEXT, beam=4, nbest=3)
    assert [one["text"] for one in found["hypotheses"]] == [one.text for one in expected]
    for shown, one in zip(found["hypotheses"], expected, strict=True):
        assert shown["tokens"] == [*one.tokens, END]
        assert shown["log_probs"] == pytest.approx(list(one.token_log_probs), abs=1e-6)
        assert math.fsum(shown["log_probs"]) == pytest.approx(shown["log_prob"], abs=1e-5)
    assert json.loads(document_text(found)) == found


def test_forced_tokens_are_a_prefix(viewed: ViewedRun, command: Command, tmp_path: Path) -> None:
    free = document(viewed, "translation", {"text": TEXT})["hypotheses"][0]
    forced = document(viewed, "translation", {"text": TEXT, "prefix_tokens": ["le", "arbre"]})
    assert forced["hypotheses"][0]["tokens"][:2] == ["le", "arbre"] != free["tokens"][:2]
    assert forced["hypotheses"][0]["log_prob"] < free["log_prob"]
    typed = document(viewed, "translation", {"text": TEXT, "prefix_tokens": ["le"], "prefix": "arbre"})
    assert typed == forced
    (tmp_path / "a.tsv").write_text(f"{TEXT}\tle arbre\n", encoding="utf-8")
    done = command(
        "translate", viewed.run.folder, tmp_path / "a.tsv", "--prefix-column", "2", "--engine", "torch"
    )
    assert done.out.strip() == forced["hypotheses"][0]["text"]


def test_subwords_are_forced_exactly(shared_runs: SharedRuns) -> None:
    viewed = ViewedRun(shared_runs.build("lstm") / "lstm", device="cpu")
    tokenizer = viewed.opened().tokenizers.target
    (first, second), text = tokenizer.pieces(tokenizer.encode("A MAN"))[:2], "a man"
    backwards = (second, first)  # encoding their text may give other tokens
    found = document(viewed, "translation", {"text": text, "prefix_tokens": backwards, "nbest": 1, "beam": 1})
    assert tuple(found["hypotheses"][0]["tokens"][:2]) == backwards
    request = Request(text, backwards)
    assert viewed.torch_translator().translate(request, beam=1)[0].tokens[:2] == backwards


def test_alternatives_are_the_distribution_of_the_model(viewed: ViewedRun) -> None:
    fields = {"text": TEXT, "prefix_tokens": ["le"], "count": 4, "continued": 2, "token": "rouge"}
    found = document(viewed, "alternatives", fields)
    rows = found["alternatives"]
    scorer = load_scorer(viewed.run.folder, device="cpu")
    for row in rows[:4]:  # the scorer computes all positions at once, not step by step
        (score,) = scorer.score([(TEXT, f"le {row['token']}")])
        assert row["log_prob"] == pytest.approx(score.log_probs[1], abs=1e-4)
        assert row["probability"] == pytest.approx(math.exp(row["log_prob"]), abs=1e-6)
    assert [row["rank"] for row in rows[:4]] == [1, 2, 3, 4]
    assert rows[4]["token"] == "rouge" and rows[4]["rank"] > 4 and "continuation" not in rows[4]
    outputs = [
        document(viewed, "translation", {"text": TEXT, "prefix_tokens": ["le", row["token"]]})
        for row in rows[:2]
    ]
    assert [row["continuation"] for row in rows[:2]] == [one["hypotheses"][0]["text"] for one in outputs]
    everything = document(viewed, "alternatives", {**fields, "count": 100, "continued": 0})["alternatives"]
    assert sum(row["probability"] for row in everything) == pytest.approx(1.0, abs=1e-2)


def test_a_score_is_that_of_the_scorer(viewed: ViewedRun) -> None:
    found = document(viewed, "score", {"text": TEXT, "target": "le chat ."})
    (expected,) = load_scorer(viewed.run.folder, device="cpu").score([(TEXT, "le chat .")])
    assert found["tokens"] == ["le", "chat", ".", END]
    assert found["log_prob"] == pytest.approx(expected.log_prob, abs=1e-6)


def test_samples_depend_on_the_seed(viewed: ViewedRun) -> None:
    def texts(**fields: object) -> list[str]:
        found = document(viewed, "translation", {"text": TEXT, "temperature": 2.0, "nbest": 4, **fields})
        return [one["text"] for one in found["hypotheses"]]

    assert texts() == texts(seed=1) != texts(seed=2)
    assert len(texts()) == 4 and len(texts(temperature=0.0)) == 1


def test_required_and_forbidden_words(viewed: ViewedRun) -> None:
    fields = {"text": TEXT, "require": ["rouge"], "forbid": ["chat"]}
    for one in document(viewed, "translation", fields)["hypotheses"]:
        assert "rouge" in one["text"].split() and "chat" not in one["text"].split()


def test_attention_of_forced_tokens_is_that_of_their_text(viewed: ViewedRun) -> None:
    tokens = document(viewed, "attention", {"text": TEXT, "target_tokens": ["le", "chien"]})
    assert tokens == document(viewed, "attention", {"text": TEXT, "target": "le chien"})
    assert list(tokens["target"]) == ["le", "chien", END]


@pytest.mark.parametrize(
    ("name", "views", "attention"),
    [
        (
            "transformer",
            ["translation", "attention", "search", "influence", "layers", "embeddings", "positions", "curves"],
            ["cross", "encoder", "decoder"],
        ),
        (
            "lstm",
            ["translation", "attention", "search", "gates", "influence", "embeddings", "curves"],
            ["cross"],
        ),
        ("hmm", ["translation", "attention", "search", "hmm", "curves"], ["cross"]),
        ("phrase", ["translation", "stacks", "curves"], []),
        ("lm", ["attention", "embeddings", "positions", "curves"], ["decoder"]),
        ("mlm", ["attention", "positions", "curves"], ["encoder"]),
        ("hmm-lm", ["hmm", "curves"], []),
    ],
)
def test_every_view_of_a_model_has_a_document(name: str, views: list[str], attention: list[str]) -> None:
    viewed = ViewedRun(GOLDEN / "fixtures" / name, device="cpu")
    model = document(viewed, "model", {})
    assert (model["views"], model["attention"], model["name"]) == (views, attention, name)
    for view in views:
        found = document(viewed, view, {} if view in ("curves", "embeddings", "positions") else {"text": TEXT})
        assert found["view"] == view and found["version"] == 1
        assert json.loads(document_text(found))


def test_a_replaced_checkpoint_is_loaded(shared_runs: SharedRuns, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(shared_runs.build("transformer") / "transformer", tmp_path / "run")
    viewed = ViewedRun(tmp_path / "run", device="cpu")
    first = viewed.opened()
    assert viewed.opened() is first
    assert document(viewed, "translation", {"text": "1 2", "checkpoint": "step-2"})
    weights = viewed.run.weights().resolve()
    torch_time = weights.stat().st_mtime_ns + 1_000_000
    import os

    os.utime(weights, ns=(torch_time, torch_time))
    assert viewed.opened() is not first
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(SeqloomError, match="no longer exists"):
        viewed.opened()


def test_unknown_views_and_fields_are_errors(viewed: ViewedRun) -> None:
    with pytest.raises(SeqloomError, match="no view called"):
        document(viewed, "translations", {})
    for view in VIEWS:
        with pytest.raises(SeqloomError, match=r"view\.colour"):
            document(viewed, view, {"colour": 1, **({"target": "a"} if view in ("score", "verdict") else {})})
    assert torch.is_inference_mode_enabled() is False
