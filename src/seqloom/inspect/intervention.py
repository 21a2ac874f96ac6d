"""Interventions in the attention of a Transformer: heads that are switched off, and pinned source tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic import Field
from torch import Tensor, nn

from seqloom.decode.torch_translator import TorchTranslator
from seqloom.errors import SeqloomError
from seqloom.inspect.labels import END
from seqloom.inspect.translation import hypothesis_data
from seqloom.inspect.viewed_run import ViewedRun, check_length
from seqloom.nn.multihead import CrossAttention
from seqloom.settings import Settings
from seqloom.types import Head, Request

VERSION = 1  # of the document


class InterventionOptions(Settings):
    """A text, and what is changed in the attention from the output to the source."""

    text: str = Field("", description="source text")
    off: tuple[tuple[int, int], ...] = Field(
        (), description="layer and head of each head to switch off, from 0"
    )
    pins: tuple[tuple[int, int], ...] = Field(
        (), description="output place, and the source token that all heads attend to there, from 0"
    )
    beam: int | None = Field(None, ge=1, le=100, description="beam size; None = that of the run")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")


def intervention(viewed: ViewedRun, options: InterventionOptions) -> dict[str, Any]:
    """Return the output of the model, and its output when heads are off or attention is pinned."""
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    if not options.text.strip():
        raise SeqloomError("The text is empty.", "give a text to translate")
    if options.beam is not None:
        translator = translator.with_search({"beam": options.beam, "nbest": 1})
    blocks = cross_attentions(translator)
    if not blocks:
        raise SeqloomError(
            f"The attention of {viewed.name} cannot be changed.", "use a Transformer with an encoder"
        )
    _check(options, blocks, translator)
    (free,) = translator.translate(Request(options.text))[:1]
    with _changed(blocks, [Head(*one) for one in options.off], dict(options.pins)):
        (changed,) = translator.translate(Request(options.text))[:1]
    return {
        "view": "intervention",
        "version": VERSION,
        "source": options.text,
        "source_tokens": [*(free.source_tokens or ()), END],
        "off": [list(one) for one in options.off],
        "pins": [list(one) for one in options.pins],
        "free": hypothesis_data(free),
        "changed": hypothesis_data(changed),
    }


def cross_attentions(translator: TorchTranslator) -> list[CrossAttention]:
    """Return the attention of each decoder layer to the source, if they are those of a Transformer."""
    model = translator.model
    modules = model.modules() if isinstance(model, nn.Module) else ()
    return [one for one in modules if isinstance(one, CrossAttention)]


def _check(options: InterventionOptions, blocks: Sequence[CrossAttention], translator: TorchTranslator) -> None:
    for layer, head in options.off:
        if not (0 <= layer < len(blocks) and 0 <= head < blocks[layer].heads):
            raise SeqloomError(
                f"There is no head {head} in layer {layer}.",
                f"layers are 0 to {len(blocks) - 1}, heads 0 to {blocks[0].heads - 1}",
            )
    length = len(translator.tokenizers.source.encode(options.text)) + translator.tokenizers.source_end
    for place, source in options.pins:
        if place < 0 or not 0 <= source < length:
            raise SeqloomError(
                f"Output place {place} cannot be pinned to source token {source}.",
                f"source tokens are 0 to {length - 1}",
            )


@contextmanager
def _changed(blocks: Sequence[CrossAttention], off: Sequence[Head], pins: dict[int, int]) -> Iterator[None]:
    """Change the attention of all steps of a search: its n-th step computes place n of every hypothesis."""
    steps: Counter[int] = Counter()

    def attend(layer: int, scores: Tensor, values: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        place = steps[layer]
        steps[layer] += 1
        _, weights = type(blocks[layer]).attend(blocks[layer], scores, values, mask)
        weights = weights.clone()
        if place in pins:
            weights.zero_()
            weights[..., pins[place]] = 1.0
        weights[:, [one.head for one in off if one.layer == layer]] = 0.0
        return weights @ values, weights

    for layer, block in enumerate(blocks):
        object.__setattr__(block, "attend", partial(attend, layer))
    try:
        yield
    finally:
        for block in blocks:
            object.__delattr__(block, "attend")
