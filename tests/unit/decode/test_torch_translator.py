from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.pipeline import batches_by_length
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.text.pair import TokenizerPair
from seqloom.types import EOS, Batch, Request, Step, StepModel, Tree
from support.tokenizers import char_tokenizers

LINES = ["abc", "", "a", "cab bac", "b a", "ccccccccc"]


class Copier(StepModel):
    """StepModel that almost surely copies the source, with attention on the copied token."""

    def __init__(self, vocabulary: int, *, endless: bool = False) -> None:
        self.vocabulary = vocabulary
        self.endless = endless
        self.batches: list[int] = []

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        self.batches.append(len(batch.source))
        return batch.source, torch.zeros(len(batch.source), dtype=torch.long)

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        source = memory.repeat_interleave(len(last) // len(memory), dim=0)
        here = state.clamp_max(source.shape[1] - 1)
        wanted = source.gather(1, here.unsqueeze(1)).squeeze(1)
        if self.endless:
            wanted = wanted.where(wanted != EOS, 5)
        logits = 8.0 * one_hot(wanted, self.vocabulary)
        logits[:, EOS] -= 1.0  # an early end is less likely than any other token
        log_probs = logits.log_softmax(-1)
        return Step(log_probs, state + 1, one_hot(here, source.shape[1]).float()[:, None, None])


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abc cab", "cba bac")


def _translator(tokenizers: TokenizerPair, *, endless: bool = False, **search: Any) -> TorchTranslator:
    model = Copier(tokenizers.target.size, endless=endless)
    return TorchTranslator(model, tokenizers, SearchConfig(**search))


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_in_the_order_of_the_lines(tokenizers: TokenizerPair, batch_tokens: int, beam: int) -> None:
    translator = _translator(tokenizers, beam=beam, batch_tokens=batch_tokens)
    answers = translator.translate(LINES)
    assert [best[0].text for best in answers] == LINES
    assert all(best[0].finished for best in answers)


def test_the_options_of_a_call_override_the_configured_ones(tokenizers: TokenizerPair) -> None:
    translator = _translator(tokenizers, beam=2, nbest=2)
    assert [len(best) for best in translator.translate(["ab", "c"])] == [2, 2]
    assert [len(best) for best in translator.translate(["ab", "c"], beam=4, nbest=3)] == [3, 3]
    assert [len(best) for best in translator.translate(["ab", "c"], nbest=1)] == [1, 1]


def test_nbest_above_beam_is_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match=r"search\.nbest=4 exceeds search\.beam=2"):
        _translator(tokenizers).translate(["a"], beam=2, nbest=4)


def test_options_that_are_not_search_options_are_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match="must be a SearchConfig"):
        _translator(tokenizers).translate(["a"], {"beam": 2})  # type: ignore[arg-type]


def test_an_output_has_scores_and_tokens(tokenizers: TokenizerPair) -> None:
    ((best,),) = _translator(tokenizers, beam=2, length_penalty=1.0).translate(["cab"], alignment=True)
    assert best.tokens == best.source_tokens == ("c", "a", "b")
    assert len(best.token_log_probs) == 4  # the end of sentence is the last
    assert best.log_prob == pytest.approx(sum(best.token_log_probs))
    assert best.score == pytest.approx(best.log_prob / 4, abs=1e-5)
    assert best.alignment == tuple(tuple(float(s == t) for s in range(4)) for t in range(4))


def test_alignments_are_as_long_as_their_own_source(tokenizers: TokenizerPair) -> None:
    answers = _translator(tokenizers).translate(["a", "abcabc"], alignment=True)
    assert [len(best[0].alignment[0]) for best in answers] == [2, 7]
    assert _translator(tokenizers).translate(["a"])[0][0].alignment == ()


def test_an_output_that_does_not_end_is_cut_and_marked(tokenizers: TokenizerPair) -> None:
    translator = _translator(tokenizers, endless=True, beam=1, max_length_factor=2, max_length_extra=3)
    ((best,),) = translator.translate(["ab"])
    assert not best.finished
    assert len(best.tokens) == 2 * 3 + 3  # the source counts its end of sentence


def test_progress_adds_up(tokenizers: TokenizerPair) -> None:
    seen: list[int] = []
    _translator(tokenizers, beam=1, batch_tokens=8).translate(["abc", "a", "b"], on_progress=seen.append)
    assert sum(seen) == 3
    assert len(seen) > 1


def test_no_lines_give_no_outputs(tokenizers: TokenizerPair) -> None:
    assert _translator(tokenizers).translate([]) == []


