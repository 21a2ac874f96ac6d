"""Cost of a model, predicted from its modules.

A forward pass records only the number of positions that each module processes; the cost follows from a formula
per kind of module. Nothing depends on the architecture, so new ones that consist of known modules work
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from seqloom.data.batching import collate_ids
from seqloom.errors import SeqloomError
from seqloom.inspect.cost_layers import Layer, kind_of, layer_of
from seqloom.inspect.cost_rules import Cost, Use, cost
from seqloom.inspect.inspection import Inspection
from seqloom.inspect.picture import BLUE, ORANGE, Style, legend_below
from seqloom.models.base import VectorModel
from seqloom.nn.cells import RecurrentLayer
from seqloom.nn.context import AttentionContext, MeanContext
from seqloom.nn.multihead import CrossAttention
from seqloom.types import UNK, Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KEEPS_INPUT = (nn.Linear, nn.LayerNorm, nn.RMSNorm, RecurrentLayer)
_ATTENDS = (CrossAttention, AttentionContext, MeanContext)  # called with queries and a memory


@dataclass
class CostPart:
    """All modules of one kind in one part of the model, e.g. the feed-forward layers of the encoder."""

    name: str
    modules: int = 0
    parameters: int = 0
    cost: Cost = field(default_factory=Cost)  # of one sentence


@dataclass(frozen=True)
class CostPrediction(Inspection):
    """Predicted cost of one sentence pair by part of the model, and a table of layer complexities."""

    length: int  # tokens on each side
    parts: list[CostPart]
    layers: list[Layer]
    unknown: list[str]  # modules with weights but without a rule

    @property
    def total(self) -> CostPart:
        """Sum of all parts."""
        total = CostPart("total")
        for part in self.parts:
            total.modules += part.modules
            total.parameters += part.parameters
            total.cost += part.cost
        return total

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: FLOPs and bytes per token of one side."""
        return {
            "length": self.length,
            "parts": [self._plain(part) for part in self.parts],
            "total": self._plain(self.total),
            "layers": [asdict(layer) for layer in self.layers],
            "not_predicted": self.unknown,
        }

    def _plain(self, part: CostPart) -> dict[str, Any]:
        per_token = {f"{name}_per_token": value / self.length for name, value in asdict(part.cost).items()}
        return {"name": part.name, "modules": part.modules, "parameters": part.parameters, **per_token}

    def _title(self) -> str:
        return f"Predicted cost per token, {self.length:,} tokens on each side"

    def _size(self) -> tuple[float, float]:
        return 7.5, 1.8 + 0.3 * len(self.parts)

    def _draw(self, figure: Figure, style: Style) -> None:
        axes = figure.subplots()
        shown = [part for part in self.parts if part.cost.forward or part.cost.backward]
        forward, backward = (
            [getattr(part.cost, name) / self.length / 1e6 for part in shown] for name in ("forward", "backward")
        )
        names = [part.name for part in shown]
        bars = [axes.barh(names, forward, color=BLUE, label="forward")]
        bars.append(axes.barh(names, backward, left=forward, color=ORANGE, label="backward"))
        axes.invert_yaxis()
        axes.set_xlabel("MFLOPs per token")
        axes.set_ylabel("part of the model")
        legend_below(figure, bars, style)


def example_batch(length: int, sentences: int = 1) -> Batch:
    """Return sentences of `length` tokens on each side, EOS included; in their trees, every token is a root."""
    if length < 1:
        raise SeqloomError(f"The length must be at least 1 token, got {length}.", "use --length 1 or more")
    rows = [[UNK] * (length - 1)] * sentences
    batch = collate_ids(rows, rows, range(sentences))
    return replace(batch, source_heads=torch.zeros_like(batch.source))


@contextmanager
def must_fit(length: int) -> Iterator[None]:
    """Turn an out-of-memory error, or an error about the model's maximum length, into advice."""
    try:
        yield
    except SeqloomError as error:
        raise SeqloomError(error.message, f"use a --length below {length}") from error
    except (RuntimeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "out of memory"
        raise SeqloomError(
            f"The cost of {length} tokens cannot be measured: {reason}.", f"use a --length below {length}"
        ) from error


@torch.enable_grad()
def predict(model: nn.Module, length: int) -> CostPrediction:
    """Return the cost of a training step on one sentence pair with `length` tokens on each side."""
    if not hasattr(model, "hidden"):
        raise SeqloomError(
            f"The cost of {type(model).__name__} cannot be predicted: it is not trained by gradient descent.",
            "choose a neural model (see `seqloom models`)",
        )
    if isinstance(model, VectorModel):
        raise SeqloomError(
            f"The cost of {type(model).__name__} cannot be predicted: it writes vectors, not tokens.",
            "use the base model, e.g. transformer, whose layers are the same",
        )
    batch = example_batch(length)
    with must_fit(length):
        uses = _observe(model, batch)
    modules = _outermost(model, uses)
    rows: dict[str, CostPart] = {}
    counted_weights = set[nn.Parameter]()
    for path, module in modules.items():
        name = _part_name(path, module)
        row = rows.setdefault(name, CostPart(name))
        weights = set(module.parameters()) - counted_weights
        counted_weights |= weights
        row.modules += 1
        row.parameters += sum(weight.numel() for weight in weights)
        costs = (cost(inner, uses[inner]) for inner in module.modules() if inner in uses)
        row.cost = sum((one for one in costs if one), row.cost)
    layers = (layer_of(module, use) for module, use in uses.items())
    return CostPrediction(
        length=length,
        parts=[row for row in rows.values() if row.parameters or row.cost != Cost()],
        layers=list(dict.fromkeys(layer for layer in layers if layer)),
        unknown=[
            f"{type(module).__name__} ({path})"
            for path, module in modules.items()
            if cost(module, Use()) is None
        ],
    )


def _outermost(model: nn.Module, uses: dict[nn.Module, Use]) -> dict[str, nn.Module]:
    """Return by path, in the order of use, the outermost modules that have a rule or their own weights."""
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        inside = any(path.startswith(f"{other}.") for other in found)
        has_weights = next(module.parameters(recurse=False), None) is not None
        if path and not inside and (has_weights or cost(module, Use()) is not None):
            found[path] = module
    order = {module: number for number, module in enumerate(uses)}
    last = len(order)  # for modules that were never called
    return dict(sorted(found.items(), key=lambda item: min(order.get(m, last) for m in item[1].modules())))


def _part_name(path: str, module: nn.Module) -> str:
    """Return the name of a module's part: its kind, and its place in the model if there may be several."""
    kind, place = kind_of(module), path.partition(".")[0].replace("_", " ")
    if isinstance(module, nn.Embedding):
        return "embeddings"
    return f"{place} {kind}" if kind and kind != place else place


def _observe(model: nn.Module, batch: Batch) -> dict[nn.Module, Use]:
    """Run a forward pass and return how each module was used."""
    uses: dict[nn.Module, Use] = {}
    inputs_by_id: dict[int, Tensor] = {}  # references, so that no other tensor gets the same id

    def record(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if not inputs or not isinstance(inputs[0], Tensor):
            return
        x, new = inputs[0], 0
        if isinstance(module, _KEEPS_INPUT) and id(x) not in inputs_by_id:
            inputs_by_id[id(x)], new = x, x.numel() * x.element_size()
        keys = inputs[1][0].shape[-2] if isinstance(module, _ATTENDS) else 0
        uses.setdefault(module, Use(len(batch.source))).add(x, keys=keys, new=new)

    hooks = [module.register_forward_hook(record) for module in model.modules()]
    try:
        model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return uses
