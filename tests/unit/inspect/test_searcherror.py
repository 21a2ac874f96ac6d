"""Search errors, compared with an enumeration of all outputs."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
import torch

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.options import BeamOptions
from seqloom.decode.pruned_model import PrunedModel, enough_to_rank, floor_to_win
from seqloom.decode.ranking import Ranking
from seqloom.decode.rules import Rules
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.searcherror import search_errors
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, Batch, Request, Tree
from support.step_models import TableModel
from support.tokenizers import char_tokenizers

LINES = ["a", "b", "", "c", "ab", "ca", "cc"]


class Random(TableModel):
    """StepModel with random log-probabilities for each (source, step, last token)."""

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        _, state = super().start(batch)
        return batch.source[:, :2].sum(dim=1) % len(self.log_probs), state


def _random(vocabulary: int) -> Random:
    return Random.random(vocabulary, 6, vocabulary, vocabulary, seed=1, scale=1.5)


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abc", "cba")


def _translator(tokenizers: TokenizerPair, **search: Any) -> TorchTranslator:
    return TorchTranslator(
        _random(tokenizers.target.size), tokenizers, SearchConfig(**{"longest": 4, **search})
    )


def _best(translator: TorchTranslator, line: str) -> float:
    """Return the highest score of all sequences that end within four tokens."""
    model, search = translator.model, translator.search
    assert isinstance(model, Random)
    memory, _ = model.start(translator.problem(Request(line), translator.search).sentence)
    ranking = Ranking(search.length_norm, search.length_penalty)
    scores = []
    for length in range(4):
        for words in product(range(EOS + 1, translator.tokenizers.target.size), repeat=length):
            path = [BOS, *words, EOS]
            steps = enumerate(pairwise(path))
            total = sum(float(model.log_probs[memory[0], t, last, token]) for t, (last, token) in steps)
            scores.append(ranking.score(total, length + 1))
    return max(scores)


@pytest.mark.parametrize("norm", ["none", "length"])
def test_errors_are_relative_to_the_best_of_all_outputs(tokenizers: TokenizerPair, norm: str) -> None:
    translator = _translator(tokenizers, length_norm=norm)
    found = search_errors(translator, LINES, [1, 2, 50])
    lines = [line for line in LINES if line]
    assert (found.sentences, found.proved) == (6, 6)
    best = [_best(translator, line) for line in lines]
    for one in found.beams:
        answers = [hypotheses[0] for hypotheses in translator.translate(lines, beam=one.beam)]
        gaps = [mark - answer.score for mark, answer in zip(best, answers, strict=True) if answer.finished]
        missed = [gap for gap in gaps if gap > 1e-6]
        assert one.missed == len(missed) + sum(not answer.finished for answer in answers)
        assert one.share == one.missed / 6
        assert one.gap == (pytest.approx(sum(missed) / len(missed)) if missed else None)
    greedy, _, wide = found.beams
    assert greedy.missed > 0  # otherwise the test shows little
    assert wide.missed == 0


def test_without_proof_errors_are_relative_to_the_best_beam(tokenizers: TokenizerPair) -> None:
    translator = _translator(tokenizers)
    found = search_errors(translator, LINES, [1, 50], expand=1)
    assert found.proved < found.sentences
    assert found.beams[1].missed == 0
    full = search_errors(translator, LINES, [1, 50])
    assert found.beams[0] == full.beams[0]  # the wide beam finds the best output


def test_empty_best_outputs_are_counted(tokenizers: TokenizerPair) -> None:
    translator = _translator(tokenizers, length_norm="none")
    model = translator.model
    assert isinstance(model, Random)
    model.log_probs[:, :, :, EOS] = -0.01
    found = search_errors(translator, LINES, [1])
    assert (found.proved, found.proved_empty, found.beams[0].missed) == (6, 6, 0)


def test_no_lines_are_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match="no lines to translate"):
        search_errors(_translator(tokenizers), ["", " "], [1])


def test_progress_is_reported(tokenizers: TokenizerPair) -> None:
    told: list[int] = []
    search_errors(_translator(tokenizers), LINES, [1], on_progress=told.append)
    assert sum(told) == 6


@pytest.mark.parametrize("reward", [0.0, 0.3])
@pytest.mark.parametrize("norm", ["none", "length", "gnmt"])
def test_no_score_below_the_floor_can_win(norm: Any, reward: float) -> None:
    ranking = Ranking(norm, 0.8, reward)
    floor = floor_to_win(ranking, -0.7, longest=9)
    assert all(ranking.score(floor - 1e-6, length) < -0.7 for length in range(1, 10))
    assert any(ranking.score(floor + 1e-3, length) > -0.7 for length in range(1, 10))


def test_a_step_keeps_its_most_likely_tokens_and_those_of_a_prefix(tokenizers: TokenizerPair) -> None:
    model = _random(tokenizers.target.size)
    memory, state = model.start(collate_ids([[4]], None, range(1)))
    last = torch.tensor([BOS])
    whole = model.step(memory, state, last).log_probs[0]
    order = whole.argsort(descending=True).tolist()
    few = PrunedModel(model, most=2, always=order[-1:]).step(memory, state, last).log_probs[0]
    assert few.isfinite().nonzero().flatten().tolist() == sorted([*order[:2], order[-1]])
    high = PrunedModel(model, floor=float(whole[order[2]])).step(memory, state, last).log_probs[0]
    assert high.isfinite().nonzero().flatten().tolist() == sorted(order[:3])


def test_tokens_that_rules_may_exclude_are_added_to_the_ranks() -> None:
    plan = BeamOptions(4, groups=2, diversity=1.0, rules=Rules(forbidden=[[5], [6, 7]], no_repeat=2))
    assert enough_to_rank(BeamOptions(4), 16, longest=30) == 19
    assert enough_to_rank(plan, 8, longest=30) == 8 + 4 + 3 + 2 + 30