def test_batches_stay_within_the_budget_and_cover_all_lines() -> None:
    lengths = [5, 0, 9, 1, 5, 30, 2, 0, 9]
    groups = list(batches_by_length(lengths, batch_tokens=48, rows=2))
    assert sorted(i for group in groups for i in group) == [0, 2, 3, 4, 5, 6, 8]
    for group in groups:
        widest = max(lengths[i] for i in group) + 1
        assert len(group) == 1 or len(group) * widest * 2 <= 48
    assert groups[0] == [5]  # longer than the budget, so alone


class TreeReader(Copier):
    """StepModel that records the trees that it receives."""

    reads_trees = True
    heads: Tensor | None = None

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        self.heads = batch.source_heads
        return super().start(batch)


def test_the_model_gets_trees_over_tokens(tokenizers: TokenizerPair) -> None:
    model = TreeReader(tokenizers.target.size)
    translator = TorchTranslator(model, tokenizers, SearchConfig(batch_tokens=10_000))
    answers = translator.translate([Request("a b", tree=(2, 0)), "", Request("cab", tree=(0,))])
    assert [best[0].text for best in answers] == ["a b", "", "cab"]
    assert model.heads is not None
    assert model.heads.tolist() == [[2, 0, -1, 0], [0, -1, -1, 0]]  # a ▁ b; c a b
    translator.translate([Request("a b", tree=(2, 0)), "cab"])
    assert model.heads is None  # a line without a tree; the model raises if it needs one
    translator.translate(["a b", "cab"])
    assert model.heads is None


def test_a_tree_that_does_not_fit_its_line(tokenizers: TokenizerPair) -> None:
    translator = TorchTranslator(TreeReader(tokenizers.target.size), tokenizers, SearchConfig())
    with pytest.raises(SeqloomError, match="Line 2 of 2 has an invalid dependency tree: the number of heads"):
        translator.translate([Request("a", tree=(0,)), Request("a b", tree=(0,))])
    with pytest.raises(SeqloomError, match="does not support dependency trees"):
        _translator(tokenizers).translate([Request("a", tree=(0,))])


def _unsure(tokenizers: TokenizerPair, **search: Any) -> TorchTranslator:
    """Return a translator for which all tokens are equally likely."""

    class Unsure(Copier):
        def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
            step = super().step(memory, state, last)
            return step._replace(log_probs=torch.zeros_like(step.log_probs).log_softmax(-1))

    return TorchTranslator(Unsure(tokenizers.target.size), tokenizers, SearchConfig(longest=8, **search))


def test_samples_do_not_depend_on_the_batch(tokenizers: TokenizerPair) -> None:
    options = SamplingConfig(samples=3)
    alone = [_unsure(tokenizers).sample([line], options)[0] for line in LINES]
    for budget in (1, 100, 10_000):
        assert _unsure(tokenizers, batch_tokens=budget).sample(LINES, options) == alone
    assert [len(many) for many in alone] == [3, 1, 3, 3, 3, 3]
    assert alone[1][0].text == ""
    assert len({one.text for many in alone for one in many}) > 6


def test_keys_distinguish_equal_lines(tokenizers: TokenizerPair) -> None:
    translator, options = _unsure(tokenizers), SamplingConfig(samples=2)
    one, two = translator.sample(["abc", "abc"], options)
    assert one == two
    one, _, three = translator.sample(
        [Request("abc", key=7), Request("a", key=8), Request("abc", key=9)], options
    )
    assert one != three
    assert translator.sample(Request("abc", key=9), options) == three


def test_samples_begin_with_their_prefix(tokenizers: TokenizerPair) -> None:
    prefixes = ["cc", "", "b"]
    done: list[int] = []
    found = _unsure(tokenizers).sample(
        [Request(line, prefix) for line, prefix in zip(["abc", "a", "ca"], prefixes, strict=True)],
        SamplingConfig(samples=4),
        on_progress=done.append,
    )
    for prefix, samples in zip(prefixes, found, strict=True):
        assert len(samples) == 4
        assert all(one.text.startswith(prefix) for one in samples)
    assert sum(done) == 3


def test_a_sample_has_scores_and_tokens(tokenizers: TokenizerPair) -> None:
    ((one,),) = _translator(tokenizers).sample(["cab"], SamplingConfig(temperature=0))
    assert one.text == "cab"
    assert one.score == one.log_prob == pytest.approx(sum(one.token_log_probs))


def test_a_required_word_is_a_complete_word(tokenizers: TokenizerPair) -> None:
    translator = _translator(tokenizers, beam=4)
    for word in ("ab", "c", "bb"):
        (best,) = translator.translate(Request("abc abca", required=(word,)))
        assert word in best.text.split(), f"{best.text!r} has no word {word}"
