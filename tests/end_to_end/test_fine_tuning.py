"""Fine-tuning as docs/guides/fine-tuning.md describes it: a mixture with the old corpus prevents forgetting."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.corpus import Corpus
from seqloom.run.config import compose
from seqloom.run.directory import Run
from seqloom.run.load import load
from seqloom.run.train import continue_run, create
from support.configs import LEARNER, TINY_TRANSFORMER
from support.runs import write_lines

MODEL = {**LEARNER, **TINY_TRANSFORMER, "model.width": 32, "data.valid_share": 0.05, "search.longest": 8}


def pairs(domain: str, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield three digits and, in the old domain, the same digits; in the new domain, each of them plus one."""
    draw = random.Random(seed)
    for _ in range(count):
        digits = [draw.randrange(10) for _ in range(3)]
        outputs = [(digit + (domain == "new")) % 10 for digit in digits]
        yield f"{domain} {' '.join(map(str, digits))}", " ".join(map(str, outputs))


def accuracy(run: Run, domain: str) -> float:
    """Return the share of correct outputs for 40 lines."""
    test = list(pairs(domain, 40, seed=3))
    outputs = load(run.folder).translate([source for source, _ in test])
    return sum(found[0].text == target for found, (_, target) in zip(outputs, test, strict=True)) / 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """Return a folder with a large old corpus, a small new one, and a run that was trained on the old one."""
    made = tmp_path_factory.mktemp("fine-tuning")
    for domain, count in (("old", 600), ("new", 60)):
        write_lines(made / f"{domain}.tsv", map("\t".join, pairs(domain, count, seed=1)))
    write_lines(made / "valid.tsv", map("\t".join, pairs("new", 20, seed=2)))
    train(made / "general", **{"data.train": str(made / "old.tsv"), "train.max_steps": 250})
    return made


def train(out: Path, **settings: Any) -> Run:
    run = create(compose(values={**MODEL, **settings}), out, quiet=True)
    continue_run(run, quiet=True)
    return run


def fine_tune(folder: Path, name: str, *corpora: str, **settings: Any) -> Run:
    given = {
        "data.train": [str(folder / corpus) for corpus in corpora],
        "data.valid": str(folder / "valid.tsv"),
        "train.init_from": str(folder / "general"),
        "train.max_steps": 150,
        "train.warmup": 20,
        "train.checkpoint_every": 150,
    }
    return train(folder / name, **{**given, **settings})


def test_a_mixture_prevents_forgetting(folder: Path) -> None:
    assert accuracy(Run.open(folder / "general"), "old") > 0.8
    alone = fine_tune(folder, "alone", "new.tsv")
    both = fine_tune(folder, "both", "new.tsv", "old.tsv", **{"data.weights": [1, 1]})
    assert accuracy(alone, "old") < 0.5 < 0.8 < accuracy(both, "old")
    assert accuracy(both, "new") > accuracy(Run.open(folder / "general"), "new")


def test_half_of_an_epoch_is_from_each_corpus_and_the_tokenizers_are_those_of_the_run(folder: Path) -> None:
    weights = {"data.weights": [1, 1], "train.max_steps": 1}
    run = fine_tune(folder, "shares", "new.tsv", "old.tsv", **weights)
    config, tokenizers = run.config(), run.tokenizers()
    assert tokenizers.fingerprint == Run.open(folder / "general").tokenizers().fingerprint
    prepared = Corpus(config.data, config.text).reopen(run.data_record(), tokenizers)
    batches = prepared.batches(batch_tokens=300, seed=1)
    firsts = Counter(prepared.store.source(i)[0] for batch in batches.epoch(0) for i in batch)  # type: ignore[union-attr]
    assert sorted(firsts.values()) == [330, 330]
