"""Inline markup of a segment, moved to its translation by the alignment of the model.

Words of the translation are linked to the words of the source with most attention. A pair of tags goes around
the words that are linked to the words inside it; a single tag, such as an image, stays next to the word that it
follows or precedes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from seqloom.document.segments import Atom, TagPair, Writer, positions, tag_pairs
from seqloom.text.word_edges import in_word
from seqloom.types import Hypothesis

_MOST_ATOMS = 1000  # of a segment whose markup and line breaks are moved; more would take quadratic time
_LEAST_LINKED = 0.5  # of the words that a pair of tags encloses in the translation


class WordSpan(NamedTuple):
    """Word, or a single other character, of a text."""

    start: int
    end: int


def words(text: str) -> list[WordSpan]:
    """Return the words of a text; punctuation and characters of scripts without spaces stand alone."""
    found, begun = list[WordSpan](), -1
    for i, character in enumerate(text):
        if in_word(character):
            begun = i if begun < 0 else begun
            continue
        if begun >= 0:
            found.append(WordSpan(begun, i))
            begun = -1
        if not character.isspace():
            found.append(WordSpan(i, i + 1))
    if begun >= 0:
        found.append(WordSpan(begun, len(text)))
    return found


def is_flat(atoms: Sequence[Atom]) -> bool:
    """Return whether there are no tags and line breaks among the atoms."""
    return all(atom.role == "text" for atom in atoms)


def transfer(atoms: Sequence[Atom], text: str, hypothesis: Hypothesis, writer: Writer) -> list[Atom] | None:
    """Return a translation with the tags and line breaks of its source; None if its tags cannot be placed."""
    placed: list[_Placed] | None = []
    if len(atoms) > _MOST_ATOMS:
        return None
    if any(atom.is_tag for atom in atoms):
        source = "".join(atom.text for atom in atoms)
        placed = _Transfer(atoms, source, text, word_links(source, text, hypothesis)).run() if text else None
    if placed is None:
        return None
    return _joined(text, placed, _breaks(atoms, text, writer), atoms, writer)


def without_pairs(atoms: Sequence[Atom], text: str, writer: Writer) -> list[Atom]:
    """Return a translation without the pairs of tags of its source; all other tags stand before or after it."""
    paired = {i for pair in tag_pairs(atoms) for i in (pair.opening, pair.closing)}
    rest = [atom for i, atom in enumerate(atoms) if atom.is_tag and i not in paired]
    before = [_Placed(0, atom) for atom in rest if atom.role == "close"]
    after = [_Placed(len(text), atom) for atom in rest if atom.role != "close"]
    return _joined(text, [*before, *after], _breaks(atoms, text, writer), atoms, writer)


def word_links(source: str, text: str, hypothesis: Hypothesis) -> list[int | None]:
    """Return the index of the source word with most attention for each word of an output, None if unknown."""
    source_words, target_words = words(source), words(text)
    if not hypothesis.alignment:
        return [None] * len(target_words)
    of_source = _words_of_tokens(hypothesis.source_tokens, source, source_words)
    of_target = _words_of_tokens(hypothesis.tokens, text, target_words)
    rows: list[tuple[int, ...]] = [()] * len(target_words)  # tokens that each target word is a part of
    for row, targets in zip(range(len(hypothesis.alignment)), of_target, strict=False):
        for target in targets:
            rows[target] = (*rows[target], row)

    @cache  # a token of many words, such as punctuation, is looked up once
    def link(tokens: tuple[int, ...]) -> int | None:
        totals = dict[int, float]()
        for row in tokens:
            for sources, weight in zip(of_source, hypothesis.alignment[row], strict=False):
                for one in sources:
                    totals[one] = totals.get(one, 0.0) + weight / len(sources)
        return max(totals, key=lambda one: (totals[one], -one), default=None)

    return [link(tokens) for tokens in rows]


def _words_of_tokens(tokens: Sequence[str], text: str, of_text: Sequence[WordSpan]) -> list[list[int]]:
    """Return the words that each token is a part of.

    Positions are those of the text without white space; they are proportional if the tokens differ from it, for
    example because the text is normalised.
    """
    pieces = ["".join(token.replace("▁", " ").split()) for token in tokens]
    pieces = [
        "" if re.fullmatch(r"<(s|/s|pad|unk)>", piece) and piece not in text else piece for piece in pieces
    ]
    places = [i for i, character in enumerate(text) if not character.isspace()]
    word_at = {i: number for number, word in enumerate(of_text) for i in range(word.start, word.end)}
    length = sum(map(len, pieces))
    scale = len(places) / length if length else 0.0
    found, done = list[list[int]](), 0
    for piece in pieces:
        first, last = round(done * scale), round((done + len(piece)) * scale)
        found.append(sorted({word_at[places[i]] for i in range(first, min(last, len(places)))}))
        done += len(piece)
    return found


class _Placed(NamedTuple):
    """Tag at a position in the translation."""

    position: int
    atom: Atom


@dataclass
class _Node:
    """Pair of tags with the pairs inside it; the root is the entire segment."""

    pair: TagPair
    children: list[_Node] = field(default_factory=list)
    singles: list[int] = field(default_factory=list)  # indices of single tags
    start: int = 0  # in the translation
    end: int = 0


class _Transfer:
    """Positions of the tags of one segment in its translation."""

    def __init__(self, atoms: Sequence[Atom], source: str, text: str, links: Sequence[int | None]) -> None:
        self.atoms, self.source, self.text, self.links = atoms, source, text, links
        self.places = positions(atoms)
        self.source_words, self.target_words = words(source), words(text)

    def run(self) -> list[_Placed] | None:
        """Return the tags in the order of the translation; None if a pair cannot be placed."""
        pairs = tag_pairs(self.atoms)
        root = _tree(self.atoms, pairs, len(self.source))
        root.end = len(self.text)
        if root.children and any(atom.role in ("open", "close") for atom in self._unpaired(pairs)):
            return None
        return list(self._emit(root)) if self._place(root) else None

    def _unpaired(self, pairs: Sequence[TagPair]) -> list[Atom]:
        paired = {i for pair in pairs for i in (pair.opening, pair.closing)}
        return [atom for i, atom in enumerate(self.atoms) if atom.is_tag and i not in paired]

    def _place(self, node: _Node) -> bool:
        """Find the words of every pair inside a node; return False if there are none or they overlap."""
        for child in node.children:
            if child.pair.start == child.pair.end:
                child.start = child.end = self._near(child.pair.start, node)
            elif not self._enclose(child):
                return False
            if not self._place(child):
                return False
        if not all(node.start <= child.start and child.end <= node.end for child in node.children):
            return False
        spans = sorted((child.start, child.end) for child in node.children if child.start < child.end)
        if any(left[1] > right[0] for left, right in pairwise(spans)):
            return False
        return all(  # an empty pair must not be inside of another one
            not left < child.start < right
            for child in node.children
            if child.start == child.end
            for left, right in spans
        )

    def _enclose(self, node: _Node) -> bool:
        """Set the span of a pair to the words that are linked to its words; False if most others are not."""
        inside = {
            i
            for i, word in enumerate(self.source_words)
            if word.start < node.pair.end and node.pair.start < word.end
        }
        linked = [i for i, link in enumerate(self.links) if link in inside]
        if not linked or len(linked) < _LEAST_LINKED * (linked[-1] - linked[0] + 1):
            return False
        node.start, node.end = self.target_words[linked[0]].start, self.target_words[linked[-1]].end
        return True

    def _near(self, position: int, node: _Node) -> int:
        """Return the position in the translation for a tag at this position of the source, inside of a node."""
        before = [i for i, word in enumerate(self.source_words) if word.end <= position]
        after = [i for i, word in enumerate(self.source_words) if word.start >= position]
        glued = position < len(self.source) and not self.source[position].isspace()
        found = self._beside(after, last=False) if glued else None
        if found is None:
            found = self._beside(before[::-1], last=True)
        if found is None:
            found = self._beside(after, last=False)
        if found is None:
            found = round(position / max(1, len(self.source)) * len(self.text))
            found = next((word.end for word in self.target_words if word.end >= found), len(self.text))
        return min(max(found, node.start), node.end)

    def _beside(self, candidates: Sequence[int], *, last: bool) -> int | None:
        """Return the end (`last`) or start of the output of the first source word that has one."""
        for candidate in candidates:
            linked = [i for i, link in enumerate(self.links) if link == candidate]
            if linked:
                return self.target_words[linked[-1]].end if last else self.target_words[linked[0]].start
        return None

    def _emit(self, node: _Node) -> Iterator[_Placed]:
        """Yield the tags inside a node in the order of their positions."""
        inside: list[tuple[int, int, list[_Placed]]] = []
        for child in node.children:
            tags = [
                _Placed(child.start, self.atoms[child.pair.opening]),
                *self._emit(child),
                _Placed(child.end, self.atoms[child.pair.closing]),
            ]
            inside.append((child.start, child.pair.opening, tags))
        for single in node.singles:
            position = self._near(self.places[single], node)
            # A single tag that falls into a neighbouring pair moves to its end.
            position = next((c.end for c in node.children if c.start < position < c.end), position)
            inside.append((position, single, [_Placed(position, self.atoms[single])]))
        for _, _, tags in sorted(inside, key=lambda one: one[:2]):
            yield from tags


def _tree(atoms: Sequence[Atom], pairs: Sequence[TagPair], length: int) -> _Node:
    """Return the pairs of tags as a tree; tags without a partner are single."""
    root = _Node(TagPair(-1, len(atoms), 0, length))
    path, opening = [root], {pair.opening: pair for pair in pairs}
    closing = {pair.closing for pair in pairs}
    for i, atom in enumerate(atoms):
        if i in opening:
            child = _Node(opening[i])
            path[-1].children.append(child)
            path.append(child)
        elif i in closing:
            path.pop()
        elif atom.is_tag:
            path[-1].singles.append(i)
    return root


def _breaks(atoms: Sequence[Atom], text: str, writer: Writer) -> dict[int, Atom]:
    """Return the spaces of a translation that become line breaks: as many as in the source, if possible."""
    places = positions(atoms)
    scale = len(text) / max(1, places[-1])
    wanted = [(places[i] * scale, atom) for i, atom in enumerate(atoms) if atom.role == "space"]
    if not wanted or len(atoms) > _MOST_ATOMS:
        return {}
    spaces = [i for i, character in enumerate(text) if character == " " and writer.may_break(text, i)]
    found, first = dict[int, Atom](), 0
    for number, (place, atom) in enumerate(wanted):
        if first >= len(spaces):
            break
        last = max(first, len(spaces) - (len(wanted) - number))  # leaves a space for each of the rest
        near = range(first, last + 1)
        best = min(near, key=lambda i: abs(spaces[i] - place))
        found[spaces[best]] = atom
        first = best + 1
    return found


def _joined(
    text: str, placed: Sequence[_Placed], breaks: dict[int, Atom], source: Sequence[Atom], writer: Writer
) -> list[Atom]:
    """Return the atoms of a translation, of its line breaks and of tags in order of their positions."""
    result, position = list[Atom](), 0

    def add(end: int) -> None:
        nonlocal position
        for place in (*(i for i in breaks if position <= i < end), end):
            if position < place:
                part = text[position:place]
                result.append(Atom(part, writer.escape(part, source)))
            if place < end:
                result.append(breaks[place])
                position = place + 1
            else:
                position = max(position, place)

    for tag in placed:
        add(tag.position)
        result.append(tag.atom)
    add(len(text))
    return result
