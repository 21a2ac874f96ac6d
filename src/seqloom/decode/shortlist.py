"""Vocabulary selection: the output layer computes only the target tokens that are likely for a sentence.

The shortlist S(x) of a source x has the most frequent target tokens, the most probable translations of each
token of x by a lexical table t(target | source), the end, the unknown token and all bytes, and the tokens of a
given prefix and of required words (Jean et al. 2015, arXiv:1412.2007; L'Hostis et al. 2016, arXiv:1610.00072).
Probabilities are renormalised over S(x): p(y | y ∈ S(x)), which is the softmax over the logits of S(x).
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
    """Lexical table, and the tokens that every output may contain."""

    always: Tensor  # (A,) ids, ascending
    translations: Tensor  # (source vocabulary, N) ids, padded with UNK, which is always allowed
    size: int  # of the target vocabulary

    def allowed(self, source: Tensor, additional: Sequence[Iterable[int]] = ()) -> Tensor:
        """Return a mask (B, V), True on S(x) of each source (B, S) and its additional tokens."""
        mask = torch.zeros(len(source), self.size, dtype=torch.bool, device=source.device)
        mask.scatter_(1, self.translations.to(source.device)[source].flatten(1), value=True)
        mask[:, self.always.to(source.device)] = True
        for row, tokens in zip(mask, additional, strict=bool(additional)):
            row[list(tokens)] = True
        mask[:, [PAD, BOS]] = False
        return mask

    @property
    def digest(self) -> str:
        """Hash of the table."""
        parts = (self.always.numpy().tobytes(), self.translations.numpy().tobytes(), str(self.size).encode())
        return hashlib.sha256(b" ".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def fits(self, tokenizers: TokenizerPair) -> bool:
        """Return whether its ids are valid for these tokenizers."""
        integers = self.always.dtype == self.translations.dtype == torch.long
        rows = self.always.dim() == 1 and self.translations.dim() == 2
        if not (integers and rows and len(self.translations) == tokenizers.source.size):
            return False
        ids = torch.cat((self.always, self.translations.flatten()))
        return self.size == tokenizers.target.size and bool(((ids >= 0) & (ids < self.size)).all())

    def save(self, folder: str | Path, tokenizers: TokenizerPair) -> None:
        """Write the table for these tokenizers."""
        facts = {"tokenizers": tokenizers.fingerprint, "size": str(self.size), "sha256": self.digest}
        folder = Path(folder)
        with only_writer(folder), new_folder(folder) as draft:
            write_tensors(draft / _FILE, {"always": self.always, "translations": self.translations}, facts)

    @classmethod
    def load(cls, folder: str | Path, tokenizers: TokenizerPair) -> Shortlist:
        """Load a table that `save` wrote, and check it."""
        file = Path(folder) / _FILE
        try:
            with safe_open(file, "pt") as opened:
                facts = opened.metadata() or {}
                found = cls(opened.get_tensor("always"), opened.get_tensor("translations"), int(facts["size"]))
            intact = found.digest == facts["sha256"]
        except (OSError, SafetensorError, KeyError, ValueError):
            intact = False
        if not intact:
            raise SeqloomError(f"The shortlist {file} is damaged.", "rebuild it with seqloom shortlist")
        if facts["tokenizers"] != tokenizers.fingerprint or not found.fits(tokenizers):
            raise SeqloomError(
                f"The shortlist {file} was built for other tokenizers than those of the run.",
                "rebuild it with seqloom shortlist",
            )
        return found


def special_tokens(tokenizer: Tokenizer) -> list[int]:
    """Return the end, the unknown token and all bytes, with which any text can be spelled."""
    pieces, values = tokenizer.pieces(range(tokenizer.size)), tokenizer.bytes_of(range(tokenizer.size))
    both = enumerate(zip(pieces, values, strict=True))
    return [EOS, UNK, *(i for i, (piece, value) in both if len(value) == 1 and _BYTE.fullmatch(piece))]


class VocabularySubset:
    """Renumbered tokens of the shortlists of a batch, and which of them each sentence may use.

    The new ids are in the order of the old ones; padding, start, end and unknown keep theirs.
    """

    def __init__(self, allowed: Tensor) -> None:
        used = allowed.any(dim=0)
        used[: UNK + 1] = True
        self.ids = used.nonzero().squeeze(1)  # (U,) old id of each new id
        self._new_ids = {old: new for new, old in enumerate(self.ids.tolist())}
        self._outside = ~allowed[:, self.ids]  # (B, U)

    def narrowed(self, model: StepModel) -> StepModel:
        """Return the model over these tokens only."""
        assert isinstance(model, AutoregressiveModel), "a shortlist needs a model with an output layer"
        return _SubsetModel(model, self.ids, self._outside)

    def to_subset(self, tokens: Iterable[int]) -> tuple[int, ...] | None:
        """Return the new ids of tokens, or None if one of them is not in the subset and cannot be generated."""
        ids = [self._new_ids.get(token) for token in tokens]
        return None if None in ids else tuple(id for id in ids if id is not None)

    def rules(self, rules: Rules) -> Rules:
        """Return the same rules in new ids; sequences that cannot be generated need not be forbidden."""
        return replace(
            rules,
            prefixes=[self.to_subset(prefix) or () for prefix in rules.prefixes],
            forbidden=[ids for sequence in rules.forbidden if (ids := self.to_subset(sequence)) is not None],
        )

    def to_full(self, found: DecodedSequence) -> DecodedSequence:
        """Return the decoded sequence in old ids."""
        return found._replace(tokens=self.ids[found.tokens].tolist())


class _SubsetModel(StepModel):
    """StepModel over some of a model's tokens; the logits of the other tokens are never computed.

    One product gives the logits of all tokens of the batch, and those outside a sentence's own shortlist are
    excluded before the softmax. So the output for a sentence does not depend on its batch.
    """

    def __init__(self, model: AutoregressiveModel, ids: Tensor, outside: Tensor) -> None:
        self._model, self._ids = model, ids
        self._weight = model.output.weight.detach()[ids]
        # (B, U), -inf outside the shortlist: adding it to the logits is much faster than masked_fill
        self._bias = model.output.bias.detach()[ids].expand(outside.shape).masked_fill(outside, -math.inf)

    def start(self, batch: Batch) -> tuple[Tree, Tree]:
        memory, state = self._model.start(batch)
        return (memory, self._bias), state

    def step(self, memory: Tree, state: Tree, last: Tensor) -> Step:
        inner, bias = memory
        hidden, state, attention = self._model.step_hidden(inner, state, self._ids[last])
        logits = linear(hidden, self._weight)  # (R, U)
        logits.view(len(bias), -1, len(self._ids)).add_(bias.unsqueeze(1))
        shown = attention if self._model.attention_weights == "softmax" else None
        return Step(logits.log_softmax(-1), state, shown)

    def max_target_length(self, source_length: int) -> int | None:
        return self._model.max_target_length(source_length)
