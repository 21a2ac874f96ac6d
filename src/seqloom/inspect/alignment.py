"""Inspection of word alignments: posteriors and links of a pair, and links from a model's attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.pipeline import batches_by_length
from seqloom.decode.scoring import forced_attention
from seqloom.errors import SeqloomError
from seqloom.evaluate.alignment import Gold, Link
from seqloom.inspect.grid import GridLabels, color_bar, label_grid
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.labels import labels
from seqloom.inspect.picture import ORANGE, VERMILLION, Style, legend_below
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.training import SPACE
from seqloom.types import Head, StepModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Weights = NDArray[np.float64]
_POSSIBLE = (0, (2, 1.5))  # dash pattern around links that are possible but not sure


# Figures


@dataclass(frozen=True)
class AlignedPair(Inspection):
    """A sentence pair with its link posteriors in both directions, (S, T), and the chosen links."""

    source: list[str]
    target: list[str]
    forward: Weights
    backward: Weights
    links: list[Link]
    gold: Gold | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return words, links, posteriors in both directions, and gold links if there are any."""
        found = {
            "source": self.source,
            "target": self.target,
            "links": [list(link) for link in self.links],
            "forward": self.forward.round(6).tolist(),
            "backward": self.backward.round(6).tolist(),
        }
        if self.gold:
            kinds = {"sure": self.gold.sure, "possible": self.gold.possible}
            found["gold"] = {kind: sorted(map(list, links)) for kind, links in kinds.items()}
        return found

    def _title(self) -> str:
        return "Word alignment"

    def _names(self) -> GridLabels:
        return GridLabels(labels(self.source), labels(self.target))

    def _size(self) -> tuple[float, float]:
        return self._names().page_size(below=0.5)

    def _draw(self, figure: Figure, style: Style) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        names = self._names()
        axes = figure.subplots()
        mean = (self.forward + self.backward).T / 2
        image = axes.imshow(mean, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        color_bar(figure, axes, image, "mean posterior", {0: "0", 1: "1"})
        dot: dict[str, Any] = {
            "marker": "o",
            "color": ORANGE,
            "mec": "white",
            "ms": 16 * min(names.cell(style)),
        }
        for i, j in self.links:
            axes.plot(i, j, **dot)
        handles: list[Any] = [Line2D([], [], ls="", label="link", **{**dot, "ms": 0.6 * style.text})]
        if self.gold:
            _draw_gold(axes, self.gold)
            frame: dict[str, Any] = {"fill": False, "ec": VERMILLION}
            handles += [
                Patch(label="gold: sure", **frame),
                Patch(label="gold: possible", ls=_POSSIBLE, **frame),
            ]
        label_grid(axes, names, style, x="source words", y="target words", line="0.93")
        legend_below(figure, handles, style)


def _draw_gold(axes: Axes, gold: Gold) -> None:
    from matplotlib.patches import Rectangle

    for link in sorted(gold.possible):
        corner, line = (link[0] - 0.44, link[1] - 0.44), "-" if link in gold.sure else _POSSIBLE
        axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, ec=VERMILLION, ls=line, lw=1.4))


# Attention


@dataclass(frozen=True)
class AttentionChoice:
    """Links of every pair, extracted from one attention head or from the mean of all heads."""

    head: Head | None  # None: mean of all heads
    shifted: bool  # extracted one step later
    links: list[list[Link]]

    @property
    def name(self) -> str:
        """Display name, with layers and heads counted from 1."""
        where = f"layer {self.head.layer + 1}, head {self.head.head + 1}" if self.head else "mean"
        return f"{where}, {'reading' if self.shifted else 'writing'}"


@torch.inference_mode()
def attention_links(
    model: StepModel,
    tokenizers: TokenizerPair,
    pairs: Sequence[tuple[str, str]],
    search: SearchConfig,
    *,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] | None = None,
) -> list[AttentionChoice]:
    """Return the links from every attention head, and from their mean, under forced decoding of the targets.

    A target word is linked to the source word with the most attention from its tokens: in the step that writes
    them, or in the next one, which reads them (Chen et al. 2020, who find the latter better in Transformers).
    """
    sources = [tokenizers.source.encode(source) for source, _ in pairs]
    targets = [tokenizers.target.encode(target) for _, target in pairs]
    nonempty = [i for i in range(len(pairs)) if sources[i] and targets[i]]
    found: dict[tuple[Head | None, bool], list[list[Link]]] = {}
    widths = [max(len(sources[i]), len(targets[i])) + 1 for i in nonempty]
    for group in batches_by_length(widths, batch_tokens=search.batch_tokens):
        chosen = [nonempty[place] for place in group]
        attention = _forced_attention(model, [sources[i] for i in chosen], [targets[i] for i in chosen], device)
        for row, i in enumerate(chosen):
            words = token_words(tokenizers.source, pairs[i][0]), token_words(tokenizers.target, pairs[i][1])
            for head, weights in attention:
                for delay in (0, 1):
                    part = weights[row, delay : delay + len(targets[i]), : len(sources[i])]
                    links = found.setdefault((head, bool(delay)), [[] for _ in pairs])
                    links[i] = soft_links(part, *words)
        if on_progress:
            on_progress(len(group))
    return [
        AttentionChoice(head and head._replace(shifted=shifted), shifted, links)
        for (head, shifted), links in found.items()
    ]


def soft_links(weights: Weights, source_words: Sequence[int], target_words: Sequence[int]) -> list[Link]:
    """Link every target word to the source word with the most attention, given token weights (T, S).

    Weights are summed over the tokens of a source word and over the tokens of a target word.
    """
    grid = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(grid, (np.asarray(target_words)[:, None], np.asarray(source_words)), weights)
    return sorted((int(i), j) for j, i in enumerate(grid.argmax(axis=1)))


def _forced_attention(
    model: StepModel, sources: list[list[int]], targets: list[list[int]], device: torch.device | str
) -> list[tuple[Head | None, Weights]]:
    """Return the mean attention of all heads (None), then that of each head, (B, T + 1, S)."""
    batch = collate_ids(sources, targets, range(len(sources))).to(device)
    attention = forced_attention(model, batch)
    if attention is None:
        raise SeqloomError("The model has no attention to extract links from.", "choose a run with attention")
    weights = attention.double().cpu().numpy()  # (B, T + 1, L, H, S)
    layers, heads = weights.shape[2:4]
    each = [Head(layer, head) for layer in range(layers) for head in range(heads)]
    return [(None, weights.mean(axis=(2, 3))), *((one, weights[:, :, one.layer, one.head]) for one in each)]


def token_words(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the word index of each token of a text, from 0; spaces belong to the following word."""
    words, inside = [], False
    word = -1
    for token in tokenizer.surfaces(text):
        for place, char in enumerate(token):
            word += char != SPACE and not inside
            inside = char != SPACE
            if place == 0:
                words.append(word + (not inside))
    if word + 1 != len(text.split()):
        raise SeqloomError(
            f"The tokenizer finds {word + 1} words, white space separates {len(text.split())}: {text[:80]!r}.",
            "normalise the text as the tokenizer does",
        )
    return words
