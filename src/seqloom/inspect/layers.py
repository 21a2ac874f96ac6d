"""Layer by layer: what a Transformer would output if decoding stopped after each layer of its decoder."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.inspect.forced_text import forced_text
from seqloom.inspect.heads import Target
from seqloom.inspect.labels import END
from seqloom.models.base import SequenceModel
from seqloom.run.load import LoadedRun, use_of
from seqloom.types import EOS

VERSION = 1  # of the document
_DIGITS = 6


def has_layers(opened: LoadedRun) -> bool:
    """Return whether the model translates text with a decoder of Transformer blocks."""
    model = opened.model
    return (
        use_of(opened.config) == "translate"
        and not opened.tokenizers.frames
        and isinstance(model, SequenceModel)
        and isinstance(getattr(model, "decoder", None), nn.ModuleList)
        and isinstance(getattr(model, "decoder_norm", None), nn.Module)
    )


@torch.inference_mode()
def layer_outputs(opened: LoadedRun, text: str, target: Target = None) -> dict[str, Any]:
    """Return rank and probability of each output token after each layer, and the best token there.

    The state after a layer goes through the final norm and the output matrix (logit lens: nostalgebraist 2020).
    Layer 0 is the input of the first layer.
    """
    if not has_layers(opened):
        raise SeqloomError(
            f"The model {opened.config.model.name} has no layers to stop at.",
            "use a Transformer that translates",
        )
    forced = forced_text(opened, text, target)
    model, batch = forced.model, forced.batch
    decoder, norm = model.get_submodule("decoder"), model.get_submodule("decoder_norm")
    assert isinstance(decoder, nn.ModuleList) and batch.target_out is not None
    states: list[Tensor] = []
    hooks = [decoder[0].register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))]
    hooks += [block.register_forward_hook(lambda _, inputs, result: states.append(result)) for block in decoder]
    try:
        model.hidden(batch)
    finally:
        for hook in hooks:
            hook.remove()
    ids, pieces = batch.target_out[0], opened.tokenizers.target.pieces
    layers = []
    for number, state in enumerate(states):
        log_probs = model.output(norm(state[0])).double().log_softmax(-1)  # (T, V)
        own = log_probs.gather(1, ids.unsqueeze(1))
        best = log_probs.max(dim=1)
        layers.append(
            {
                "layer": number,
                "log_probs": [round(value, _DIGITS) for value in own.squeeze(1).tolist()],
                "ranks": ((log_probs > own).sum(dim=1) + 1).tolist(),
                "best": [END if one == EOS else pieces([one])[0] for one in best.indices.tolist()],
                "best_log_probs": [round(value, _DIGITS) for value in best.values.tolist()],
            }
        )
    return {
        "view": "layers",
        "version": VERSION,
        "source": list(forced.source),
        "target": [*forced.target[1:], END],
        "layers": layers,
    }
