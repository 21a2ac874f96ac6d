"""Filling the gaps of a text with a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import BatchedResults, Progress
from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.text.config import MASK
from seqloom.text.normalize import check_texts
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import BOS, EOS, PAD, UNK

_SPACE = "▁"  # first character of a piece that begins a word


class Candidate(NamedTuple):
    """Candidate token for a gap."""

    token: str  # as readable text
    probability: float  # over all tokens, including those that do not fit


@dataclass(frozen=True, slots=True)
class Filled:
    """Text with its gaps filled."""

    text: str  # with the best candidate in every gap
    gaps: tuple[tuple[Candidate, ...], ...]  # candidates per gap, best first


class MaskedText(NamedTuple):
    """Token ids of a text with [MASK] in its gaps, and for each gap whether a word begins there."""

    ids: list[int]
    begins: list[bool]


class Filler:
    """Fills each [MASK] of a text with one token; the result does not depend on the other texts of a batch."""

    def __init__(
        self,
        model: SequenceModel,
        tokenizer: Tokenizer,
        search: SearchConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model, self.tokenizer, self.device = model, tokenizer, torch.device(device)
        self.batch_tokens = search.batch_tokens
        self.mask = tokenizer.symbol(MASK)
        pieces = tokenizer.pieces(range(tokenizer.size))
        excluded = torch.tensor([id in (PAD, BOS, EOS, UNK, self.mask) for id in range(tokenizer.size)])
        begins_word = torch.tensor([piece.startswith(_SPACE) for piece in pieces])
        if tokenizer.settings.kind in ("char", "word"):  # a space is a separate token, or not a token
            self._unfit = torch.stack((excluded, excluded)).to(self.device)
        else:
            self._unfit = torch.stack((excluded | begins_word, excluded | ~begins_word)).to(
                self.device
            )  # indexed by `begins`

    def fill(self, lines: Sequence[str], *, top: int = 5, on_progress: Progress | None = None) -> list[Filled]:
        """Return the `top` best tokens for each gap of each line, in order; gaps are filled independently."""
        check_texts(lines)
        texts = [self.encode(line, number) for number, line in enumerate(lines, 1)]
        lengths = [len(text.ids) for text in texts]  # never 0, because every text has a gap
        filled = BatchedResults(lengths, empty=Filled("", ()), on_progress=on_progress)
        for places in filled.batches(batch_tokens=self.batch_tokens):
            filled.put(places, self._fill([texts[i] for i in places], top))
        return filled.results

    def encode(self, line: str, number: int = 1) -> MaskedText:
        """Return the token ids of a line, where letters and punctuation may be adjacent to [MASK]."""
        if MASK not in line:
            raise SeqloomError(
                f"Text {number} does not contain {MASK}: {line[:80]!r}.",
                f"write {MASK} where a word is to be filled in, e.g. A man is {MASK} a guitar.",
            )
        parts = _normalized(self.tokenizer, line)
        begins = [part.endswith(" ") for part in parts[:-1]]
        begins[0] = begins[0] or not parts[0]
        text = ""
        for part in parts[:-1]:
            if self.tokenizer.settings.kind == "char":
                text += part + MASK
            else:  # exactly one space before [MASK], because it is part of its piece
                text += part.removesuffix(" ") + " " * bool(text or part) + MASK
        ids = _verbatim(self.tokenizer).encode(text + parts[-1])
        if ids.count(self.mask) != len(begins):
            raise SeqloomError(
                f"Text {number} has a {MASK} inside a word, but tokens of this run are words: {line[:80]!r}.",
                f"put spaces around {MASK}",
            )
        return MaskedText(ids, begins)

    @torch.inference_mode()
    def _fill(self, texts: list[MaskedText], top: int) -> list[Filled]:
        batch = collate_ids([text.ids for text in texts], None, range(len(texts))).to(self.device)
        gaps = batch.source == self.mask
        begins = torch.tensor([flag for text in texts for flag in text.begins], device=self.device)
        probs = self.model.output(self.model.hidden(batch)[gaps]).softmax(-1)  # (gaps of all texts, V)
        best = probs.masked_fill(self._unfit[begins.long()], -1.0).topk(min(top, probs.shape[1]), dim=-1)
        counts = [len(text.begins) for text in texts]
        tokens, values = best.indices.split_with_sizes(counts), best.values.split_with_sizes(counts)
        return [self._filled(*one) for one in zip(texts, tokens, values, strict=True)]

    def _filled(self, text: MaskedText, tokens: Tensor, probabilities: Tensor) -> Filled:
        best = iter(tokens[:, 0].tolist())
        filled = [next(best) if id == self.mask else id for id in text.ids]
        gaps = tuple(
            tuple(Candidate(self._readable(id), p) for id, p in zip(*row, strict=True) if p >= 0)
            for row in zip(tokens.tolist(), probabilities.tolist(), strict=True)
        )
        return Filled(self.tokenizer.decode(filled), gaps)

    def _readable(self, id: int) -> str:
        text = self.tokenizer.decode([id])
        return text if text.strip() and "\ufffd" not in text else self.tokenizer.pieces([id])[0]


def _normalized(tokenizer: Tokenizer, line: str) -> list[str]:
    """Return the normalised text between the gaps; a space next to a gap is kept."""
    if not tokenizer.settings.normalizer.collapse_spaces:
        return [tokenizer.normalize(part) for part in line.split(MASK)]
    parts = line.strip().split(MASK)
    texts = [tokenizer.normalize(part) for part in parts]
    return [
        " " * part[:1].isspace() + text + " " * (part[-1:].isspace() and text != "")
        for part, text in zip(parts, texts, strict=True)
    ]


def _verbatim(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer without normalisation: the text is normalised, and [MASK] must not be lowercased."""
    verbatim, settings = tokenizer.with_gaps(), tokenizer.settings
    plain = {"normalize": "none", "lowercase": False, "collapse_spaces": False}
    verbatim.settings = settings.model_copy(update={"normalizer": settings.normalizer.model_copy(update=plain)})
    return verbatim
