"""A score by length of the source, with its intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from seqloom.errors import SeqloomError
from seqloom.evaluate.buckets import Bucket
from seqloom.inspect.picture import check_suffix, new_figure, save_figure


def bucket_picture(systems: Mapping[str, Sequence[Bucket]], path: Path, *, title: str = "") -> None:
    """Writes one line per system: the score of each bucket with its 95 % interval, short to long."""
    check_suffix(path)
    if not any(systems.values()):
        raise SeqloomError("There are no buckets to draw.", "evaluate on at least one line")
    first = next(buckets[0] for buckets in systems.values() if buckets)
    figure = new_figure(5.5, 3.2)
    axes = figure.subplots()
    for name, buckets in systems.items():
        values = [bucket.score.value for bucket in buckets]
        below = [max(0.0, b.score.value - (b.score.low or b.score.value)) for b in buckets]
        above = [max(0.0, (b.score.high or b.score.value) - b.score.value) for b in buckets]
        spans = [bucket.span for bucket in buckets]
        axes.errorbar(spans, values, yerr=[below, above], marker="o", capsize=3, label=name)
    axes.set_xlabel(f"{first.unit} of the source")
    axes.set_ylabel(first.score.label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    if len(systems) > 1:
        axes.legend(frameon=False)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    save_figure(figure, path)
