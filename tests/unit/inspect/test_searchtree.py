"""Search trees, compared with the searches that they show."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.decode.config import SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.searchtree import END, Node, SearchTree, search_tree
from seqloom.inspect.searchtree_picture import places
from seqloom.text.pair import TokenizerPair
from seqloom.types import BOS, EOS, PAD, Batch, Request, Step, Tree
from support.step_models import TableModel
from support.tokenizers import char_tokenizers


class Random(TableModel):
    """StepModel with random log-probabilities for each (step, last token) and random attention."""

    def __init__(self, vocabulary: int, seed: int = 0, *, ends: float = 0.0) -> None:
        random = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(60, vocabulary, vocabulary, generator=random, dtype=torch.float64)
        logits[:, :, EOS] += ends
        super().__init__(logits.log_softmax(-1))

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        return batch.source, super().start(batch)[1]

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        looked = (torch.arange(memory.shape[1]) + last.unsqueeze(1)).cos().softmax(-1)
        return super().step(memory[:, 0], state, last)._replace(attention=looked[:, None, None])


def _letters(tokenizers: TokenizerPair, table: dict[str, dict[str, float]]) -> TableModel:
    """Return a model with a table indexed by the letter of the last token."""
    ids = {"start": BOS, "end": EOS, **{letter: tokenizers.target.encode(letter)[0] for letter in "abc"}}
    rows = {ids[last]: {ids[token]: value for token, value in row.items()} for last, row in table.items()}
    return TableModel.of(rows, tokenizers.target.size)


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return char_tokenizers("abc <b>&", "cba <b>&")


def _random(tokenizers: TokenizerPair, *, seed: int = 0, ends: float = 1.0, **search: Any) -> TorchTranslator:
    options = SearchConfig(**{"max_length_factor": 0, "max_length_extra": 8, **search})
    return TorchTranslator(Random(tokenizers.target.size, seed, ends=ends), tokenizers, options)


def _script(tokenizers: TokenizerPair, table: dict[str, dict[str, float]], **search: Any) -> TorchTranslator:
    options = SearchConfig(**{"length_norm": "none", "longest": 5, **search})
    return TorchTranslator(_letters(tokenizers, table), tokenizers, options)


def _column(tree: SearchTree, length: int) -> list[Node]:
    return [node for node in tree.nodes if node.length == length]


# The output "b" is second after one token: a, b | c; then it is first, because "a" cannot end.
SECOND = {
    "start": {"a": -0.5, "b": -1.0, "c": -1.75},
    "a": {"end": -4.0, "a": -3.0, "c": -3.5},
    "b": {"end": -0.25, "b": -5.0},
    "c": {"end": 0.0},
}


def test_rank_and_margin_of_the_output(tokenizers: TokenizerPair) -> None:
    tree = search_tree(_script(tokenizers, SECOND, beam=2), "ab")
    assert (tree.answer, tree.score) == ("b", pytest.approx(-1.25))
    assert [(node.token, node.rank, node.fate) for node in tree.winner] == [
        ("b", 2, "kept"),
        (END, 1, "completed"),
    ]
    first, last = tree.survival
    assert first.margin == pytest.approx(0.75)  # -1, compared with -1.75 of c
    assert last.margin == pytest.approx(-1.25 + 4.0)  # to the third of all, which is kept: a c
    assert tree.nearest == first
    assert tree.to_dict()["nearly_lost_at"] == 1


def test_numbers_and_fate_of_every_node(tokenizers: TokenizerPair) -> None:
    tree = search_tree(_script(tokenizers, SECOND, beam=2), "ab")
    assert [(node.token, node.fate) for node in _column(tree, 1)][:3] == [
        ("a", "kept"),
        ("b", "kept"),
        ("c", "pruned"),
    ]
    a, b = _column(tree, 1)[:2]
    below = [(node.parent, node.token, node.total, node.fate) for node in _column(tree, 2)][:4]
    assert below == [
        (b.id, END, pytest.approx(-1.25), "completed"),
        (a.id, "a", pytest.approx(-3.5), "kept"),
        (a.id, "c", pytest.approx(-4.0), "kept"),
        (a.id, END, pytest.approx(-4.5), "pruned"),
    ]


@pytest.mark.parametrize(
    "search",
    [
        {"beam": 1},
        {"beam": 3},
        {"beam": 4, "length_norm": "none", "stop": "ahead"},
        {"beam": 4, "length_norm": "gnmt", "stop": "hopeless", "coverage_penalty": 0.2},
        {"beam": 4, "groups": 2, "diversity": 1.5},
        {"beam": 3, "no_repeat": 1, "forbid": ("a", "cb"), "min_length": 3},
        {"beam": 2, "longest": 2, "stop": "length"},
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_the_output_is_that_of_the_translator(
    tokenizers: TokenizerPair, seed: int, search: dict[str, Any]
) -> None:
    translator = _random(tokenizers, seed=seed, **search)
    for prefix in ("", "cc"):
        tree = search_tree(translator, "abc", prefix=prefix)
        (best,) = translator.translate(Request("abc", prefix))
        assert (tree.answer, tree.finished) == (best.text, best.finished)
        assert tree.score == pytest.approx(best.score)
        assert [node.token for node in tree.winner if node.token != END] == list(best.tokens)
        assert [node.log_prob for node in tree.winner] == pytest.approx(best.token_log_probs)


@pytest.mark.parametrize("search", [{"beam": 3}, {"beam": 4, "groups": 2, "diversity": 1.5}])
def test_pruning_unlikely_tokens_does_not_change_the_tree(
    tokenizers: TokenizerPair, search: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = _random(tokenizers, **search)
    large.model = Random(200, ends=2.0)  # ids without a piece are never requested
    monkeypatch.setattr(type(tokenizers.target), "pieces", lambda self, ids: [str(id) for id in ids])
    monkeypatch.setattr(type(tokenizers.target), "decode", lambda self, ids: str(list(ids)))
    quick = search_tree(large, "abc")
    monkeypatch.setattr("seqloom.inspect.searchtree.enough_to_rank", lambda *_: 200)
    assert search_tree(large, "abc") == quick


@pytest.mark.parametrize("search", [{"beam": 3}, {"beam": 4, "groups": 2, "diversity": 1.5}])
def test_a_tree_is_consistent(tokenizers: TokenizerPair, search: dict[str, Any]) -> None:
    tree = search_tree(_random(tokenizers, **search), "abc")
    width = tree.beam // tree.groups
    by_id = {node.id: node for node in tree.nodes}
    assert [node.id for node in tree.nodes] == list(range(len(tree.nodes)))
    for node in tree.nodes[tree.groups :]:
        assert node.parent is not None and node.parent < node.id
        parent = by_id[node.parent]
        assert parent.fate in ("kept", "start")
        assert (parent.length, parent.group) == (node.length - 1, node.group)
        assert node.total == pytest.approx(parent.total + node.log_prob)
        assert len(parent.attention) == len(tree.source_tokens) == 4
        assert sum(parent.attention) == pytest.approx(1)
    for group in range(tree.groups):
        for length in range(1, 1 + max(node.length for node in tree.nodes)):
            column = [node for node in _column(tree, length) if node.group == group]
            assert [node.rank for node in column] == list(range(1, len(column) + 1))
            counts = [sum(node.fate == fate for node in column) for fate in ("kept", "completed", "pruned")]
            assert counts[0] <= width and counts[1] <= width and counts[2] <= 2 * width
    assert all(one.margin is None or one.margin >= 0 for one in tree.survival)


def test_a_truncated_output_ends_in_a_kept_node(tokenizers: TokenizerPair) -> None:
    tree = search_tree(_random(tokenizers, ends=-30.0, beam=2, longest=3), "ab")
    assert not tree.finished
    assert [node.fate for node in tree.winner] == ["kept"] * 3
    assert '"finished": false' in tree.to_html()


def test_without_pruning_there_is_no_margin(tokenizers: TokenizerPair) -> None:
    translator = _random(tokenizers, beam=2, longest=3)
    model = translator.model
    assert isinstance(model, Random)
    model.log_probs[:, :, [*range(EOS), *range(EOS + 2, tokenizers.target.size)]] = -math.inf
    tree = search_tree(translator, "ab")
    assert [one.margin for one in tree.survival] == [None] * len(tree.survival)
    assert tree.nearest is None and tree.to_dict()["nearly_lost_at"] is None


def test_an_empty_line_is_an_empty_tree(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    tree = search_tree(_random(tokenizers), " ")
    assert (tree.answer, tree.nodes, tree.survival, tree.nearest) == ("", (), (), None)
    assert '"nodes": []' in tree.to_html()
    tree.save(tmp_path / "a.png")


def test_invalid_options_are_an_error(tokenizers: TokenizerPair) -> None:
    with pytest.raises(SeqloomError, match=r"search\.groups=2 does not divide search\.beam=3"):
        search_tree(_random(tokenizers, beam=4, groups=2), "abc", beam=3)


def test_rules_that_exclude_all_outputs_are_an_error(tokenizers: TokenizerPair) -> None:
    translator = _random(tokenizers, min_length=1)
    model = translator.model
    assert isinstance(model, Random)
    model.log_probs[
        :, :, [token for token in range(tokenizers.target.size) if token not in (PAD, EOS)]
    ] = -math.inf
    with pytest.raises(SeqloomError, match="No output for 'ab' satisfies"):
        search_tree(translator, "ab")


def test_json_has_the_contents_of_the_tree(tokenizers: TokenizerPair) -> None:
    tree = search_tree(_random(tokenizers, beam=3), "abc")
    read = json.loads(json.dumps(tree.to_dict()))
    assert [node["id"] for node in read["nodes"]] == [node.id for node in tree.nodes]
    assert read["nodes"][0]["attention"] == pytest.approx(tree.nodes[0].attention, abs=1e-6)
    assert read["score"] == pytest.approx(tree.score, abs=1e-6)


@pytest.mark.parametrize("search", [{"beam": 2}, {"beam": 4, "groups": 2, "diversity": 1.0}])
def test_the_figure_shows_the_same(tokenizers: TokenizerPair, search: dict[str, Any], tmp_path: Path) -> None:
    tree = search_tree(_random(tokenizers, **search), "abc")
    tree.save(tmp_path / "a.svg")
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    for place in places(tree).values():
        assert place.node.parent is None or f"<!-- {f'{place.node.total:.2f}'.replace('-', '−')} -->" in drawing
    with pytest.raises(SeqloomError, match=r"cannot be written as \.gif"):
        tree.save(tmp_path / "a.gif")


def test_nodes_do_not_overlap_and_the_best_pruned_one_is_shown(tokenizers: TokenizerPair) -> None:
    tree = search_tree(_random(tokenizers, beam=4, groups=2, diversity=1.0), "abc")
    placed = places(tree)
    for x in {place.x for place in placed.values()}:
        rows = sorted(place.y for place in placed.values() if place.x == x)
        assert all(below - above >= 1 for above, below in pairwise(rows))
    for node in tree.nodes:
        if node.fate != "pruned":
            assert node.id in placed
    pruned = [node for node in tree.nodes if node.fate == "pruned"]
    columns = {(node.group, node.length): node.id for node in reversed(pruned)}
    assert set(columns.values()) <= set(placed)
