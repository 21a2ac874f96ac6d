"""Models of runs, configurations and architectures, and batches without data, for inspections of structure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
from seqloom.run.build import build_neural
from seqloom.run.config import Config, compose
from seqloom.run.load import load_run
from seqloom.types import BOS, EOS, UNK, Batch, Vocabularies

VOCABULARY = 40  # of a model without data


def open_model(given: Path, assignments: Sequence[str] = ()) -> nn.Module:
    """Return the model of a run, or one with random weights from a YAML file or the name of an architecture."""
    if given.is_dir():
        if assignments:
            raise SeqloomError("The options of a run are fixed.", "leave out --set, or give a YAML file")
        model = load_run(given, device="cpu").model
        if not isinstance(model, nn.Module):
            raise SeqloomError(f"The model of {given} is not neural.", "give the run of a neural model")
        return model.eval()
    if given.is_file():
        config = compose(given, assignments=assignments)
    elif given.suffix or len(given.parts) > 1:
        raise SeqloomError(
            f"There is no run or configuration file {given}.",
            "give the --out of seqloom train, a YAML file or the name of a model",
        )
    else:
        return build_fresh(str(given), assignments)
    return _build(config)


def build_fresh(name: str, assignments: Sequence[str] = ()) -> nn.Module:
    """Return a model with random weights, in evaluation mode; the size is tiny if none is given."""
    tiny = [] if any(one.startswith("model.size=") for one in assignments) else ["model.size=tiny"]
    return _build(compose(None, assignments=[f"model.name={name}", *tiny, *assignments]))


def _build(config: Config) -> nn.Module:
    torch.manual_seed(config.train.seed)
    return build_neural(config.model, Vocabularies(VOCABULARY, VOCABULARY, shared=True)).eval()


def smallest_vocabulary(model: nn.Module) -> int:
    """Return the size of the smaller vocabulary of a model; raise if its source is not text."""
    if not isinstance(getattr(model, "source_embedding", None), nn.Embedding):
        raise SeqloomError(f"{type(model).__name__} reads no tokens.", "give a model of text")
    sizes = [part.num_embeddings for part in model.modules() if isinstance(part, nn.Embedding)]
    return min([VOCABULARY, *sizes])


def ids(sentences: int, length: int, seed: int, vocabulary: int = VOCABULARY) -> Tensor:
    """Return rows of random ids that end with EOS, (B, length)."""
    random = torch.Generator().manual_seed(seed)
    words = torch.randint(UNK, vocabulary, (sentences, length - 1), generator=random)
    return torch.cat((words, torch.full((sentences, 1), EOS)), dim=1)


def batch_of(source: Tensor, target: Tensor, heads: Tensor | None = None) -> Batch:
    """Return the batch of sources (B, S) and targets (B, T) without padding."""
    count, length = target.shape
    start = torch.full((count, 1), BOS)
    return Batch(
        source=source,
        source_lengths=torch.full((count,), source.shape[1]),
        index=torch.arange(count),
        target_in=torch.cat((start, target[:, :-1]), dim=1),
        target_out=target,
        target_lengths=torch.full((count,), length),
        target_tokens=count * length,
        source_heads=heads,
    )
