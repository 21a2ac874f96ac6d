"""Influence of source tokens by gradients: on each output token, and on the vector handed to the decoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.decode.observer import report_step
from seqloom.errors import SeqloomError
from seqloom.inspect.forced_text import forced_text
from seqloom.inspect.heads import Target
from seqloom.inspect.labels import END
from seqloom.models.base import AutoregressiveModel
from seqloom.run.load import LoadedRun, use_of
from seqloom.types import Batch, Tree

VERSION = 1  # of the document
_DIGITS = 6
_LARGEST = 4096  # numbers in the vector whose Jacobian is computed


def has_influence(opened: LoadedRun) -> bool:
    """Return whether the gradient of an output with respect to its source tokens can be computed."""
    is_text = not opened.tokenizers.frames
    return is_text and use_of(opened.config) == "translate" and isinstance(opened.model, AutoregressiveModel)


def influence(opened: LoadedRun, text: str, target: Target, *, has_attention: bool) -> dict[str, Any]:
    """Return the gradient × input of every source token for every output token.

    Without attention, also how much of each source token is left in the vector that the decoder gets: the
    Frobenius norm of the Jacobian of this vector with respect to the embedding of the token.
    """
    if not has_influence(opened):
        raise SeqloomError(
            f"The model {opened.config.model.name} has no gradients from an output to a source.",
            "use a neural model that translates",
        )
    forced = forced_text(opened, text, target)
    model, batch = forced.model, forced.batch
    assert isinstance(model, AutoregressiveModel) and batch.target_out is not None
    with torch.enable_grad(), _source_embedding(model, batch) as found:
        log_probs = model.output(model.hidden(batch)[0]).log_softmax(-1)
        chosen = log_probs.gather(1, batch.target_out[0].unsqueeze(1)).squeeze(1)  # (T,)
        if "source" not in found:
            raise SeqloomError(
                f"The model {opened.config.model.name} has no source embedding.", "use another model"
            )
        embedded = found["source"]
        rows = []
        for one in chosen:
            report_step(list)  # the worker cancels obsolete documents here
            (gradient,) = torch.autograd.grad(one, embedded, retain_graph=True)
            rows.append((gradient[0] * embedded[0]).sum(dim=-1))
        product = torch.stack(rows).detach().double().cpu()
    left = None if has_attention else _left(model, batch)
    return {
        "view": "influence",
        "version": VERSION,
        "source": list(forced.source),
        "target": [*forced.target[1:], END],
        "log_probs": [round(value, _DIGITS) for value in chosen.detach().tolist()],
        "products": [[round(value, _DIGITS) for value in row] for row in product.tolist()],
        "left": left,
    }


@contextmanager
def _source_embedding(model: nn.Module, batch: Batch) -> Iterator[Mapping[str, Tensor]]:
    """Keep the embedded source of the block's forward passes, as a leaf that gradients reach."""
    found: dict[str, Tensor] = {}

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> Tensor | None:
        if inputs[0] is not batch.source:
            return None
        found["source"] = result.detach().requires_grad_()
        return found["source"]

    hooks = [one.register_forward_hook(keep) for one in model.modules() if isinstance(one, nn.Embedding)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _left(model: AutoregressiveModel, batch: Batch) -> list[float]:
    """Return the norm of the Jacobian of all numbers that the decoder gets, by source token."""
    with torch.enable_grad(), _source_embedding(model, batch) as found:
        parts = [one for one in _tensors(model.start(batch)) if one.requires_grad]
        distinct = {one.data_ptr(): one for one in parts}
        vector = torch.cat([one.flatten() for one in distinct.values()])
        if len(vector) > _LARGEST:
            raise SeqloomError(f"The decoder gets more than {_LARGEST:,} numbers.", "use a smaller model")
        squares = torch.zeros(found["source"].shape[1], dtype=torch.float64)
        for number in vector:
            report_step(list)
            (gradient,) = torch.autograd.grad(number, found["source"], retain_graph=True)
            squares += gradient[0].double().square().sum(dim=-1).cpu()
    return [round(value, _DIGITS) for value in squares.sqrt().tolist()]


def _tensors(tree: Tree) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _tensors(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from _tensors(value)
