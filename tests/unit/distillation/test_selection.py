"""Selection of one output per line by similarity to the reference."""

from __future__ import annotations

from collections.abc import Sequence

from seqloom.data.split import fingerprint
from seqloom.decode.mbr import sentence_utility
from seqloom.distillation.selection import Selection, select
from seqloom.distillation.translation import FlaggedOutput
from seqloom.types import Example

Pairs = list[tuple[str, str]]


def selected(
    examples: Sequence[Example], found: Sequence[Sequence[FlaggedOutput]], held_out: Sequence[str] = ()
) -> tuple[Pairs, Selection]:
    selection = Selection()
    pairs = select(
        examples,
        found,
        similarity=sentence_utility("chrf"),
        held_out={fingerprint(source) for source in held_out},
        selection=selection,
        on_progress=lambda count: None,
    )
    return list(pairs), selection


def test_the_output_most_similar_to_the_reference_is_selected() -> None:
    found = [FlaggedOutput("an old house"), FlaggedOutput("the old houses"), FlaggedOutput("a dog")]
    pairs, selection = selected([Example("das alte Haus", "the old house")], [found])
    assert pairs == [("das alte Haus", "the old houses")]
    similarity = sentence_utility("chrf")
    values = selection.as_dict()
    assert values["not_first"] == 1
    assert values["first_similarity"] == similarity("an old house", "the old house")
    assert values["selected_similarity"] == similarity("the old houses", "the old house")


def test_of_equally_similar_outputs_the_first_is_selected() -> None:
    pairs, selection = selected([Example("x", "zzz")], [[FlaggedOutput("a"), FlaggedOutput("b")]])
    assert (pairs, selection.not_first) == ([("x", "a")], 0)


def test_suspicious_outputs_are_not_selected_unless_they_equal_the_reference() -> None:
    flagged = FlaggedOutput("b b b b", ("loop",))
    pairs, _ = selected([Example("x", "b b b c")], [[flagged, FlaggedOutput("a")]])
    assert pairs == [("x", "a")]
    pairs, _ = selected([Example("b b b b", "b b b b")], [[flagged, FlaggedOutput("a")]])
    assert pairs == [("b b b b", "b b b b")]


def test_text_without_a_reference_gets_the_first_usable_output() -> None:
    pairs, selection = selected(
        [Example("x")], [[FlaggedOutput("", ("empty",)), FlaggedOutput("b"), FlaggedOutput("c")]]
    )
    assert (pairs, selection.with_reference) == ([("x", "b")], 0)


def test_every_dropped_line_has_a_reason() -> None:
    examples = [Example("  "), Example("held  out"), Example("held out", "y"), Example("x", "y"), Example("x")]
    found = [[FlaggedOutput("a", flags)] for flags in [(), (), (), ("cut", "loop"), ()]]
    pairs, selection = selected(examples, found, held_out=["held out"])
    assert pairs == [("held out", "a"), ("x", "a")]
    assert dict(selection.data.counts) == {
        "empty line": 1,
        "source of a validation pair": 1,
        "suspicious output: cut, loop": 1,
    }
    assert (selection.data.total, selection.as_dict()["pairs"]) == (5, 2)
