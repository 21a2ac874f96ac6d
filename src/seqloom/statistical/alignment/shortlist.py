"""Vocabulary shortlists learned by word alignment, and their coverage of reference targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from seqloom.data.batching import collate_ids
from seqloom.decode.shortlist import Shortlist, special_tokens
from seqloom.errors import SeqloomError
from seqloom.statistical.alignment.align import Aligner
from seqloom.statistical.alignment.bitext import Pair
from seqloom.text.pair import TokenizerPair
from seqloom.types import UNK

_BATCH = 256  # pairs whose shortlists are computed at a time


def make_shortlist(
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    *,
    translations: int,
    frequent: int,
    threads: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Shortlist:
    """Learn a shortlist: `translations` per source token, and the `frequent` most frequent target tokens.

    The diagonal model is trained without a prior, which would discount rare translations: a shortlist should
    contain all possible tokens, not only the most probable ones.
    """
    if not any(len(source) and len(target) for source, target in pairs):
        raise SeqloomError(
            "There are no pairs to learn translations from.", "check data.* of the run, or --data"
        )
    aligner = Aligner(pairs, prior=0, threads=threads)
    aligner.train("diagonal", on_progress=on_progress)
    forward, _ = aligner.lexicons()
    best = forward.best(translations)
    table = np.full((tokenizers.source.size, translations), UNK, dtype=np.int64)
    table[: len(best)] = np.where(best < 0, UNK, best)
    counts = np.bincount(np.concatenate([target for _, target in pairs]), minlength=tokenizers.target.size)
    ranked = np.argsort(-counts, kind="stable")[:frequent]
    always = np.union1d(ranked[counts[ranked] > 0], special_tokens(tokenizers.target))
    return Shortlist(torch.from_numpy(always), torch.from_numpy(table), tokenizers.target.size)


@dataclass(frozen=True)
class Coverage:
    """The part of given targets that shortlists contain."""

    pairs: int
    tokens: int  # of all targets, without EOS
    held: int  # tokens on the shortlist of their source
    whole: int  # targets with all tokens on the shortlist
    mean_size: float  # tokens per shortlist

    @property
    def share(self) -> float:
        return self.held / max(1, self.tokens)

    def as_dict(self) -> dict[str, Any]:
        """Return data for JSON, including the fraction of tokens on the shortlists."""
        return {**asdict(self), "coverage": self.share}


def coverage(shortlist: Shortlist, pairs: Iterable[Pair]) -> Coverage:
    """Measure how much of the targets is on the shortlists of their sources."""
    all_pairs = list(pairs)
    tokens, held, whole, sizes = 0, 0, 0, 0
    for first in range(0, len(all_pairs), _BATCH):
        part = all_pairs[first : first + _BATCH]
        batch = collate_ids([list(source) for source, _ in part], None, range(len(part)))
        allowed = shortlist.allowed(batch.source)
        sizes += int(allowed.sum())
        for (_, target), row in zip(part, allowed, strict=True):
            inside = row[torch.as_tensor(np.asarray(target, dtype=np.int64))]
            tokens, held, whole = tokens + len(inside), held + int(inside.sum()), whole + bool(inside.all())
    return Coverage(len(all_pairs), tokens, held, whole, sizes / max(1, len(all_pairs)))
