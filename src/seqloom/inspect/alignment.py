"""Word alignments to look at: the posteriors and links of a pair, and links from the attention of a model."""

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
from seqloom.inspect.grid import Names, color_bar, label_grid
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
_POSSIBLE = (0, (2, 1.5))  # the dashes around links that are possible but not sure


# Figures


@dataclass(frozen=True)
class AlignedPair(Inspection):
    """One pair of sentences, how probable each link is in both directions, (S, T), and which were chosen."""

    source: list[str]
    target: list[str]
    forward: Weights
    backward: Weights
    links: list[Link]
    gold: Gold | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return words, links, posteriors in both directions, and the gold standard if there is one."""
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

    def _names(self) -> Names:
        return Names(labels(self.source), labels(self.target))

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
            _frames(axes, self.gold)
            frame: dict[str, Any] = {"fill": False, "ec": VERMILLION}
            handles += [
                Patch(label="gold: sure", **frame),
                Patch(label="gold: possible", ls=_POSSIBLE, **frame),
            ]
        label_grid(axes, names, style, x="source words", y="target words", line="0.93")
        legend_below(figure, handles, style)


def _frames(axes: Axes, gold: Gold) -> None:
    from matplotlib.patches import Rectangle

    for link in sorted(gold.possible):
        corner, line = (link[0] - 0.44, link[1] - 0.44), "-" if link in gold.sure else _POSSIBLE
        axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, ec=VERMILLION, ls=line, lw=1.4))


# Attention


@dataclass(frozen=True)
class AttentionChoice:
    """One way to read links off a model's attention, with the links of every pair."""

    head: Head | None  # None: the mean of all
    shifted: bool  # read off one step later
    links: list[list[Link]]

    @property
    def name(self) -> str:
        """For a person, who counts from 1."""
        where = f"layer {self.head.layer + 1}, head {self.head.head + 1}" if self.head else "mean"
        return f"{where}, {'reading' if self.shifted else 'writing'}"


@torch.inference_mode()
def attention_looks(
    model: StepModel,
    tokenizers: TokenizerPair,
    pairs: Sequence[tuple[str, str]],
    search: SearchConfig,
    *,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] | None = None,
) -> list[AttentionChoice]:
    """Every way to read links off the attention while the model is made to write the given targets.

    A target word is linked to the source word that its tokens look at most: when they are written, or one step
    later, when they are read (Chen et al. 2020, who find the latter better in Transformers).
    """
    sources = [tokenizers.source.encode(source) for source, _ in pairs]
    targets = [tokenizers.target.encode(target) for _, target in pairs]
    whole = [i for i in range(len(pairs)) if sources[i] and targets[i]]
    found: dict[tuple[Head | None, bool], list[list[Link]]] = {}
    widths = [max(len(sources[i]), len(targets[i])) + 1 for i in whole]
    for group in batches_by_length(widths, batch_tokens=search.batch_tokens):
        chosen = [whole[place] for place in group]
        looks = _forced(model, [sources[i] for i in chosen], [targets[i] for i in chosen], device)
        for row, i in enumerate(chosen):
            words = token_words(tokenizers.source, pairs[i][0]), token_words(tokenizers.target, pairs[i][1])
            for head, weights in looks:
                for delay in (0, 1):
                    part = weights[row, delay : delay + len(targets[i]), : len(sources[i])]
                    links = found.setdefault((head, bool(delay)), [[] for _ in pairs])
                    links[i] = soft_links(part, *words)
        if on_progress:
            on_progress(len(group))
    return [
        AttentionChoice(head and head._replace(shifted=later), later, links)
        for (head, later), links in found.items()
    ]


def soft_links(weights: Weights, source_words: Sequence[int], target_words: Sequence[int]) -> list[Link]:
    """The most looked-at source word of every target word, from weights of tokens (T, S) and their words.

    The weights of a source word's tokens are added up, those of a target word's tokens too.
    """
    grid = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(grid, (np.asarray(target_words)[:, None], np.asarray(source_words)), weights)
    return sorted((int(i), j) for j, i in enumerate(grid.argmax(axis=1)))


def _forced(
    model: StepModel, sources: list[list[int]], targets: list[list[int]], device: torch.device | str
) -> list[tuple[Head | None, Weights]]:
    """The attention of all heads on average (None), then of each, (B, T + 1, S), while targets are written."""
    batch = collate_ids(sources, targets, range(len(sources))).to(device)
    looked = forced_attention(model, batch)
    if looked is None:
        raise SeqloomError(
            "The model has no attention from which links could be read.", "choose a run with attention"
        )
    weights = looked.double().cpu().numpy()  # (B, T + 1, L, H, S)
    layers, heads = weights.shape[2:4]
    each = [Head(layer, head) for layer in range(layers) for head in range(heads)]
    return [(None, weights.mean(axis=(2, 3))), *((one, weights[:, :, one.layer, one.head]) for one in each)]


def token_words(tokenizer: Tokenizer, text: str) -> list[int]:
    """The word to which each token of a text belongs, from 0; spaces belong to the word behind them."""
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
            f"The tokenizer sees {word + 1} words where white space leaves {len(text.split())}: {text[:80]!r}.",
            "write the text as the tokenizer normalises it",
        )
    return words
