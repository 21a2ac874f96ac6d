"""Core data types, and StepModel, the protocol that search requires of a model.

Axis letters used throughout the package:

    B sentences in a batch      R rows = hypotheses (R = B x K, the K rows of a sentence are adjacent)
    S source positions          T target positions        V target vocabulary       F numbers in a frame
    D width                     H heads, L layers         K hypotheses per sentence (the beam)

A mask is always boolean, and True means a real token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from seqloom.errors import SeqloomError

if TYPE_CHECKING:  # torch takes a second to import; reading and checking data does not need it
    import torch
    from torch import Tensor

PAD, BOS, EOS, UNK = 0, 1, 2, 3

DependencyTree = tuple[int, ...]
"""Dependency tree: the position (from 1) of each word's head; 0 = root."""

CONTINUES = -1  # head of a token that continues the word of the previous token

Tree = Any
"""Tensors with rows first, nested in tuples, lists and dicts; a leaf may also be None or any object with the
`index_select` method of a tensor."""


@dataclass(frozen=True, slots=True)
class Example:
    """One line of a corpus: a source, its target (None when translating), and its location."""

    source: str
    target: str | None = None
    line: int = 0
    file: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    heads: DependencyTree | None = None  # tree of the source, if the data has trees


OutputKind = Literal["tokens", "vectors", "distributions"]


class WordStarts(NamedTuple):
    """Source ids that begin a word, and the ids that together spell the mark of a new word in bytes."""

    ids: tuple[int, ...]
    spelled: tuple[int, ...] = ()


