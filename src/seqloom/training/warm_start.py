"""Warm start: initial weights from other runs, matched by name and shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.training.checkpoint import weights_of


@dataclass
class WarmStart:
    """Report of a warm start, by the weights' names in the new model."""

    parameters: dict[str, int]  # weight → number of elements
    loaded: dict[str, str] = field(default_factory=dict)  # weight → run that it comes from
    other_shape: dict[str, str] = field(default_factory=dict)  # weight → shapes in the run and in the model
    unused: dict[str, list[str]] = field(default_factory=dict)  # run → weights that the model does not have

    @property
    def fresh(self) -> list[str]:
        """The weights that start at random."""
        return [name for name in self.parameters if name not in self.loaded]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of warm-start.json."""
        return {**asdict(self), "fresh": self.fresh}

    def summary(self) -> list[str]:
        """Return messages on how much of each part of the model was loaded."""
        lines = []
        for part in dict.fromkeys(name.split(".")[0] for name in self.parameters):
            names = [name for name in self.parameters if name.split(".")[0] == part]
            loaded = [name for name in names if name in self.loaded]
            runs = ", ".join(dict.fromkeys(self.loaded[name] for name in loaded))
            count = f"{_count(self.parameters, loaded)} of {_count(self.parameters, names)} parameters"
            lines.append(f"{part}: {count} from {runs}" if loaded else f"{part}: fresh")
        for name, shapes in self.other_shape.items():
            lines.append(f"{name}: fresh, because its shape is {shapes}")
        for run, names in self.unused.items():
            parts = ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            lines.append(f"not used from {run}: {parts} ({len(names)} weights)")
        return lines


def _count(parameters: dict[str, int], names: list[str]) -> str:
    return f"{sum(parameters[name] for name in names):,}"


def warm_start(model: nn.Module, runs: Mapping[str, Mapping[str, Tensor]]) -> WarmStart:
    """Copy the weights of other runs into the model; the first run that has a weight wins."""
    own = model.state_dict()
    report = WarmStart({name: weight.numel() for name, weight in weights_of(model).items()})
    for run, weights in runs.items():
        for name, weight in weights.items():
            if name not in own:
                report.unused.setdefault(run, []).append(name)
            elif weight.shape != own[name].shape:
                report.other_shape[name] = (
                    f"{tuple(weight.shape)} in {run}, {tuple(own[name].shape)} in this model"
                )
            elif (
                name in report.parameters and name not in report.loaded
            ):  # of tied weights, the first name counts
                own[name].copy_(weight)
                report.loaded[name] = run
    if all(own[name].dim() == 1 for name in report.loaded):  # a bias matches by coincidence
        raise SeqloomError(
            f"No weight matrix of {', '.join(runs)} fits this model.",
            "use the same model.width, model.ffn and model.heads",
        )
    return report
