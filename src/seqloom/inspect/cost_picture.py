"""FLOPs of every part as the sentences grow."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from seqloom.errors import SeqloomError
from seqloom.inspect.cost import predict
from seqloom.inspect.picture import check_suffix, new_figure, save_figure

SHORTEST, LONGEST = 16, 1024  # tokens; the picture goes on to the length that was asked for


def cost_picture(model: nn.Module, path: Path, *, length: int = LONGEST, title: str = "") -> None:
    """Writes the predicted FLOPs per token of a forward pass by part, one above the other, over the length."""
    check_suffix(path)
    figure = new_figure(8.0, 4.0)
    costs = _costs(model, max(length, LONGEST))
    names = list(dict.fromkeys(name for row in costs.values() for name in row))
    heights = [[row.get(name, 0.0) / 1e6 for row in costs.values()] for name in names]
    shown = [(name, height) for name, height in zip(names, heights, strict=True) if any(height)]
    panel = figure.subplots()
    panel.stackplot(
        list(costs),
        [height for _, height in shown],
        labels=[name for name, _ in shown],
        colors=[f"C{number}" for number in range(len(shown))],
        alpha=0.85,
    )
    panel.set_xscale("log", base=2)
    panel.set_xticks(list(costs), [f"{n:,}" for n in costs])
    panel.set_xlabel("tokens on each side")
    panel.set_ylabel("MFLOPs per token, forward")
    panel.spines[["top", "right"]].set_visible(False)
    panel.margins(x=0, y=0.02)
    handles, labels = panel.get_legend_handles_labels()
    panel.legend(
        handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5)
    )
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=11, parse_math=False)
    save_figure(figure, path, tight=True)


def _costs(model: nn.Module, longest: int) -> dict[int, dict[str, float]]:
    """FLOPs per token by part, at every power of two that the model takes."""
    found: dict[int, dict[str, float]] = {}
    length = SHORTEST
    while length <= longest:
        try:
            prediction = predict(model, length)
        except SeqloomError:
            if not found:
                raise
            break  # longer than its positions
        found[length] = {part.name: part.cost.forward / length for part in prediction.parts}
        length *= 2
    return found