class Vocabularies(NamedTuple):
    """Vocabulary sizes, whether source and target share one vocabulary, and the tags of the source."""

    source: int
    target: int
    shared: bool
    features: bool = False  # the source consists of vectors with `source` numbers each, not of symbols
    tags: tuple[int, ...] = ()  # source ids of tags, such as <PST>, and of the characters between tags
    word_starts: WordStarts | None = None  # None: every source token is a word
    outputs: OutputKind = "tokens"  # vectors, distributions: the target has `target` numbers per position


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded ids of B sentences. The source ends with EOS; target_in = BOS y, target_out = y EOS.

    A source of frames has F numbers per position instead of an id, zeros as padding, and no EOS. A target of
    vectors has zeros in place of BOS, EOS and padding.
    """

    source: Tensor  # (B, S), or frames (B, S, F)
    source_lengths: Tensor  # (B,)
    index: Tensor  # (B,) positions in the corpus or request, to restore the order
    target_in: Tensor | None = None  # (B, T), or vectors (B, T, F)
    target_out: Tensor | None = None  # (B, T), or vectors (B, T, F)
    target_lengths: Tensor | None = None  # (B,)
    target_tokens: int = (
        0  # target tokens without padding, counted on the host to avoid a device synchronisation
    )
    source_heads: Tensor | None = None  # (B, S) position (from 1) of each token's head; 0 = root, or CONTINUES

    @property
    def source_mask(self) -> Tensor:  # (B, S)
        return lengths_to_mask(self.source_lengths, self.source.shape[1])

    @property
    def target_mask(self) -> Tensor:  # (B, T)
        assert self.target_in is not None and self.target_lengths is not None
        return lengths_to_mask(self.target_lengths, self.target_in.shape[1])

    def to(self, device: torch.device | str) -> Batch:
        return self._map(lambda tensor: tensor.to(device))

    def rows(self, chosen: slice) -> Batch:
        """Return a subset of the sentences with unchanged padding."""
        subset = self._map(lambda tensor: tensor[chosen])
        return replace(subset, target_tokens=subset._count_targets())

    def _count_targets(self) -> int:
        if self.target_out is None or self.target_lengths is None:
            return 0
        if self.target_out.is_floating_point():
            return int(self.target_lengths.sum())
        return int((self.target_out != PAD).sum())

    def twice(self) -> Batch:
        """Return a batch with all sentences, followed by all sentences again."""
        doubled = self._map(lambda tensor: tensor.repeat(2, *[1] * (tensor.dim() - 1)))
        return replace(doubled, target_tokens=2 * self.target_tokens)

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Return a copy of the batch with the function applied to every tensor."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        mapped: dict[str, Any] = {k: function(v) for k, v in values.items() if hasattr(v, "to")}
        return replace(self, **mapped)


def lengths_to_mask(lengths: Tensor, width: int) -> Tensor:
    """Return a mask (B, width) that is True at the first lengths[b] positions of row b."""
    positions = lengths.new_ones(width).cumsum(0) - 1
    return positions < lengths.unsqueeze(1)


class Head(NamedTuple):
    """Index of a cross-attention head of the decoder; both numbers count from 0."""

    layer: int
    head: int
    shifted: bool = False  # the weights of a token are those of the next step, when the token is the input


class Step(NamedTuple):
    """Result of one decoding step for all rows."""

    log_probs: Tensor  # (R, V), owned by the caller, who may modify it
    state: Tree
    attention: Tensor | None  # (R, L, H, S): attention weights by layer and head of the decoder

    def alignment(self, head: Head | None = None) -> Tensor | None:
        """Return the attention weights (R, S) of one head, or the mean over all heads."""
        if self.attention is None:
            return None
        if head is None:
            return self.attention.mean(dim=(1, 2))
        layers, heads = self.attention.shape[1:3]
        if not (0 <= head.layer < layers and 0 <= head.head < heads):
            raise SeqloomError(
                f"Layer {head.layer + 1} has no head {head.head + 1}: there are {layers} layers of {heads}.",
                "choose another head, e.g. with seqloom evaluate-alignment --keep",
            )
        return self.attention[:, head.layer, head.head]


class StepModel(Protocol):
    """Everything that search requires of a model. Inherit from it, or implement its methods.

    `memory` is read-only and has one row per sentence (B); `state` has one row per hypothesis (R). R is a
    multiple of B and the rows of a sentence are adjacent, so a model may share the memory among them.
    `step` returns a new state and does not modify the old one.
    """

    reads_trees: bool = False  # whether the model needs the dependency tree of every source

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        """Return the memory of B sentences and the state of B rows, before any target token."""
        ...

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        """Extend every row by its last token (R,)."""
        ...

    def max_target_length(self, source_length: int) -> int | None:
        """Return the maximum target length in tokens, including EOS, for a source length; None: no limit."""
        return None


@dataclass(frozen=True, slots=True)
class Request:
    """One line to translate, with constraints on its output."""

    source: str
    prefix: str | tuple[str, ...] = ""  # the output starts with this text, or with these tokens
    required: tuple[
        str | tuple[str, ...], ...
    ] = ()  # phrases that the output must contain; a tuple: any of these
    tree: DependencyTree | None = None  # dependency tree of the source, for models that read trees
    key: int | None = None  # distinguishes equal lines when sampling

    def __post_init__(self) -> None:
        if isinstance(self.required, str):
            raise SeqloomError(
                f"Request.required must be a tuple of words and phrases, got the string {self.required!r}.",
                f"use ({self.required!r},)",
            )


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output for one line."""

    text: str
    score: float  # ranking criterion of the search
    log_prob: float = 0.0  # log P(target | source)
    tokens: tuple[str, ...] = ()
    token_log_probs: tuple[float, ...] = ()  # one per token; the last one is the end of sentence
    source_tokens: tuple[str, ...] = ()
    alignment: tuple[
        tuple[float, ...], ...
    ] = ()  # per token (the end of sentence last), a weight per source token
    finished: bool = True  # False: truncated at the maximum length
    flags: tuple[str, ...] = ()  # reasons to distrust the output; see decode.quality_flags


def select_rows(tree: Tree, rows: Tensor) -> Tree:
    """Return the tree with the given rows of every tensor: expands beams, follows back-pointers, drops rows."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: select_rows(value, rows) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        selected = [select_rows(value, rows) for value in tree]
        return type(tree)(*selected) if hasattr(tree, "_fields") else type(tree)(selected)
    return tree.index_select(0, rows)
