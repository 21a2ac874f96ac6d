"""Dependency trees of sources, read from a column of heads or from CoNLL-U and mapped from words to tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Sized
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple, cast

from seqloom.data.lines import lines
from seqloom.data.records import Malformed
from seqloom.errors import SeqloomError
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.training import SPACE
from seqloom.types import CONTINUES, UNK, DependencyTree

_MARK = SPACE.encode()
_WORD = re.compile(rb"(?:^M*|M+)(?!M|\Z)".replace(b"M", b"(?:" + _MARK + b")"))  # starts of words
_COLUMNS = 10  # in CoNLL-U: ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC


def parse_heads(column: str, text: str) -> DependencyTree:
    """Parse a column of heads such as `2 0 2`, one per word of a text; raise Malformed with a reason."""
    try:
        heads = tuple(map(int, column.split()))
    except ValueError:
        raise Malformed("a head is not a number") from None
    if len(heads) != len(text.split()):
        raise Malformed("the number of heads differs from the number of words")
    _check_tree(heads)
    return heads


def _check_tree(heads: DependencyTree) -> None:
    """Raise if the heads are not trees. Several roots are allowed, for two sentences or a tag in a line."""
    if not all(0 <= head <= len(heads) for head in heads):
        raise Malformed("a head is not the number of a word")
    if heads and 0 not in heads:
        raise Malformed("the heads have no root")
    rooted = {0}
    for word in range(1, len(heads) + 1):
        path: dict[int, None] = {}
        while word not in rooted:
            if word in path:
                raise Malformed("the heads form a cycle")
            path[word] = None
            word = heads[word - 1]
        rooted.update(path)


class ConlluSentence(NamedTuple):
    """Line of text, or sentence of a CoNLL-U file: words joined by spaces, and their heads."""

    line: int  # line number of the first word
    text: str
    heads: DependencyTree | None = None
    fault: str = ""  # reason why the sentence is malformed


def read_conllu(path: str | Path) -> Iterator[ConlluSentence]:
    """Yield the sentences of a CoNLL-U file as syntactic words: `zum` becomes `zu dem`.

    Comments, ranges (`1-2`) and empty nodes (`1.1`) are skipped.
    """
    block: list[tuple[int, str]] = []
    for number, line in enumerate(chain(lines(str(path)), [""]), 1):
        if line.strip():
            if not line.startswith("#"):
                block.append((number, line))
        elif block:
            yield _sentence(block)
            block = []


def _sentence(block: list[tuple[int, str]]) -> ConlluSentence:
    start = block[0][0]
    try:
        words = [word for _, line in block if (word := _word(line))]
        heads = _heads(words)
    except Malformed as fault:
        forms = [cell for _, line in block for cell in line.split("\t")[1:2]]
        return ConlluSentence(start, " ".join(forms), fault=str(fault))
    return ConlluSentence(start, " ".join(form for _, form, _ in words), heads)


def _word(line: str) -> tuple[str, str, str] | None:
    """Return ID, FORM and HEAD of a word; None for a range or an empty node."""
    cells = line.split("\t")
    if len(cells) != _COLUMNS:
        raise Malformed("a CoNLL-U word does not have ten columns")
    if "-" in cells[0] or "." in cells[0]:
        return None
    form = " ".join(cells[1].split())
    if not form:
        raise Malformed("a CoNLL-U word has no form")
    return cells[0], form, cells[6]


def _heads(words: Sequence[tuple[str, str, str]]) -> DependencyTree:
    """Return the heads of the words of a text; `10 000` is two words, the second depending on the first."""
    if [number for number, _, _ in words] != [str(number) for number in range(1, len(words) + 1)]:
        raise Malformed("the CoNLL-U words are not numbered 1, 2, 3 …")
    heads = parse_heads(" ".join(head or "_" for _, _, head in words), " ".join("w" for _ in words))
    sizes = [len(form.split()) for _, form, _ in words]
    first = [1 + sum(sizes[:i]) for i in range(len(sizes))]
    found: list[int] = []
    for position, size, head in zip(first, sizes, heads, strict=True):
        found += [first[head - 1] if head else 0, *[position] * (size - 1)]
    return tuple(found)


def token_heads(tokenizer: Tokenizer, ids: Sequence[int], heads: DependencyTree) -> list[int]:
    """Return the first-token position, from 1, of each id's head; 0 = root, CONTINUES = within a word."""
    starts = _starts(tokenizer, ids)
    positions = [position for position, begins in enumerate(starts, 1) if begins]
    if len(positions) != len(heads):
        raise Malformed("the number of heads differs from the number of tokenised words")
    word_heads = iter(positions[head - 1] if head else 0 for head in heads)
    return [next(word_heads) if begins else CONTINUES for begins in starts]


def token_trees(
    tokenizers: TokenizerPair,
    sources: Sequence[Sized],
    heads: Sequence[DependencyTree | None] | None,
    unit: str,
) -> list[list[int]] | None:
    """Return the heads of the tokens of each source; None unless every non-empty source has a tree.

    Raise if a tree does not match its words; the error message calls a source a `unit`, such as Line.
    """
    if heads is None or all(tree is None for tree in heads):
        return None
    if any(len(ids) and tree is None for ids, tree in zip(sources, heads, strict=True)):
        return None
    trees: list[list[int]] = []
    for number, (ids, tree) in enumerate(zip(sources, heads, strict=True), 1):
        try:
            trees.append(token_heads(tokenizers.source, list(cast(Sequence[int], ids)), tree or ()))
        except Malformed as fault:
            raise SeqloomError(
                f"{unit} {number} of {len(sources)} has an invalid dependency tree: {fault}.",
                "give one head per word of the source",
            ) from fault
    return trees


def _starts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    """Return whether each id begins a word or the spaces before it; trailing spaces belong to the last word."""
    parts = tokenizer.bytes_of(ids)
    if tokenizer.settings.kind == "word":  # an unknown word includes its space
        parts = [_MARK + part if id == UNK else part for id, part in zip(ids, parts, strict=True)]
    begins = {found.start() for found in _WORD.finditer(b"".join(parts))}
    ends = list(accumulate(map(len, parts)))
    return [not begins.isdisjoint(range(end - len(part), end)) for part, end in zip(parts, ends, strict=True)]


def cut_heads(heads: Sequence[int], length: int) -> list[int]:
    """Return the heads of the first `length` tokens; tokens whose head is removed become roots."""
    return [0 if head > length else head for head in heads[:length]]
