"""The nouns of the straight line, and the one protocol that search needs of a model.

Axis letters used all over the package:

    B sentences in a batch      R rows = hypotheses (R = B x K, the K rows of a sentence side by side)
    S source positions          T target positions        V target vocabulary       F numbers in a frame
    D width                     H heads, L layers         K hypotheses per sentence (the beam)

A mask is boolean and True means a real token, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # torch takes a second to import; reading and checking data does not need it
    import torch
    from torch import Tensor

PAD, BOS, EOS, UNK = 0, 1, 2, 3

DependencyTree = tuple[int, ...]
"""A dependency tree: per word the number of its head, from 1; 0 = a root."""

CONTINUES = -1  # as the head of a token: it continues the word of the token before it

Tree = Any
"""Tensors with rows first, nested in tuples, lists and dicts; a leaf may also be None, or whatever has a
tensor's `index_select`."""


@dataclass(frozen=True, slots=True)
class Example:
    """One line of a corpus: a source, its target (None when only translating), and where it stood."""

    source: str
    target: str | None = None
    line: int = 0
    file: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    heads: DependencyTree | None = None  # the tree of the source, if the data has trees


class Vocabularies(NamedTuple):
    """How many symbols each side has, and whether both sides use the same ones."""

    source: int
    target: int
    shared: bool
    features: bool = False  # the source is vectors of `source` numbers, not symbols


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded ids of B sentences. The source ends with EOS; target_in = BOS y, target_out = y EOS.

    A source of frames has F numbers where an id would be, zeros on padding, and no EOS.
    """

    source: Tensor  # (B, S), or frames (B, S, F)
    source_lengths: Tensor  # (B,)
    index: Tensor  # (B,) positions in the corpus or request, to restore the order
    target_in: Tensor | None = None  # (B, T)
    target_out: Tensor | None = None  # (B, T)
    target_lengths: Tensor | None = None  # (B,)
    target_tokens: int = 0  # real target tokens, counted on the host so that no device has to wait
    source_heads: Tensor | None = None  # (B, S) the place from 1 of each token's head, 0 = a root, or CONTINUES

    @property
    def source_mask(self) -> Tensor:  # (B, S)
        return lengths_to_mask(self.source_lengths, self.source.shape[1])

    @property
    def target_mask(self) -> Tensor:  # (B, T)
        assert self.target_in is not None and self.target_lengths is not None
        return lengths_to_mask(self.target_lengths, self.target_in.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        return self._with(lambda tensor: tensor.to(device))

    def rows(self, chosen: slice) -> Batch:
        """Some of the sentences, as they are padded here."""
        part = self._with(lambda tensor: tensor[chosen])
        asked = 0 if part.target_out is None else int((part.target_out != PAD).sum())
        return replace(part, target_tokens=asked)

    def _with(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with every tensor changed."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {k: change(v) for k, v in values.items() if hasattr(v, "to")}
        return replace(self, **changed)


def lengths_to_mask(lengths: Tensor, width: int) -> Tensor:
    """(B, width), True on the first lengths[b] positions of row b."""
    positions = lengths.new_ones(width).cumsum(0) - 1
    return positions < lengths.unsqueeze(1)


class Head(NamedTuple):
    """One of a decoder's heads that look at the source, both numbers from 0."""

    layer: int
    head: int
    shifted: bool = False  # a token's weights are those of the next step, when it is read


class Step(NamedTuple):
    """What one decoding step gives for every row."""

    log_probs: Tensor  # (R, V), handed over: the caller may change it
    state: Tree
    attention: Tensor | None  # (R, L, H, S): where this step looked, by layer and head of the decoder

    def alignment(self, head: Head | None = None) -> Tensor | None:
        """(R, S): where one head looked, or all on average."""
        if self.attention is None:
            return None
        if head is None:
            return self.attention.mean(dim=(1, 2))
        layers, heads = self.attention.shape[1:3]
        if not (0 <= head.layer < layers and 0 <= head.head < heads):
            raise SeqloomError(
                f"Layer {head.layer + 1} has no head {head.head + 1}: there are {layers} layers of {heads}.",
                "choose another, e.g. by seqloom evaluate-alignment --keep",
            )
        return self.attention[:, head.layer, head.head]


class StepModel(Protocol):
    """All that search needs of a model. Inherit from it, or just have its methods.

    `memory` is read-only and has one row per sentence (B); `state` has one row per hypothesis (R). R is a
    multiple of B and the rows of a sentence stand side by side, so a model may share the memory among them.
    `step` returns a new state and leaves the old one as it was.
    """

    reads_trees: bool = False  # whether it needs the dependency tree of every source

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """The memory of B sentences and the state of B rows, before any target token."""
        ...

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """Extend every row by its last token, (R,)."""
        ...

    def max_target_length(self, source_length: int) -> int | None:
        """Return how many tokens a target of such a source can have, the end included; None: no limit."""
        return None


@dataclass(frozen=True, slots=True)
class Request:
    """One line to translate, and what is asked of its output."""

    source: str
    prefix: str = ""  # the output begins with this text
    required: tuple[str, ...] = ()  # words and phrases that the output contains
    tree: DependencyTree | None = None  # the dependency tree of the source, for models that read trees
    key: int | None = None  # distinguishes equal lines when sampling

    def __post_init__(self) -> None:
        if isinstance(self.required, str):
            raise SeqloomError(
                f"Request.required is one string, {self.required!r}, not a tuple of words and phrases.",
                f"give ({self.required!r},)",
            )


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output for one line."""

    text: str
    score: float  # what the search ranks by
    log_prob: float = 0.0  # log P(target | source)
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()  # one per token, the end of sentence last
    source_tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[float, ...], ...] = ()  # per token (the end last), a weight per source token
    finished: bool = True  # False: cut at the maximum length
    flags: tuple[str, ...] = ()  # reasons to distrust the output, see decode.distrust


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """The tree with the given rows of every tensor: expands to beams, follows back-pointers, drops."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: select_rows(value, rows) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        selected = [select_rows(value, rows) for value in tree]
        return type(tree)(*selected) if hasattr(tree, "_fields") else type(tree)(selected)
    return tree.index_select(0, rows)
