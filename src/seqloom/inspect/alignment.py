"""Word alignments to look at: the posteriors and links of a pair, and links from the attention of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batching import collate_ids
from seqloom.decode.config import SearchConfig
from seqloom.decode.scoring import forced_attention
from seqloom.decode.torch_translator import batches_by_length
from seqloom.errors import SeqloomError
from seqloom.evaluate.alignment import Gold, Link
from seqloom.inspect.attention import FONTS, labels
from seqloom.inspect.picture import check_suffix, new_figure, save_figure
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.training import SPACE
from seqloom.types import Head, StepModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Weights = NDArray[np.float64]


# Pictures


@dataclass(frozen=True)
class AlignedPair:
    """One pair of sentences, how probable each link is in both directions, (S, T), and which were chosen."""

    source: list[str]
    target: list[str]
    forward: Weights
    backward: Weights
    links: list[Link]
    gold: Gold | None = None

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
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


def alignment_picture(pair: AlignedPair, path: Path, *, title: str = "") -> None:
    """Writes a heat map of the mean posterior, target words down; dots are links, frames the gold standard."""
    check_suffix(path)
    columns, rows = labels(pair.source), labels(pair.target)
    cell = min(max(14 / max(len(columns), len(rows)), 0.2), 0.4)
    figure = new_figure(cell * len(columns), cell * len(rows))
    axes = figure.add_axes((0, 0, 1, 1))
    mean = (pair.forward + pair.backward).T / 2
    axes.imshow(mean, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for i, j in pair.links:
        axes.plot(i, j, "o", color="tab:orange", markersize=cell * 16, markeredgecolor="white")
    if pair.gold:
        _frames(axes, pair.gold)
    _label(axes, columns, rows, cell * 28)
    parts = ["shade: mean posterior of both directions", "dot: link"]
    if pair.gold:
        parts.append("frame: gold standard (dashed: possible)")
    axes.set_xlabel("\n".join(parts), fontsize=8, loc="left", color="0.35")
    if title:
        axes.set_title(title, loc="left", fontsize=11, pad=10).set_parse_math(False)
    save_figure(figure, path)


def _frames(axes: Axes, gold: Gold) -> None:
    from matplotlib.patches import Rectangle

    for link in sorted(gold.possible):
        style = "-" if link in gold.sure else (0, (2, 1.5))
        corner = (link[0] - 0.44, link[1] - 0.44)
        axes.add_patch(Rectangle(corner, 0.88, 0.88, fill=False, edgecolor="crimson", linestyle=style))


def _label(axes: Axes, columns: list[str], rows: list[str], size: float) -> None:
    from matplotlib.font_manager import fontManager

    installed = set(fontManager.get_font_names())
    axes.set_xticks(range(len(columns)), columns, fontsize=size)
    axes.set_yticks(range(len(rows)), rows, fontsize=size)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    for tick in axes.get_xticklabels():
        tick.set(rotation=45, ha="left", va="bottom", rotation_mode="anchor")
    for tick in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        tick.set_parse_math(False)
        tick.set_fontfamily([name for name in FONTS if name in installed])
    axes.set_xticks(np.arange(1, len(columns)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(rows)) - 0.5, minor=True)
    axes.grid(which="minor", color="0.93", linewidth=0.8)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_color("0.8")


# Attention


@dataclass(frozen=True)
class Look:
    """One way to read links off a model's attention, with the links of every pair."""

    head: Head | None  # None: the mean of all
    later: bool  # read off one step later
    links: list[list[Link]]

    @property
    def name(self) -> str:
        """For a person, who counts from 1."""
        where = f"layer {self.head.layer + 1}, head {self.head.head + 1}" if self.head else "mean"
        return f"{where}, {'reading' if self.later else 'writing'}"


@torch.inference_mode()
def attention_looks(
    model: StepModel,
    tokenizers: TokenizerPair,
    pairs: Sequence[tuple[str, str]],
    search: SearchConfig,
    *,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] | None = None,
) -> list[Look]:
    """Every way to read links off the attention while the model is made to write the given targets.

    A target word is linked to the source word that its tokens look at most: when they are written, or one step
    later, when they are read (Chen et al. 2020, who find the latter better in Transformers).
    """
    sources = [tokenizers.source.encode(source) for source, _ in pairs]
    targets = [tokenizers.target.encode(target) for _, target in pairs]
    whole = [i for i in range(len(pairs)) if sources[i] and targets[i]]
    found: dict[tuple[Head | None, bool], list[list[Link]]] = {}
    widths = [max(len(sources[i]), len(targets[i])) + 1 for i in whole]
    for group in batches_by_length(widths, search.model_copy(update={"beam": 1})):
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
    return [Look(head and head._replace(later=later), later, links) for (head, later), links in found.items()]


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
