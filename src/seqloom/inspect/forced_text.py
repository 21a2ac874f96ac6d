"""The batch of one text, and of its target under teacher forcing, for a model of any use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from seqloom.data.batching import collate_ids
from seqloom.data.syntax import token_trees
from seqloom.decode.torch_translator import read_sources
from seqloom.errors import SeqloomError
from seqloom.inspect.heads import Target, target_ids
from seqloom.inspect.labels import END, START
from seqloom.models.base import AutoregressiveModel, SequenceModel
from seqloom.run.load import LoadedRun, use_of
from seqloom.types import Batch, DependencyTree, Request


@dataclass(frozen=True)
class ForcedText:
    """A model, the batch of one text, and the tokens at the positions of both sides."""

    model: SequenceModel
    batch: Batch
    source: tuple[str, ...]
    target: tuple[str, ...]  # inputs of the decoder, beginning with START; empty without a target

    def run(self) -> None:
        """Compute the hidden states of all positions, or of the source if there is no target."""
        if self.batch.target_in is None and isinstance(self.model, AutoregressiveModel):
            self.model.start(self.batch)
        else:
            self.model.hidden(self.batch)

    def tokens(self, length: int) -> tuple[str, ...]:
        """Return the tokens of a sequence of this length: the source, the target, or both in one sequence."""
        for tokens in (self.target, self.source, self.source + self.target):
            if len(tokens) == length:
                return tokens
        return tuple(str(position) for position in range(1, length + 1))


def forced_text(
    opened: LoadedRun,
    text: str,
    target: Target = None,
    *,
    heads: DependencyTree | None = None,
    with_target: bool = True,
) -> ForcedText:
    """Return the batch of a text; for a translation model with a target, by default the model's own output.

    A language model of plain text reads `text` as its target.
    """
    model = opened.model
    if not isinstance(model, SequenceModel):
        raise SeqloomError(
            f"The model {opened.config.model.name} has no layers to inspect.",
            "choose a neural model (see `seqloom models`)",
        )
    if not text.strip():
        raise SeqloomError("The text is empty.", "give a text of at least one token")
    use = use_of(opened.config)
    if use != "translate" and target is not None:
        raise SeqloomError(
            f"The model {opened.config.model.name} reads one text, so it takes no target.", "leave it out"
        )
    tokenizers, source = opened.tokenizers, "" if use == "generate" else text
    (ids,) = read_sources(tokenizers, [source])
    trees = token_trees(tokenizers, [ids], None if heads is None else [heads], "Text")
    batch = collate_ids([ids], None, [0], trees).to(opened.device)
    names = (*tokenizers.source_pieces(ids), *[END] * tokenizers.source_end)
    if use == "fill" or not with_target:
        return ForcedText(model, batch, names, ())
    if use == "generate":
        tokens = tokenizers.target.encode(text)
    else:
        translator = opened.torch_translator()
        problem = translator.problem(Request(text, tree=heads), translator.search)
        tokens = target_ids(translator, problem, target)
    forced = collate_ids([[]], [tokens], [0]).to(opened.device)
    batch = replace(
        batch,
        target_in=forced.target_in,
        target_out=forced.target_out,
        target_lengths=forced.target_lengths,
    )
    return ForcedText(model, batch, names, (START, *tokenizers.target.pieces(tokens)))
