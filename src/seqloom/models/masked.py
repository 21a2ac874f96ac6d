"""Masked language model: an encoder that predicts masked tokens from both sides (Devlin et al. 2019)."""

from __future__ import annotations

from torch import Tensor

from seqloom.models.base import SequenceModel
from seqloom.models.stack import Encoder, EncoderStackSettings, initialise
from seqloom.nn.embedding import embeddings_and_output
from seqloom.registry import FILL, register
from seqloom.types import Batch, Vocabularies


class MaskedSettings(EncoderStackSettings):
    name: str = "mlm"


@register(
    "mlm",
    summary="Encoder-only masked language model: fills gaps, or initialises the encoder of a translation model",
    paper="Devlin et al. 2019, arXiv:1810.04805",
    settings=MaskedSettings,
    task=FILL,
)
class MaskedLanguageModel(Encoder, SequenceModel):
    """p(x_t | the rest of x) at every position of a text; the loss uses masked positions only."""

    def __init__(self, settings: MaskedSettings, vocabularies: Vocabularies) -> None:
        text = Vocabularies(
            vocabularies.source, vocabularies.source, shared=True
        )  # output and input have the same vocabulary
        _, embedding, output = embeddings_and_output(text, settings.width, settings.tie)
        super().__init__(settings, embedding)
        self.output = output
        initialise(self.encoder)

    def hidden(self, batch: Batch) -> Tensor:
        """Return the inputs of the output layer at all positions of the text, (B, S, D)."""
        return self.encode(batch)
