"""Choice of one output per line: the candidate that is most similar to the reference.

With several candidates this is sequence-level interpolation, with one it is sequence-level distillation (Kim &
Rush 2016, arXiv:1606.07947).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from seqloom.data.report import DataReport
from seqloom.data.split import fingerprint
from seqloom.decode.mbr import Utility
from seqloom.distillation.translation import FlaggedOutput
from seqloom.types import Example


@dataclass
class Selection:
    """Statistics of the selected outputs."""

    data: DataReport = field(default_factory=DataReport)
    with_reference: int = 0  # kept lines that have a reference
    not_first: int = 0  # of these, lines whose selected output is not the model's best one
    first_similarity: float = 0.0  # sum over the model's best usable outputs
    selected_similarity: float = 0.0  # sum over the selected outputs

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics as JSON-compatible data, with mean similarities."""
        count = max(1, self.with_reference)
        return {
            "pairs": self.data.kept,
            "with_reference": self.with_reference,
            "not_first": self.not_first,
            "first_similarity": self.first_similarity / count,
            "selected_similarity": self.selected_similarity / count,
            "lines": self.data.as_dict(),
        }


def select(
    examples: Iterable[Example],
    found: Iterable[Sequence[FlaggedOutput]],
    *,
    similarity: Utility,
    held_out: Collection[int],
    selection: Selection,
    on_progress: Callable[[int], None],
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a source and its selected output; the lines without one are reported in `selection`.

    `held_out` are the fingerprints of the validation sources, which must not be in additional text.
    """
    for example, candidates in zip(examples, found, strict=True):
        selection.data.total += 1
        on_progress(1)
        usable = [one for one in candidates if is_usable(one, example.target)]
        if not example.source.strip():
            selection.data.drop(example, "empty line")
        elif example.target is None and fingerprint(example.source) in held_out:
            selection.data.drop(example, "source of a validation pair")
        elif not usable:
            flags = candidates[0].flags or ("empty",)
            selection.data.drop(example, f"suspicious output: {', '.join(flags)}")
        elif example.target is None:
            yield example.source, usable[0].text
        else:
            yield example.source, _most_similar(usable, example.target, similarity, selection).text


def is_usable(candidate: FlaggedOutput, reference: str | None) -> bool:
    """Return whether an output can be a target: it is not suspicious, or it equals the reference."""
    return candidate.text == reference or (not candidate.flags and bool(candidate.text.strip()))


def _most_similar(
    candidates: Sequence[FlaggedOutput], reference: str, similarity: Utility, selection: Selection
) -> FlaggedOutput:
    """Return the candidate most similar to the reference; of several, the one that the model ranks highest."""
    scores = [similarity(one.text, reference) for one in candidates]
    best = scores.index(max(scores))
    selection.with_reference += 1
    selection.not_first += best > 0
    selection.first_similarity += scores[0]
    selection.selected_similarity += scores[best]
    return candidates[best]
