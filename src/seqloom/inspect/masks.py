"""Which positions a query attends to in every self-attention of a model, as data and as a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, GREEN, ORANGE, Style, legend_below
from seqloom.inspect.untrained import batch_of, ids, smallest_vocabulary
from seqloom.nn.longattention import BlockSparseAttention, LinformerAttention
from seqloom.nn.masks import Visibility
from seqloom.nn.multihead import SelfAttention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the document
_COLORS = {
    Visibility.HIDDEN: "#ededed",
    Visibility.VISIBLE: BLUE,
    Visibility.GLOBAL: ORANGE,
    Visibility.RANDOM: GREEN,
}
_PANEL = 3.4  # inches
_LENGTH, _BLOCKS = 24, 8  # default length in positions, and with block-sparse attention in blocks


@dataclass(frozen=True)
class AttentionMask:
    """Visibility in one attention: for Linformer (r, S) weights of the keys, otherwise (T, S) codes."""

    codes: NDArray[np.int64]  # values of Visibility; a Linformer query sees every real position
    is_blocked: bool  # whether the visible positions are near, global or random
    projection: NDArray[np.float64] | None = None  # E of Linformer (r, S), of its first head

    def share(self, code: Visibility | None = None) -> float:
        """Return the share of the pairs with this code, by default of all visible ones."""
        found = self.codes > 0 if code is None else self.codes == code
        return float(found.mean())

    def names(self) -> dict[Visibility, str]:
        """Return the names of the codes that occur."""
        visible = "near" if self.is_blocked else "visible"
        names = {
            Visibility.HIDDEN: "hidden",
            Visibility.VISIBLE: visible,
            Visibility.GLOBAL: "global",
            Visibility.RANDOM: "random",
        }
        return {code: name for code, name in names.items() if (self.codes == code).any()}


@dataclass(frozen=True)
class MaskPicture(Inspection):
    """Visibility of positions by attention: encoder, decoder or both."""

    masks: Mapping[str, AttentionMask]
    layer: int

    def to_dict(self) -> dict[str, Any]:
        """Return the codes of every pair: 0 hidden, 1 visible or near, 2 global, 3 random."""
        return {
            "version": VERSION,
            "layer": self.layer,
            "masks": {
                name: {
                    "codes": mask.codes.tolist(),
                    "visible": mask.share(),
                    "projection": None if mask.projection is None else mask.projection.round(5).tolist(),
                }
                for name, mask in self.masks.items()
            },
        }

    def _panels(self) -> int:
        return sum(1 if mask.projection is None else 2 for mask in self.masks.values())

    def _title(self) -> str:
        return f"Positions that a query attends to, layer {self.layer}"

    def _size(self) -> tuple[float, float]:
        return _PANEL * max(self._panels(), 1) + 1.2, _PANEL + 1.5

    def _draw(self, figure: Figure, style: Style) -> None:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        panels = iter(figure.subplots(1, self._panels(), squeeze=False)[0])
        shades = ListedColormap([_COLORS[code] for code in Visibility])
        shown: dict[str, list[str]] = {}  # color → names
        for name, mask in self.masks.items():
            axes = next(panels)
            axes.imshow(mask.codes, cmap=shades, vmin=0, vmax=len(Visibility) - 1, interpolation="nearest")
            axes.set(title=name, xlabel="key j", ylabel="query i")
            axes.locator_params(nbins=5, integer=True)
            for code, label in mask.names().items():
                names = shown.setdefault(_COLORS[code], [])
                names += [] if label in names else [label]
            if mask.projection is not None:
                axes = next(panels)
                top = float(np.abs(mask.projection).max())
                image = axes.imshow(mask.projection, cmap="RdBu", vmin=-top, vmax=top, aspect="auto")
                axes.set(title=f"{name}: projection E", xlabel="position j", ylabel="projected key")
                axes.locator_params(nbins=5, integer=True)
                figure.colorbar(image, ax=axes, label="weight", pad=0.02)
        legend_below(
            figure, [Patch(color=color, label=", ".join(names)) for color, names in shown.items()], style
        )


def mask_picture(
    model: nn.Module, *, length: int | None = None, padding: int = 0, prefix: int = 8, layer: int = 1
) -> MaskPicture:
    """Return who sees whom in one layer, recorded from a forward pass over random tokens.

    The source of an encoder has `length` positions, of which the last `padding` are padding. The sequence of a
    language model has `length` positions too; the first `prefix` are the source.
    """
    sides = {
        side: [part for part in getattr(model, side).modules() if isinstance(part, SelfAttention)]
        for side in ("encoder", "decoder")
        if isinstance(getattr(model, side, None), nn.Module)
    }
    sides = {side: modules for side, modules in sides.items() if modules}
    if not sides:
        raise SeqloomError(
            f"{type(model).__name__} has no self-attention, so it has no masks.", "use a Transformer"
        )
    if layer > max(map(len, sides.values())):
        most = max(map(len, sides.values()))
        raise SeqloomError(f"There is no layer {layer}: the model has {most}.", "choose another --layer")
    chosen = {side: modules[min(layer, len(modules)) - 1] for side, modules in sides.items()}
    length = _default_length(chosen) if length is None else length
    is_language_model = "encoder" not in sides
    first = prefix if is_language_model else length
    if not 0 <= padding < length or not 1 <= first < length + (not is_language_model):
        raise SeqloomError(
            f"{length} positions are too few for {padding} of padding and a prefix of {prefix}.",
            "use a larger --length",
        )
    if is_language_model and padding:
        raise SeqloomError(
            "The padding of a language model follows the text, where the causal mask hides it.",
            "leave out --padding",
        )
    vocabulary = smallest_vocabulary(model)
    source = ids(2, first, 1, vocabulary)
    target = ids(2, length - first if is_language_model else length, 2, vocabulary)
    batch = batch_of(source, target, torch.zeros_like(source))
    lengths = batch.source_lengths - torch.tensor([padding, 0])
    return MaskPicture(_recorded(model, chosen, replace(batch, source_lengths=lengths)), layer)


def _default_length(chosen: Mapping[str, SelfAttention]) -> int:
    blocks = [one.block for one in chosen.values() if isinstance(one, BlockSparseAttention)]
    return max([_LENGTH, *(_BLOCKS * block for block in blocks)])


@torch.inference_mode()
def _recorded(model: Any, chosen: Mapping[str, SelfAttention], batch: Any) -> dict[str, AttentionMask]:
    """Return the masks of these attentions in a forward pass, for the first sentence."""
    found: dict[str, AttentionMask] = {}
    names = {module: name for name, module in chosen.items()}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], options: dict[str, Any]) -> None:
        assert isinstance(module, SelfAttention)
        mask, causal = options.get("mask"), bool(options.get("causal"))
        x = inputs[0]
        if mask is not None and mask.dim() == 4:
            codes = mask.expand(len(x), -1, -1, -1)[0, 0].long()
        else:
            real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
            codes = module.visibility(real, causal=causal)[0]
        projection = None
        if isinstance(module, LinformerAttention):
            real = x.new_ones(x.shape[1]) if mask is None else mask[0].to(x.dtype)
            projection = (module.projection[0, :, : x.shape[1]] * real).double().numpy()
        is_blocked = isinstance(module, BlockSparseAttention)
        found[names[module]] = AttentionMask(codes.numpy(), is_blocked, projection)

    hooks = [module.register_forward_pre_hook(keep, with_kwargs=True) for module in chosen.values()]
    try:
        model.hidden(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return found
