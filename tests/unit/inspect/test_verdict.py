"""Verdicts on given translations, compared with the scorer and with searches of every beam size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqloom.errors import SeqloomError
from seqloom.inspect.searchtree import search_tree
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import document, document_text
from seqloom.run.load import load_scorer
from support.commands import Command
from support.golden import GOLDEN

RUN = GOLDEN / "fixtures" / "transformer"
TEXT = "the old cat hides the dog ."
OTHER = "le chat vieux cache le chien ."


@pytest.fixture(scope="module")
def viewed() -> ViewedRun:
    return ViewedRun(RUN, device="cpu")


def test_numbers_are_those_of_the_scorer_and_of_the_search_tree(viewed: ViewedRun) -> None:
    found = document(viewed, "verdict", {"text": TEXT, "target": OTHER})
    (score,) = load_scorer(RUN, device="cpu").score([(TEXT, OTHER)])
    assert [one["log_prob"] for one in found["steps"]] == pytest.approx(list(score.log_probs), abs=1e-4)
    assert found["log_prob"] == pytest.approx(score.log_prob, abs=1e-4)
    tree = search_tree(viewed.torch_translator(), TEXT)
    assert found["output"]["text"] == tree.answer
    assert found["output"]["score"] == pytest.approx(tree.score, abs=1e-5)
    assert found["verdict"] == "model" and found["score"] < found["output"]["score"]
    nodes = {node.id: node for node in tree.nodes}
    lost = found["lost_at"]
    for node in tree.nodes:  # the tree has the fate of the same beginning
        path, one = [], node
        while one.parent is not None:
            path.insert(0, one.token)
            one = nodes[one.parent]
        if path == found["tokens"][:lost]:
            assert (node.fate, found["reason"]) == ("pruned", "pruned")
            assert node.rank == found["steps"][lost - 1]["rank_in_beam"]


def test_the_smallest_beam_is_the_first_whose_tree_completes_the_translation(viewed: ViewedRun) -> None:
    found = document(viewed, "verdict", {"text": TEXT, "target": OTHER, "beam": 2})
    smallest, wanted = found["smallest_beam"], found["tokens"]

    def completes(beam: int) -> bool:
        tree = search_tree(viewed.torch_translator(), TEXT, beam=beam)
        nodes = {node.id: node for node in tree.nodes}
        for node in tree.nodes:
            path, one = [], node
            while one.parent is not None:
                path.insert(0, one.token)
                one = nodes[one.parent]
            if path == wanted and node.fate == "completed":
                return True
        return False

    assert smallest is not None and completes(smallest)
    assert not any(completes(beam) for beam in range(1, smallest))
    tried = document(viewed, "verdict", {"text": TEXT, "target": OTHER, "largest": smallest - 1})
    assert tried["smallest_beam"] is None


def test_the_output_itself_and_an_excluded_translation(viewed: ViewedRun) -> None:
    answer = search_tree(viewed.torch_translator(), TEXT).answer
    same = document(viewed, "verdict", {"text": TEXT, "target": answer})
    assert same["verdict"] == "same" and same["lost_at"] is None and same["reason"] is None
    assert same["smallest_beam"] <= same["beam"]
    endless = document(viewed, "verdict", {"text": TEXT, "target": "le " * 400})
    assert endless["verdict"] == "rules" and endless["smallest_beam"] is None


def test_a_better_translation_that_greedy_search_misses_is_a_search_error(viewed: ViewedRun) -> None:
    wide = search_tree(viewed.torch_translator(), TEXT, beam=12)
    for text in ("a red tree sees the old car .", "the big dog likes a green house .", TEXT):
        greedy = search_tree(viewed.torch_translator(), text, beam=1)
        wide = search_tree(viewed.torch_translator(), text, beam=12)
        if wide.score > greedy.score + 1e-3:
            break
    else:
        pytest.fail("greedy search finds the best output of every text")
    found = document(viewed, "verdict", {"text": wide.source, "target": wide.answer, "beam": 1})
    assert found["verdict"] == "search" and 1 < found["smallest_beam"] <= 12


def test_the_command_prints_the_document(viewed: ViewedRun, command: Command, tmp_path: Path) -> None:
    fields = {"text": TEXT, "target": OTHER, "beam": 3}
    done = command("inspect", "search", RUN, TEXT, "--target", OTHER, "--beam", "3", "--json")
    assert done.out == document_text(document(viewed, "verdict", fields))
    assert json.loads(done.out)["view"] == "verdict"
    shown = command("inspect", "search", RUN, TEXT, "--target", OTHER).out
    assert "pruned at token" in shown and "The model prefers its output" in shown
    wrong = command("inspect", "search", RUN, TEXT, "--target", OTHER, "--out", tmp_path / "x.html")
    assert wrong.code == 2 and "--target" in wrong.err


def test_wrong_targets_are_errors(viewed: ViewedRun) -> None:
    with pytest.raises(SeqloomError, match="empty"):
        document(viewed, "verdict", {"text": TEXT, "target": " "})
    with pytest.raises(SeqloomError, match="own search"):
        document(ViewedRun(GOLDEN / "fixtures" / "phrase"), "verdict", {"text": TEXT, "target": "a"})
