"""Validation loss and metrics during training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import torch

from seqloom.data.batching import BatchStream, Collate, Position
from seqloom.data.corpus import Prepared
from seqloom.decode.config import SearchConfig
from seqloom.decode.distributed import shard_by_length
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator, requests_for
from seqloom.decode.vector_translator import VectorTranslator
from seqloom.distributed.process_group import ProcessGroup
from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.models.base import AutoregressiveModel, SequenceModel, VectorModel
from seqloom.text.pair import TokenizerPair
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.trainer import Validation
from seqloom.types import Batch


class _Stopped(Exception):
    """The run was asked to stop during validation."""


class _PartialResult(NamedTuple):
    """The results of one process: the loss of its batches and the translations of its lines."""

    nll: float
    target_tokens: int
    outputs: list[str]


def _translator(
    model: SequenceModel, tokenizers: TokenizerPair, search: SearchConfig, device: torch.device
) -> Translator | None:
    """Return the translator that decodes with the model; a masked language model has none, and no metrics."""
    if isinstance(model, VectorModel):
        return VectorTranslator(model, tokenizers, search, device)
    return (
        TorchTranslator(model, tokenizers, search, device) if isinstance(model, AutoregressiveModel) else None
    )


class Validator:
    """Computes the validation loss and, by decoding, the chosen metrics; each process takes a share.

    The main process gets the result, the others get None. All get None as soon as `stop` returns True: saving
    must not wait for a thousand lines to be decoded.
    """

    def __init__(
        self,
        model: SequenceModel,
        config: TrainConfig,
        search: SearchConfig,
        prepared: Prepared,
        make_batch: Collate[Batch],
        device: torch.device,
        stop: Callable[[], bool],
        group: ProcessGroup,
    ) -> None:
        self._loss_module = LossModule(model, 0.0, config.precision)
        self._config, self._make_batch, self._device = config, make_batch, device
        self._stop, self._group, self._pairs = stop, group, prepared.valid
        metrics = config.metrics
        self._metrics = parse_metrics(",".join(metrics)) if metrics else []
        self._batches = BatchStream(prepared.valid, batch_tokens=config.batch_tokens, seed=0, shuffle=False)
        self._examples = list(islice(prepared.valid_examples(), config.validate_lines)) if metrics else []
        self._shares = shard_by_length([example.source for example in self._examples], group.size)
        search = search.model_copy(update={"shortlist": False})  # a shortlist is built after training
        self._translator = _translator(model, prepared.tokenizers, search, device)

    def __call__(self) -> Validation | None:
        own = None
        with suppress(_Stopped):
            own = _PartialResult(*self._loss(), self._translate())
        parts = [part for part in self._group.gather(own) if part is not None]
        return self._combine(parts) if len(parts) == self._group.size else None

    def _check_stop(self, lines: int = 0) -> None:
        if self._stop():
            raise _Stopped

    def _loss(self) -> tuple[float, int]:
        """Return the negative log-likelihood of the batches of this process, and their number of tokens."""
        total, count = 0.0, 0
        with torch.no_grad():
            for number, indices in enumerate(self._batches.epoch(0)):
                if number % self._group.size != self._group.rank:
                    continue
                self._check_stop()
                batch = self._make_batch(self._pairs, indices, Position(0, number)).to(self._device)
                total += self._loss_module(batch).nll.item()
                count += batch.target_tokens
        return total, count

    def _translate(self) -> list[str]:
        """Return the translations of the lines of this process."""
        own = [self._examples[index] for index in self._shares[self._group.rank]]
        if not own or self._translator is None:
            return []
        requests = requests_for(
            self._translator, [example.source for example in own], [example.heads for example in own]
        )
        return [best[0].text for best in self._translator.translate(requests, on_progress=self._check_stop)]

    def _combine(self, parts: list[_PartialResult]) -> Validation:
        """Return the measurements over all processes."""
        values = {"loss": sum(part.nll for part in parts) / sum(part.target_tokens for part in parts)}
        goals = {"loss": -values["loss"]}
        if self._metrics:
            outputs = [""] * len(self._examples)
            for indices, part in zip(self._shares, parts, strict=True):
                for index, output in zip(indices, part.outputs, strict=True):
                    outputs[index] = output
            references = [[example.target or ""] for example in self._examples]
            for score in evaluate(outputs, references, self._metrics, bootstrap=0):
                values[score.name] = score.value
                goals[score.name] = score.value if score.higher_is_better else -score.value
        return Validation(values, goals[self._config.best_by])
