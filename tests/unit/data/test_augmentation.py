"""Sampled subwords and word dropout: which tokens change, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.data.augmentation import SubwordSampling, WordDropout
from seqloom.data.batching import Position, collate
from seqloom.data.encoding import Numericalizer
from seqloom.data.loader import augmented, collator, local_collator
from seqloom.data.report import DataReport
from seqloom.data.store import Tokens
from seqloom.distributed.process_group import ProcessGroup
from seqloom.run.config import compose
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, UNK, Batch, Example

WORDS = ("low", "lower", "new", "newer", "wide", "widest", "walk", "walking")
PAIRS = [(f"<up> {a} {b} {c}", f"{b} {a}") for a in WORDS for b in WORDS for c in WORDS[:3]]
PLACE = Position(2, 5)
OPTIONS: dict[str, Any] = {"tokenizer": "bpe", "vocab_size": 330, "sampling_alpha": 0.5}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(TextConfig(**OPTIONS), lambda: PAIRS)


@pytest.fixture(scope="module")
def tokens(tokenizers: TokenizerPair) -> Tokens:
    encoder = Numericalizer(tokenizers, max_length=100, long="drop")
    return Tokens.of((Example(*pair) for pair in PAIRS), encoder, DataReport())


def _sampled(
    tokens: Tokens, pair: TokenizerPair, place: Position = PLACE, *, seed: int = 1, sides: Any = "both"
) -> Batch:
    sampling = SubwordSampling(TextConfig(**OPTIONS, sampling=sides), pair, longest=100, seed=seed)
    return sampling.collate(tokens, np.arange(0, len(PAIRS), 7), place)


def _texts(pair: TokenizerPair, ids: torch.Tensor | None) -> list[str]:
    assert ids is not None
    return [pair.target.decode(row) for row in ids.tolist()]


@pytest.mark.parametrize("sides", ["source", "target", "both"])
def test_sampled_sides_have_other_tokens_and_the_same_text(
    tokens: Tokens, tokenizers: TokenizerPair, sides: str
) -> None:
    stored, batch = collate(tokens, np.arange(0, len(PAIRS), 7)), _sampled(tokens, tokenizers, sides=sides)
    assert stored.target_out is not None and batch.target_out is not None and batch.target_in is not None
    assert torch.equal(batch.index, stored.index)
    assert _texts(tokenizers, batch.source) == _texts(tokenizers, stored.source)
    assert _texts(tokenizers, batch.target_out) == _texts(tokenizers, stored.target_out)
    assert _texts(tokenizers, batch.target_in) == _texts(tokenizers, stored.target_out)
    assert torch.equal(batch.source, stored.source) == (sides == "target")
    assert torch.equal(batch.target_out, stored.target_out) == (sides == "source")
    assert batch.target_tokens == int((batch.target_out != PAD).sum())


def test_segmentations_depend_on_seed_and_position_only(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    first = _sampled(tokens, tokenizers)
    for place, seed in ((Position(2, 6), 1), (Position(3, 5), 1), (PLACE, 2)):
        other = _sampled(tokens, tokenizers, place, seed=seed)
        assert not torch.equal(first.source[:, :3], other.source[:, :3])
    again = _sampled(tokens, tokenizers)
    assert torch.equal(first.source, again.source)
    assert first.target_out is not None and again.target_out is not None
    assert torch.equal(first.target_out, again.target_out)


def test_trees_stay_with_sources_that_are_not_sampled(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    ids = {**tokens.ids, "heads": np.zeros(len(tokens.ids["source"]), "<i4")}
    trees = Tokens(ids, {**tokens.offsets, "heads": tokens.offsets["source"]}, features=0)
    batch = _sampled(trees, tokenizers, sides="target")
    assert batch.source_heads is not None
    assert batch.source_heads.shape == batch.source.shape
    assert _sampled(trees, tokenizers, sides="source").source_heads is None


def _dropped(tokens: Tokens, pair: TokenizerPair, share: float, place: Position = PLACE) -> tuple[Batch, Batch]:
    indices = np.arange(len(PAIRS))
    drop = WordDropout(lambda tokens, indices, _: collate(tokens, indices), share, pair, seed=1)
    return collate(tokens, indices), drop.collate(tokens, indices, place)


def test_a_share_of_the_words_is_unknown_on_both_sides(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    before, after = _dropped(tokens, tokenizers, 0.2)
    [tag] = tokenizers.source.tags
    for old, new in ((before.source, after.source), (before.target_in, after.target_in)):
        assert old is not None and new is not None
        kept = (old <= UNK) | (old == tag)
        assert torch.equal(old[kept], new[kept])
        changed = old != new
        assert (new[changed] == UNK).all()
        assert changed.sum().item() / (~kept).sum().item() == pytest.approx(0.2, abs=0.04)
    assert before.target_out is not None and after.target_out is not None
    assert torch.equal(before.target_out, after.target_out)


def test_special_tokens_and_tags_survive_any_dropout(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    before, after = _dropped(tokens, tokenizers, 0.999)
    [tag] = tokenizers.source.tags
    assert set(after.source[:, 0].tolist()) == {tag}
    for id in (PAD, BOS, EOS, tag):
        assert torch.equal(before.source == id, after.source == id)


def test_dropped_words_depend_on_the_position_only(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    first, again = (_dropped(tokens, tokenizers, 0.2)[1].source for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, _dropped(tokens, tokenizers, 0.2, Position(2, 6))[1].source)


class _FrameTokens:
    """Tokenizers of a run whose sources are frames."""

    frames = True

    def __init__(self, pair: TokenizerPair) -> None:
        self.target = pair.target


def test_whole_frames_become_zeros(tokens: Tokens, tokenizers: TokenizerPair) -> None:
    frames = Tokens(
        {"source": np.ones(3 * 4 * 2, np.float32), "target": np.full(8, 70, np.uint16)},
        {"source": np.array([0, 5, 12]), "target": np.array([0, 4, 8])},
        features=2,
    )
    pair: Any = _FrameTokens(tokenizers)
    drop = WordDropout(lambda tokens, indices, _: collate(tokens, indices), 0.5, pair, seed=1)
    source = drop.collate(frames, np.arange(2), PLACE).source
    assert source.shape == (2, 7, 2)
    assert (source[..., 0] == source[..., 1]).all()
    assert 0 < source.sum() < 24


@pytest.mark.parametrize("size", [2, 3])
def test_the_processes_of_a_group_share_one_random_batch(
    tokens: Tokens, tokenizers: TokenizerPair, size: int
) -> None:
    values = {f"text.{name}": value for name, value in OPTIONS.items()}
    config = compose(values={**values, "text.sampling": "both", "train.word_dropout": 0.2})
    make_batch = augmented(
        collator(config.data.noise, tokenizers, 1, in_place=False),
        tokenizers,
        1,
        text=config.text,
        longest=100,
        word_dropout=config.train.word_dropout,
    )
    indices = np.arange(0, len(PAIRS), 5)
    whole = make_batch(tokens, indices, PLACE)
    shares = [
        local_collator(make_batch, ProcessGroup(rank, size), random=True)(tokens, indices, PLACE)
        for rank in range(size)
    ]
    assert {count for _, count in shares} == {whole.target_tokens}
    assert _rows(*(batch for batch, _ in shares)) == _rows(whole)


def _rows(*batches: Batch) -> dict[int, list[int]]:
    return {
        int(i): row[row != PAD].tolist()
        for batch in batches
        for i, row in zip(batch.index, batch.source, strict=True)
    }


def test_without_options_batches_are_not_changed(tokenizers: TokenizerPair) -> None:
    config = compose()
    make_batch = collator(config.data.noise, tokenizers, 1, in_place=False)
    same = augmented(make_batch, tokenizers, 1, text=config.text, longest=9, word_dropout=0.0)
    assert same is make_batch
