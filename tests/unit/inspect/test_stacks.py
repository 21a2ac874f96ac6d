"""Search of a stack decoder as data and as a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.decode.config import SearchConfig
from seqloom.errors import SeqloomError
from seqloom.inspect.stacks import StackSearch, stack_search
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.statistical.phrase.decoder import Decoder
from seqloom.statistical.phrase.features import start_weights
from seqloom.statistical.phrase.stacks import StackLimits
from seqloom.statistical.phrase.table import build_table
from seqloom.statistical.phrase.translator import PhraseTranslator
from seqloom.text.config import TextConfig
from seqloom.text.pair import TokenizerPair

PAIRS = [
    ("the red cat", "le chat rouge", [(0, 0), (1, 2), (2, 1)]),
    ("the dog", "le chien", [(0, 0), (1, 1)]),
    ("red dog", "chien rouge", [(0, 1), (1, 0)]),
    ("the cat sees the dog", "le chat voit le chien", [(i, i) for i in range(5)]),
]


@pytest.fixture(scope="module")
def translator() -> PhraseTranslator:
    text = TextConfig(tokenizer="word", vocab_size=1000, byte_fallback=False, joint=False)
    tokenizers = TokenizerPair.train(text, lambda: [(source, target) for source, target, _ in PAIRS])
    sources = [np.array(tokenizers.source.encode(source)) for source, _, _ in PAIRS]
    targets = [np.array(tokenizers.target.encode(target)) for _, target, _ in PAIRS]
    sizes = tokenizers.source.size, tokenizers.target.size
    links = [np.array(own) for *_, own in PAIRS]
    table = build_table(
        sources, targets, links, vocabularies=sizes, longest=3, smooth=False, strength=1.0, limit=10
    )
    language = Ngrams.estimate(targets, order=2, vocabulary=sizes[1])

    def make(*, beam: int | None) -> Decoder:
        return Decoder(table, language, start_weights(), StackLimits(stack=beam or 20, pops=50), 10)

    return PhraseTranslator(make, tokenizers, SearchConfig(beam=20))


@pytest.fixture(scope="module")
def search(translator: PhraseTranslator) -> StackSearch:
    return stack_search(translator, "the cat sees the red zebra dog")


def test_the_steps_cover_the_source_and_give_the_output(
    search: StackSearch, translator: PhraseTranslator
) -> None:
    covered = [place for step in search.steps for place in range(step.start, step.stop)]
    assert sorted(covered) == list(range(7))
    assert " ".join(word for step in search.steps for word in step.target) == search.answer
    ((best,),) = translator.translate([" ".join(search.source)])
    assert (search.answer, search.score) == (best.text, best.score)
    assert "zebra" in search.answer


def test_scores_and_ranks_of_the_steps(search: StackSearch) -> None:
    assert search.steps[-1].score == pytest.approx(search.score)
    assert search.steps[-1].future == 0.0 and search.steps[-1].rank == 1
    covered: set[int] = set()
    for step in search.steps[:-1]:
        covered |= set(range(step.start, step.stop))
        left = [place for place in range(7) if place not in covered]
        gaps = "".join("x" if place in left else " " for place in range(7))
        wanted, start = 0.0, 0
        for gap in gaps.split(" "):
            if gap:
                wanted += search.future[start][len(gap) - 1]
            start += len(gap) + 1
        assert step.future == pytest.approx(wanted)


def test_every_hypothesis_is_kept_recombined_or_pruned(search: StackSearch) -> None:
    assert [stack.words for stack in search.stacks] == list(range(1, 8))
    for stack in search.stacks:
        assert stack.made == stack.kept + stack.recombined + stack.pruned <= min(stack.offered, 50)
        assert 1 <= stack.coverages <= stack.kept <= 20


def test_a_beam_is_the_size_of_a_stack(translator: PhraseTranslator) -> None:
    narrow = stack_search(translator, "the cat sees the dog", beam=2)
    assert max(stack.kept for stack in narrow.stacks) == 2
    assert any(stack.pruned for stack in narrow.stacks)


def test_json(search: StackSearch) -> None:
    told: dict[str, Any] = json.loads(json.dumps(search.to_dict()))
    assert told["answer"] == search.answer
    assert told["steps"][0]["target"] == list(search.steps[0].target)
    assert len(told["future"][0]) == 7


def test_the_figure_is_written_for_any_text(translator: PhraseTranslator, tmp_path: Path) -> None:
    for number, text in enumerate(("dog", "the cat $sees the a" + "b" * 90 + " $dog")):
        stack_search(translator, text).save(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SeqloomError, match=r"cannot be written as \.gif"):
        stack_search(translator, "dog").save(tmp_path / "a.gif")
