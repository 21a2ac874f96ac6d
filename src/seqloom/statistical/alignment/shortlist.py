"""Shortlists made from pairs of sentences by word alignment, and how much of given answers they hold."""

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

_TOGETHER = 256  # pairs whose lists are looked at at a time


def make_shortlist(
    pairs: Sequence[Pair],
    tokenizers: TokenizerPair,
    *,
    translations: int,
    frequent: int,
    threads: int = 1,
    on_progress: Callable[[int], None] | None = None,
) -> Shortlist:
    """The shortlist of these pairs: so many translations of a source token, so many frequent target tokens.

    Links near the diagonal are aligned without a prior, which would take from rare translations: a list is for
    what may be said, not for what is most probable.
    """
    if not any(len(source) and len(target) for source, target in pairs):
        raise SeqloomError("There is no pair to learn translations from.", "see data.* of the run, or --data")
    aligner = Aligner(pairs, prior=0, threads=threads)
    aligner.train("diagonal", on_progress=on_progress)
    forward, _ = aligner.lexicons()
    best = forward.best(translations)
    table = np.full((tokenizers.source.size, translations), UNK, dtype=np.int64)
    table[: len(best)] = np.where(best < 0, UNK, best)
    counts = np.bincount(np.concatenate([target for _, target in pairs]), minlength=tokenizers.target.size)
    most = np.argsort(-counts, kind="stable")[:frequent]
    always = np.union1d(most[counts[most] > 0], special_tokens(tokenizers.target))
    return Shortlist(torch.from_numpy(always), torch.from_numpy(table), tokenizers.target.size)


@dataclass(frozen=True)
class Coverage:
    """What shortlists hold of given answers."""

    pairs: int
    tokens: int  # of all answers, without their ends
    held: int  # of these
    whole: int  # answers that can be said without a change
    mean_size: float  # tokens of a shortlist

    @property
    def share(self) -> float:
        return self.held / max(1, self.tokens)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with the share of the tokens that are on their lists."""
        return {**asdict(self), "coverage": self.share}


def coverage(shortlist: Shortlist, pairs: Iterable[Pair]) -> Coverage:
    """How much of the targets is on the shortlists of their sources."""
    several = list(pairs)
    tokens, held, whole, sizes = 0, 0, 0, 0
    for first in range(0, len(several), _TOGETHER):
        part = several[first : first + _TOGETHER]
        batch = collate_ids([list(source) for source, _ in part], None, range(len(part)))
        allowed = shortlist.allowed(batch.source)
        sizes += int(allowed.sum())
        for (_, target), own in zip(part, allowed, strict=True):
            inside = own[torch.as_tensor(np.asarray(target, dtype=np.int64))]
            tokens, held, whole = tokens + len(inside), held + int(inside.sum()), whole + bool(inside.all())
    return Coverage(len(several), tokens, held, whole, sizes / max(1, len(several)))
