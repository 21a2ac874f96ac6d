"""Models of a configuration, with initial or trained weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.registry import architecture
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.settings import ModelSettings
from seqloom.statistical.base import FittedModel
from seqloom.tensors import read_tensors
from seqloom.text.pair import TokenizerPair
from seqloom.training.checkpoint import assign_weights
from seqloom.types import Vocabularies

Model = TypeVar("Model", bound=nn.Module)


def build_model(config: Config, tokenizers: TokenizerPair) -> SequenceModel:
    """Return the neural model of a configuration, with random weights drawn from the seed of the run."""
    torch.manual_seed(config.train.seed)
    return build_neural(config.model, tokenizers.vocabularies)


def build_neural(settings: ModelSettings, vocabularies: Vocabularies) -> SequenceModel:
    """Return a neural model with random weights."""
    if architecture(settings.name).fitted:
        raise SeqloomError(
            f"The model {settings.name} is fitted, not trained by gradient, so it has no layers and weights.",
            "use a neural model: see seqloom models",
        )
    model = _build(settings, vocabularies)
    if not isinstance(model, SequenceModel):
        raise SeqloomError(
            f"The model {settings.name} is registered, but {type(model).__name__} is not a SequenceModel.",
            "derive the class from seqloom.models.base.AutoregressiveModel",
        )
    return model


def build_fitted(config: Config, tokenizers: TokenizerPair) -> FittedModel:
    """Return the fitted model of a configuration, before it is fitted."""
    return cast("FittedModel", _build(config.model, tokenizers.vocabularies))


def _build(settings: ModelSettings, vocabularies: Vocabularies) -> object:
    try:
        return architecture(settings.name).build(settings, vocabularies)
    except (RuntimeError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "out of memory"
        raise SeqloomError(
            f"The model {settings.name} cannot be built: {reason}.", "make it smaller (model.*)"
        ) from error


def choose_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is an accelerator if there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError) as error:
        raise SeqloomError(f"The device {name!r} cannot be used here.", "use cpu or auto") from error
    return device


def load_model(run: Run, *, checkpoint: str | None = None) -> tuple[SequenceModel, TokenizerPair]:
    """Return the trained model of a run and its tokenizers, verified; no random numbers are drawn."""
    config, tokenizers = run.config(), run.tokenizers()
    model = build_with_weights(
        lambda: build_neural(config.model, tokenizers.vocabularies), run.checked_weights(checkpoint)
    )
    return model.eval(), tokenizers


def build_with_weights(build: Callable[[], Model], weights: Path) -> Model:
    """Build a model with the weights of a file; the random state of the caller does not change.

    The model is built on the meta device, where a constructor computes nothing. A model with tensors that are
    not in its state dict, such as a table, is built a second time for their values.
    """
    with torch.device("meta"), _SkipInitialisation():
        model = build()
    if _has_unsaved_tensors(model):
        with torch.random.fork_rng(devices=[]):
            model = build()
    assign_weights(model, weights)
    return model


class _SkipInitialisation(TorchFunctionMode):
    """Skips the functions of torch.nn.init.

    On the meta device they compute nothing, but for some of them torch imports its compiler, which takes a
    second.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        given = kwargs or {}
        if func.__name__ in _INITIALISERS:
            return given.get("tensor") if "tensor" in given else args[0]
        return func(*args, **given)


_INITIALISERS = {name for name in vars(nn.init) if name.endswith("_") and not name.startswith("_")}


def _has_unsaved_tensors(model: nn.Module) -> bool:
    saved = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    held = (
        value
        for module in model.modules()
        for value in (*module.buffers(recurse=False), *vars(module).values())
        if isinstance(value, Tensor)
    )
    return any(id(tensor) not in saved for tensor in held)


def load_fitted(
    run: Run, *, checkpoint: str | None = None, device: torch.device | str = "cpu"
) -> tuple[FittedModel, TokenizerPair]:
    """Return the fitted model of a run and its tokenizers, verified."""
    tokenizers = run.tokenizers()
    model = build_fitted(run.config(), tokenizers)
    weights = run.checked_weights(checkpoint)
    try:
        model.load_state_dict({name: tensor.to(device) for name, tensor in read_tensors(weights).items()})
    except (KeyError, RuntimeError, TypeError, ValueError, IndexError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise SeqloomError(
            f"The weights in {weights} do not fit this model: {reason}.",
            "the file belongs to another run, or config.yaml was changed after training",
        ) from error
    return model, tokenizers
