from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seqloom.data.batching import collate_ids
from seqloom.decode.beam_search import beam_search
from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.generation import ContinuationModel, Generator
from seqloom.decode.options import BeamOptions
from seqloom.decode.ranking import Ranking
from seqloom.errors import SeqloomError
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, Batch, Step, StepModel, Tree, select_rows
from support.step_models import random_model

LINES = ["a bad cab", "dad cab a bad", "cab dad"]


def _tokenizer(kind: Any, **options: Any) -> Tokenizer:
    config = TextConfig(tokenizer=kind, byte_fallback=False, **options)
    return TokenizerPair.train(config, lambda: [(line, line) for line in LINES] * 20).source


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    return _tokenizer("char")


class Cycle(StepModel):
    """StepModel that almost surely follows `order`, and records the tokens that it reads."""

    def __init__(self, tokenizer: Tokenizer, order: str) -> None:
        ids = [*tokenizer.encode(order), EOS]
        self.next = torch.full((tokenizer.size,), ids[0])
        for one, other in pairwise(ids):
            self.next[one] = other
        self.size = tokenizer.size
        self.heard: list[list[int]] = []

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        assert (batch.source == EOS).all()  # the source of plain text is empty
        return batch.source, torch.zeros(len(batch.source), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        self.heard.append(last.tolist())
        return Step((12.0 * one_hot(self.next[last], self.size)).log_softmax(-1), state + 1, None)


@pytest.fixture(scope="module")
def language_model() -> tuple[Any, Tokenizer]:
    """Return a small language model with random weights."""
    tokenizer = _tokenizer("char")
    return random_model("lm", tokenizer.size, seed=4).requires_grad_(False), tokenizer


def _generator(model: Any, tokenizer: Tokenizer, *, max_length: int = 12, **search: Any) -> Generator:
    return Generator(model, tokenizer, SearchConfig(**search), max_length=max_length)


def test_texts_continue_the_prompt(characters: Tokenizer) -> None:
    generator = _generator(Cycle(characters, "abcd"), characters)
    for found in (
        generator.beam(["", "a", "dbc"], beam=2),
        generator.sample(["", "a", "dbc"], SamplingConfig(temperature=0)),
    ):
        assert [best[0].text for best in found] == ["abcd", "abcd", "dbcd"]
        assert [best[0].tokens for best in found] == [("a", "b", "c", "d"), ("b", "c", "d"), ("d",)]
        assert [len(best[0].token_log_probs) for best in found] == [5, 4, 2]  # including the end
        assert all(best[0].finished for best in found)
        for best in found:
            assert best[0].log_prob == pytest.approx(sum(best[0].token_log_probs), abs=1e-6)
            assert -0.01 < best[0].log_prob <= 0  # of the continuation, without the prompt


def test_the_model_reads_the_prompt_once(characters: Tokenizer) -> None:
    model = Cycle(characters, "abcd")
    _generator(model, characters).beam(["dbc"], beam=1)
    d, b, c = characters.encode("dbc")
    assert model.heard == [[BOS], [d], [b], [c], [d]]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word"])
def test_trailing_spaces_of_a_prompt_are_dropped(kind: Any) -> None:
    tokenizer = _tokenizer(kind, vocab_size=20, collapse_spaces=False)
    generator = _generator(Cycle(tokenizer, "cab"), tokenizer)
    assert generator.encode("a bad \t ") == tokenizer.encode("a bad")


def test_character_tokenizers_keep_spaces(characters: Tokenizer) -> None:
    tokenizer = _tokenizer("char", collapse_spaces=False)
    generator = _generator(Cycle(tokenizer, "a"), tokenizer)
    assert tokenizer.pieces(generator.encode("ab ")) == ["a", "b", "▁"]


def test_the_maximum_length_includes_prompt_and_end(characters: Tokenizer) -> None:
    generator = _generator(Cycle(characters, "abcd"), characters, max_length=4)
    for limit, text, finished in ((None, "abcd", False), (3, "abc", False), (5, "abcd", True)):
        for (found,) in (
            generator.beam(["ab"], beam=2, max_length=limit),
            generator.sample(["ab"], SamplingConfig(temperature=0), max_length=limit),
        ):
            assert (found[0].text, found[0].finished) == (text, finished)


def test_a_prompt_that_is_too_long_is_an_error(characters: Tokenizer) -> None:
    generator = _generator(Cycle(characters, "abcd"), characters)
    for call in (
        lambda: generator.beam(["abc"], beam=1, max_length=3),
        lambda: generator.sample(["a", "abc"], SamplingConfig(), max_length=3),
    ):
        with pytest.raises(SeqloomError, match=r"The prompt has 3 tokens") as error:
            call()
        assert "--max-length" in error.value.hint


def test_samples_depend_only_on_seed_and_prompt(language_model: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = language_model
    prompts = ["", "a", "bad ca", "dad"]
    options = SamplingConfig(samples=3, seed=5)
    together = _generator(model, tokenizer).sample(prompts, options)
    assert [len(samples) for samples in together] == [3] * 4
    for batch_tokens in (1, 80):
        generator = _generator(model, tokenizer, batch_tokens=batch_tokens)
        assert [[one.text for one in samples] for samples in generator.sample(prompts, options)] == [
            [one.text for one in samples] for samples in together
        ]
    for prompt, samples in zip(prompts, together, strict=True):
        (alone,) = _generator(model, tokenizer).sample([prompt], options)
        assert [one.text for one in alone] == [one.text for one in samples]
        assert all(one.text.startswith(prompt) for one in samples)
    other = _generator(model, tokenizer).sample(prompts, SamplingConfig(samples=3, seed=6))
    assert other != together


def test_log_probabilities_equal_those_of_the_steps(language_model: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = language_model
    generator = _generator(model, tokenizer)
    found = [*generator.sample(["ba"], SamplingConfig(samples=2))[0], *generator.beam(["ba"], 3, nbest=2)[0]]
    for one in found:
        memory, state = model.start(collate_ids([[]], None, [0]))
        last, values = BOS, []
        for token in [*tokenizer.encode(one.text), *([EOS] if one.finished else [])]:
            step = model.step(memory, state, torch.tensor([last]))
            values.append(float(step.log_probs[0, token]))
            last, state = token, step.state
        assert one.token_log_probs == pytest.approx(values[2:], abs=1e-5)


def test_an_exhaustive_beam_finds_the_best_continuation(language_model: tuple[Any, Tokenizer]) -> None:
    """A beam as large as the search space finds the best text that begins with the prompt."""
    model, tokenizer = language_model
    prompt, limit = tokenizer.encode("ca"), 3
    (found,) = beam_search(
        ContinuationModel(model, prompt),
        collate_ids([[]], None, [0]),
        BeamOptions(600, Ranking(alpha=0)),
        max_lengths=[limit],
    )
    best = max(found, key=lambda one: (one.finished, one.score))
    scores = {}
    for first in range(3, tokenizer.size):
        for second in range(3, tokenizer.size):
            for tokens in ([], [first], [first, second]):
                batch = collate_ids([[]], [[*prompt, *tokens]], [0])
                assert batch.target_out is not None
                values = model(batch)[0].log_softmax(-1).gather(1, batch.target_out[0].unsqueeze(1))
                scores[tuple(tokens)] = float(values[len(prompt) :].sum())
    assert tuple(best.tokens) == max(scores, key=lambda tokens: scores[tokens])
    assert best.score == pytest.approx(max(scores.values()), abs=1e-5)


def test_rows_can_be_selected_after_a_prompt(language_model: tuple[Any, Tokenizer]) -> None:
    model, tokenizer = language_model
    behind = ContinuationModel(model, tokenizer.encode("ab"))
    memory, state = behind.start(collate_ids([[]], None, [0]))
    state = select_rows(state, torch.tensor([0, 0]))
    first = behind.step(memory, state, torch.tensor([BOS, BOS]))
    again = behind.step(memory, state, torch.tensor([BOS, BOS]))
    assert torch.equal(first.log_probs, again.log_probs)  # a step does not change the state
    tokens = torch.tensor(tokenizer.encode("cd"))
    assert not torch.allclose(*behind.step(memory, first.state, tokens).log_probs)
