"""All kinds of translators, opened from recorded runs, and a value for every search option."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import seqloom
from seqloom.decode.config import SearchConfig
from seqloom.decode.translator import Capability, Outputs, Translator
from seqloom.run.load import load_ensemble
from seqloom.types import Hypothesis
from support.golden import GOLDEN, golden_run
from support.process_groups import thread_group

EVERY_OPTION = frozenset(SearchConfig.model_fields)
TORCH: frozenset[Capability] = frozenset(
    {"nbest", "alignment", "prefix", "required", "sampling", "exact", "token_scores"}
)
SENTENCES = ("the old cat hides the dog .", "", "the green tree likes the cat .")
CLIPS = (str(GOLDEN / "data/clips/0.npy"), "", str(GOLDEN / "data/clips/1.npy"))


@dataclass(frozen=True)
class Subject:
    """A kind of translator, and what is expected of it."""

    lines: Sequence[str] = SENTENCES
    likely: str = "le"  # a word of its outputs
    rare: str = "rouge"  # a word that it generates only if it must
    impossible: Mapping[str, Any] | None = None  # options that no output satisfies
    capabilities: frozenset[Capability] = TORCH
    refused: frozenset[str] = frozenset({"shortlist"})  # search options that are errors
    same: Mapping[str, str] = field(default_factory=dict)  # options that cannot change its outputs, and why
    origin: str = ""  # the subject whose outputs it has to equal; "": those of the reference search


_NOTHING_ALLOWED = {
    "min_length": 1,
    "forbid": (
        *("⁇", ".", "le", "the", "house", "maison", "auto", "car", "arbre", "tree", "chien", "dog", "cat"),
        *("chat", "aime", "likes", "sees", "voit", "cache", "green", "hides", "red", "rouge", "vert", "old"),
        *("vieux", "big", "grand"),
    ),
}
SUBJECTS: dict[str, Subject] = {
    "transformer": Subject(impossible=_NOTHING_ALLOWED, refused=frozenset()),
    "lstm": Subject(impossible=_NOTHING_ALLOWED),
    "prefix-lm": Subject(impossible=_NOTHING_ALLOWED),
    "ensemble": Subject(impossible=_NOTHING_ALLOWED),
    "hmm": Subject(
        lines=("the old cat hides the dog .", "", "the big house likes the big car ."),
        likely="VERB",
        rare="PUNCT DET",
        impossible={"min_length": 9},
        same={
            "stop": "all tag sequences of a sentence have the same length",
            "stop_after": "all tag sequences of a sentence have the same length",
            "coverage_penalty": "every word is tagged once, so all outputs cover the source equally",
        },
    ),
    "hmm-classifier": Subject(
        lines=CLIPS,
        likely="rises",
        rare="falls",
        impossible={"min_length": 9},
        refused=frozenset({"shortlist", "coverage_penalty"}),
        capabilities=TORCH - {"alignment"},
        same={
            "beam": "there are two labels",
            "stop": "all outputs are one label",
            "stop_after": "all outputs are one label",
            "no_repeat": "all outputs are one label",
            "diversity": "all outputs are one label, and the other one is nearly impossible",
        },
    ),
    "phrase": Subject(
        capabilities=frozenset({"nbest", "alignment"}), refused=EVERY_OPTION - {"beam", "nbest", "batch_tokens"}
    ),
    "ctranslate2": Subject(
        capabilities=frozenset({"nbest", "token_scores"}),
        refused=EVERY_OPTION
        - {
            "beam",
            "nbest",
            "length_penalty",
            "longest",
            "max_length_factor",
            "max_length_extra",
            "batch_tokens",
        },
        origin="transformer",
    ),
    "two processes": Subject(impossible=_NOTHING_ALLOWED, refused=frozenset(), origin="transformer"),
    "itself twice": Subject(impossible=_NOTHING_ALLOWED, refused=frozenset(), origin="transformer"),
}


@cache
def _loaded(name: str) -> Translator:
    match name:
        case "ensemble":
            return load_ensemble([golden_run(one) for one in ("transformer", "lstm", "prefix-lm")])
        case "itself twice":
            return load_ensemble([golden_run("transformer")] * 2)
        case "ctranslate2":
            return seqloom.load(golden_run("transformer"), engine="ctranslate2", threads=1)
        case "two processes":
            return _loaded("transformer")
        case _:
            return seqloom.load(golden_run(name), threads=1)


@contextmanager
def opened(name: str) -> Iterator[Translator]:
    """Yield the translator of a subject."""
    one = _loaded(name)
    with thread_group(2, lambda: one) if name == "two processes" else nullcontext(one) as translator:
        yield translator


Rule = Callable[[Subject, SearchConfig, Hypothesis], bool]


class Option(NamedTuple):
    """A value of a search option that is not its default, and what shows that it is honoured."""

    value: object
    given: Mapping[str, Any] = {}  # the other options, with and without this one
    rule: Rule = lambda subject, search, output: True  # holds for every output
    changes: bool = True  # whether the outputs differ from those without it


def _length(output: Hypothesis) -> int:
    """Tokens with the end."""
    return len(output.tokens) + output.finished


def _repeats(tokens: Sequence[str], n: int) -> bool:
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(grams)) < len(grams)


LIKELY, RARE = object(), object()  # stand for the words of a subject
_FOUR = {"beam": 4, "nbest": 4}
OPTIONS: dict[str, Option] = {
    "beam": Option(3, {"nbest": 3}),
    "nbest": Option(2, {"beam": 4}),
    "length_norm": Option("gnmt", _FOUR),
    "length_penalty": Option(0.3, _FOUR),
    "word_reward": Option(0.5, _FOUR),
    "coverage_penalty": Option(0.5, _FOUR),
    "stop": Option(
        "length", {**_FOUR, "length_penalty": 2.0, "max_length_factor": 0.0, "max_length_extra": 30}
    ),
    "stop_after": Option(
        100, {"beam": 4, "length_penalty": 4.0, "max_length_factor": 0.0, "max_length_extra": 15}
    ),
    "groups": Option(2, _FOUR),
    "diversity": Option(4.0, {**_FOUR, "groups": 2}),
    "no_repeat": Option(
        1, _FOUR, lambda subject, search, output: not _repeats(output.tokens, search.no_repeat)
    ),
    "forbid": Option(LIKELY, _FOUR, lambda subject, search, output: subject.likely not in output.text.split()),
    "require": Option(RARE, _FOUR, lambda subject, search, output: f" {subject.rare} " in f" {output.text} "),
    "shortlist": Option(True, _FOUR),
    "min_length": Option(
        12,
        _FOUR,
        lambda subject, search, output: (
            len(output.tokens) >= search.min_length or output.flags == ("impossible",)
        ),
    ),
    "longest": Option(1, _FOUR, lambda subject, search, output: _length(output) <= 1),
    "max_length_factor": Option(
        0.1, {"max_length_extra": 1}, lambda subject, search, output: _length(output) <= 1
    ),
    "max_length_extra": Option(
        1, {"max_length_factor": 0.0}, lambda subject, search, output: _length(output) <= 1
    ),
    "batch_tokens": Option(1, _FOUR, changes=False),
}


def options_of(subject: Subject, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return search options without and with the named one."""
    option = OPTIONS[name]
    words = {id(LIKELY): (subject.likely,), id(RARE): (subject.rare,)}
    known = {key: value for key, value in option.given.items() if key not in subject.refused}
    return known, {**known, name: words.get(id(option.value), option.value)}


def differ(some: Outputs, others: Outputs) -> bool:
    """Return whether texts, scores, ends or numbers of outputs differ."""
    return any(map(_differ, some, others)) or len(some) != len(others)


def _differ(some: list[Hypothesis], others: list[Hypothesis]) -> bool:
    return len(some) != len(others) or any(
        (one.text, one.finished, one.flags) != (other.text, other.finished, other.flags)
        or not math.isclose(one.score, other.score, rel_tol=1e-3, abs_tol=1e-8)
        for one, other in zip(some, others, strict=True)
    )
