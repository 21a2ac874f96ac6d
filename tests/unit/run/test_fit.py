"""A toy fitted model: fitted, saved, loaded, generated from and scored."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from seqloom import registry
from seqloom.decode.config import SearchConfig
from seqloom.decode.translator import Outputs, Translator
from seqloom.errors import SeqloomError
from seqloom.inspect.facts import describe
from seqloom.registry import register
from seqloom.run.build import build_model
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import load, load_decoder, load_derivations, load_generator, load_scorer
from seqloom.run.train import continue_run, create, train
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FitData
from seqloom.types import EOS, Batch, Hypothesis, Request, Step, StepModel, Tree, Vocabularies


class ToySettings(ModelSettings):
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {"tiny": {}, "small": {}}
    name: str = "toy"


class Toy(StepModel):
    """Unigram model: p(token) is its relative frequency."""

    fits = 0

    def __init__(self, settings: ToySettings, vocabularies: Vocabularies) -> None:
        self.counts = torch.zeros(vocabularies.target)

    def fit(self, data: FitData) -> dict[str, float]:
        Toy.fits += 1
        seen = Counter(int(id) for i in range(len(data.train)) for id in data.train.target(i))
        for id, count in seen.items():
            self.counts[id] = count
        self.counts[EOS] = len(data.train)
        logging.getLogger("seqloom.toy").info("counted")
        return {"tokens": float(self.counts.sum())}

    def state_dict(self) -> dict[str, Tensor]:
        return {"counts": self.counts}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.counts = state["counts"]

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return batch.source_lengths, batch.source_lengths

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        log_probs = (self.counts / self.counts.sum()).log()
        return Step(log_probs.repeat(len(last), 1), state, None)


class Parrot(Toy):
    """A model with its own search that repeats its source."""

    def translator(
        self, tokenizers: object, search: SearchConfig, *, workers: int | None, length_ratio: float | None
    ) -> Echo:
        return Echo(search)

    @staticmethod
    def unsupported_options(search: SearchConfig) -> list[str]:
        return search.differing({"no_repeat"})


class Echo(Translator):
    engine, description, alternative = "parrot", "A parrot", "ask for less"
    capabilities = frozenset()  # type: ignore[assignment]

    def _translate(self, requests: list[Request], *_: object, **__: object) -> Outputs:
        return [[Hypothesis(request.source, 0.0)] for request in requests]


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.architectures()  # import the real ones first: they register only once
    monkeypatch.setattr(registry, "_ARCHITECTURES", dict(registry._ARCHITECTURES))
    about = {"summary": "s", "paper": "p", "settings": ToySettings, "fitted": True}
    register("toy", task="continue", defaults={"text.tokenizer": "char", "data.valid_share": 0}, **about)(Toy)
    register("parrot", defaults={"text.tokenizer": "word"}, **about)(Parrot)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("ab\naab\n" * 10)
    return path


def test_a_fitted_model_is_saved_and_used_like_any_other(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(text, out=out, model="toy", quiet=True)
    (score,) = load_scorer(out).score([("", "ab")])
    # 30 a, 20 b and 20 ends of 70 in all.
    assert score.log_probs == pytest.approx([math.log(3 / 7), math.log(2 / 7), math.log(2 / 7)], abs=1e-5)
    assert load_generator(out).tokenizer.settings.kind == "char"
    facts = describe(Run.open(out))
    assert facts["parameters"] == facts["vocabulary"]["target"]
    assert facts["best"]["tokens"] == 70


def test_given_options_override_the_defaults_of_a_model(text: Path) -> None:
    values = {"data.train": str(text), "model.name": "toy"}
    assert compose(values=values).text.tokenizer == "char"
    assert compose(values={**values, "text.tokenizer": "bpe"}).text.tokenizer == "bpe"


def test_an_interrupted_fit_starts_again_and_a_finished_one_does_not(text: Path, tmp_path: Path) -> None:
    run = create(compose(values={"data.train": str(text), "model.name": "toy"}), tmp_path / "run", quiet=True)
    before = Toy.fits
    assert continue_run(run, quiet=True).finished == "counted"
    assert continue_run(run, quiet=True).finished == "counted"
    assert Toy.fits == before + 1


def test_a_damaged_fit_is_an_error_and_a_missing_link_is_restored(text: Path, tmp_path: Path) -> None:
    run = create(compose(values={"data.train": str(text), "model.name": "toy"}), tmp_path / "run", quiet=True)
    first = continue_run(run, quiet=True)
    best = run.folder / "checkpoints" / "best"
    best.unlink()
    assert continue_run(run, quiet=True) == first
    assert best.readlink() == Path("step-1")
    (run.folder / "checkpoints" / "step-1" / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(SeqloomError, match=r"step-1/model\.safetensors is damaged"):
        continue_run(run, quiet=True)


def test_a_fitted_model_cannot_start_from_another_run(text: Path) -> None:
    values = {"data.train": str(text), "model.name": "toy", "train.init_from": "runs/other"}
    with pytest.raises(SeqloomError, match="cannot start from another run"):
        compose(values=values)


def test_a_fitted_model_has_no_layers(text: Path, tmp_path: Path) -> None:
    train(text, out=tmp_path / "run", model="toy", quiet=True)
    run = Run.open(tmp_path / "run")
    with pytest.raises(SeqloomError, match="toy is fitted, not trained by gradient"):
        build_model(run.config(), run.tokenizers())


def test_weights_that_do_not_fit_are_an_error(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    train(text, out=out, model="toy", quiet=True)
    monkeypatch.setattr(Toy, "load_state_dict", lambda self, state: state["others"])
    with pytest.raises(SeqloomError, match="others is missing"):
        load_generator(out)


def test_a_model_with_its_own_search_translates_but_not_token_by_token(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a b\tx y\nb a\ty x\n" * 10)
    train(pairs, out=tmp_path / "run", model="parrot", quiet=True)
    assert load(tmp_path / "run").translate(["polly"])[0][0].text == "polly"
    with pytest.raises(SeqloomError, match="its own search"):
        load_decoder(tmp_path / "run")
    ignored = {"search.no_repeat": 2}
    with pytest.raises(SeqloomError, match=r"parrot does not support search\.no_repeat=2"):
        train(pairs, out=tmp_path / "other", model="parrot", settings=ignored, quiet=True)
    with pytest.raises(SeqloomError, match="not probabilities"):
        load_scorer(tmp_path / "run")
    with pytest.raises(SeqloomError, match="forced decoding"):
        load_derivations(tmp_path / "run")
