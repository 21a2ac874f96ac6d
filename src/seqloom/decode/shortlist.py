"""The few target tokens that the answer to a sentence may be made of, so that the output layer has less to do.

Of a source x they are S(x): the most frequent target tokens, the most probable translations of every token of x
by a lexical table t(target | source), the end, the unknown token and all bytes, and what a given beginning or
required words need (Jean et al. 2015, arXiv:1412.2007; L'Hostis et al. 2016, arXiv:1610.00072). Probabilities
are renormalised over S(x): p(y | y ∈ S(x)), which is what the softmax over the logits of S(x) gives.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.functional import linear

from seqloom.decode.options import DecodedSequence
from seqloom.decode.rules import Rules
from seqloom.errors import SeqloomError
from seqloom.files import new_folder
from seqloom.models.base import AutoregressiveModel
from seqloom.outputs import only_writer
from seqloom.tensors import write_tensors
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK, Batch, Step, StepModel, Tree

_FILE = "table.safetensors"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Shortlist:
    """A lexical table, and the tokens that every answer may use."""

    always: Tensor  # (A,) ids, ascending
    translations: Tensor  # (source vocabulary, N) ids; UNK, which may always be said, where there are no more
    size: int  # of the target vocabulary

    def allowed(self, source: Tensor, others: Sequence[Iterable[int]] = ()) -> Tensor:
        """(B, V): True on S(x) of every source (B, S), and on what else each of these sentences needs."""
        mask = torch.zeros(len(source), self.size, dtype=torch.bool, device=source.device)
        mask.scatter_(1, self.translations.to(source.device)[source].flatten(1), value=True)
        mask[:, self.always.to(source.device)] = True
        for row, tokens in zip(mask, others, strict=bool(others)):
            row[list(tokens)] = True
        mask[:, [PAD, BOS]] = False
        return mask

    @property
    def digest(self) -> str:
        """A hash of the table."""
        parts = (self.always.numpy().tobytes(), self.translations.numpy().tobytes(), str(self.size).encode())
        return hashlib.sha256(b" ".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def fits(self, tokenizers: TokenizerPair) -> bool:
        """Whether its ids are those of these tokenizers."""
        integers = self.always.dtype == self.translations.dtype == torch.long
        rows = self.always.dim() == 1 and self.translations.dim() == 2
        if not (integers and rows and len(self.translations) == tokenizers.source.size):
            return False
        ids = torch.cat((self.always, self.translations.flatten()))
        return self.size == tokenizers.target.size and bool(((ids >= 0) & (ids < self.size)).all())

    def save(self, folder: str | Path, tokenizers: TokenizerPair) -> None:
        """Write the table, which is for these tokenizers."""
        facts = {"tokenizers": tokenizers.fingerprint, "size": str(self.size), "sha256": self.digest}
        folder = Path(folder)
        with only_writer(folder), new_folder(folder) as draft:
            write_tensors(draft / _FILE, {"always": self.always, "translations": self.translations}, facts)

    @classmethod
    def load(cls, folder: str | Path, tokenizers: TokenizerPair) -> Shortlist:
        """Load the table that `save` wrote, and check it."""
        file = Path(folder) / _FILE
        try:
            with safe_open(file, "pt") as opened:
                facts = opened.metadata() or {}
                found = cls(opened.get_tensor("always"), opened.get_tensor("translations"), int(facts["size"]))
            whole = found.digest == facts["sha256"]
        except (OSError, SafetensorError, KeyError, ValueError):
            whole = False
        if not whole:
            raise SeqloomError(f"The shortlist {file} is damaged.", "make it again by seqloom shortlist")
        if facts["tokenizers"] != tokenizers.fingerprint or not found.fits(tokenizers):
            raise SeqloomError(
                f"The shortlist {file} was made for other tokenizers than those of the run.",
                "make it again by seqloom shortlist",
            )
        return found


def special_tokens(tokenizer: Tokenizer) -> list[int]:
    """The end, the unknown token and all bytes: with these anything can be said, be it letter by letter."""
    pieces, values = tokenizer.pieces(range(tokenizer.size)), tokenizer.bytes_of(range(tokenizer.size))
    both = enumerate(zip(pieces, values, strict=True))
    return [EOS, UNK, *(i for i, (piece, value) in both if len(value) == 1 and _BYTE.fullmatch(piece))]


class VocabularySubset:
    """The tokens of the shortlists of a batch, numbered anew, and which of them are whose.

    The new numbers are in the order of the old ones, and those of padding, start, end and unknown are the same.
    """

    def __init__(self, allowed: Tensor) -> None:
        used = allowed.any(dim=0)
        used[: UNK + 1] = True
        self.ids = used.nonzero().squeeze(1)  # (U,) the old number of every new one
        self._numbers = {old: new for new, old in enumerate(self.ids.tolist())}
        self._outside = ~allowed[:, self.ids]  # (B, U)

    def narrowed(self, model: StepModel) -> StepModel:
        """The model over these tokens only."""
        assert isinstance(model, AutoregressiveModel), "only a model with an output layer has a shortlist"
        return _SubsetModel(model, self.ids, self._outside)

    def to_subset(self, tokens: Iterable[int]) -> tuple[int, ...] | None:
        """The new numbers of tokens; None if one of them is none of these, so that they can never be said."""
        numbers = [self._numbers.get(token) for token in tokens]
        return None if None in numbers else tuple(number for number in numbers if number is not None)

    def rules(self, rules: Rules) -> Rules:
        """The same rules in new numbers; what can never be said need not be forbidden."""
        return replace(
            rules,
            prefixes=[self.to_subset(prefix) or () for prefix in rules.prefixes],
            forbidden=[ids for sequence in rules.forbidden if (ids := self.to_subset(sequence)) is not None],
        )

    def to_full(self, found: DecodedSequence) -> DecodedSequence:
        """What was found in old numbers."""
        return found._replace(tokens=self.ids[found.tokens].tolist())


class _SubsetModel(StepModel):
    """A StepModel over some of a model's tokens: the others' logits are never computed.

    The logits of all tokens of the batch come of one product, and those that are not a sentence's own are taken
    out before the softmax. So the answer to a sentence does not depend on its batch.
    """

    def __init__(self, model: AutoregressiveModel, ids: Tensor, outside: Tensor) -> None:
        self._model, self._ids = model, ids
        self._weight = model.output.weight.detach()[ids]
        # (B, U): added to the logits of a sentence's rows, in a fraction of the time that filling in -inf takes
        self._bias = model.output.bias.detach()[ids].expand(outside.shape).masked_fill(outside, -math.inf)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        memory, state = self._model.start(batch)
        return (memory, self._bias), state

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        inner, bias = memory
        hidden, state, attention = self._model.step_hidden(inner, state, self._ids[last])
        logits = linear(hidden, self._weight)  # (R, U)
        logits.view(len(bias), -1, len(self._ids)).add_(bias.unsqueeze(1))
        return Step(logits.log_softmax(-1), state, attention)

    def max_target_length(self, source_length: int) -> int | None:
        return self._model.max_target_length(source_length)
