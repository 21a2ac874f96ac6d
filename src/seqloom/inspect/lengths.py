"""How long the two sides of a corpus are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seqloom.inspect.picture import check_suffix, new_figure, save_figure


def length_picture(histograms: Mapping[str, Mapping[str, int]], path: Path, *, title: str = "") -> None:
    """Writes one bar chart per name: how many lines fall into each range of lengths."""
    check_suffix(path)
    figure = new_figure(4.2 * len(histograms), 2.8)
    panels = figure.subplots(1, len(histograms), squeeze=False, sharey=True)[0]
    for panel, (name, histogram) in zip(panels, histograms.items(), strict=True):
        panel.bar(list(histogram), list(histogram.values()), color="tab:blue")
        panel.set_xlabel(name)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(axis="x", labelsize=8)
    panels[0].set_ylabel("lines")
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    save_figure(figure, path, tight=True)
