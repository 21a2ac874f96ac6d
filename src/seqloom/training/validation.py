"""The loss and the chosen metrics of a model on the validation part, while it is trained."""

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
from seqloom.decode.translator import requests_for
from seqloom.distributed.process_group import ProcessGroup
from seqloom.evaluate.metrics import evaluate, parse_metrics
from seqloom.models.base import AutoregressiveModel, SequenceModel
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.trainer import Validation
from seqloom.types import Batch


class _Stopped(Exception):
    """Somebody wants the run to end while it validates."""


class _PartialResult(NamedTuple):
    """What one process found out: of its batches the loss, of its lines the answers."""

    nll: float
    target_tokens: int
    answers: list[str]


class Validator:
    """Computes the validation loss and, by decoding, the chosen metrics; each process takes its part.

    The main process gets the result, the others get None. As soon as `stop` is true all get None: saving must
    not wait for a thousand lines to be decoded.
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
        self._shown = list(islice(prepared.valid_examples(), config.validate_lines)) if metrics else []
        self._shares = shard_by_length([example.source for example in self._shown], group.size)
        search = search.model_copy(update={"shortlist": False})  # a table is made after training
        self._translator = (  # a model that fills gaps has no metrics, and is no translator
            TorchTranslator(model, prepared.tokenizers, search, device)
            if isinstance(model, AutoregressiveModel)
            else None
        )

    def __call__(self) -> Validation | None:
        own = None
        with suppress(_Stopped):
            own = _PartialResult(*self._loss(), self._answers())
        parts = [part for part in self._group.gather(own) if part is not None]
        return self._together(parts) if len(parts) == self._group.size else None

    def _go_on(self, lines: int = 0) -> None:
        if self._stop():
            raise _Stopped

    def _loss(self) -> tuple[float, int]:
        """The negative log-likelihood of this process's batches, and of how many tokens."""
        total, count = 0.0, 0
        with torch.no_grad():
            for number, indices in enumerate(self._batches.epoch(0)):
                if number % self._group.size != self._group.rank:
                    continue
                self._go_on()
                batch = self._make_batch(self._pairs, indices, Position(0, number)).to(self._device)
                total += self._loss_module(batch).nll.item()
                count += batch.target_tokens
        return total, count

    def _answers(self) -> list[str]:
        """What the model makes of this process's lines."""
        own = [self._shown[place] for place in self._shares[self._group.rank]]
        if not own or self._translator is None:
            return []
        requests = requests_for(
            self._translator, [example.source for example in own], [example.heads for example in own]
        )
        return [best[0].text for best in self._translator.translate(requests, on_progress=self._go_on)]

    def _together(self, parts: list[_PartialResult]) -> Validation:
        """The measurements of all parts."""
        values = {"loss": sum(part.nll for part in parts) / sum(part.target_tokens for part in parts)}
        goals = {"loss": -values["loss"]}
        if self._metrics:
            answers = [""] * len(self._shown)
            for places, part in zip(self._shares, parts, strict=True):
                for place, answer in zip(places, part.answers, strict=True):
                    answers[place] = answer
            references = [[example.target or ""] for example in self._shown]
            for score in evaluate(answers, references, self._metrics, bootstrap=0):
                values[score.name] = score.value
                goals[score.name] = score.value if score.higher_is_better else -score.value
        return Validation(values, goals[self._config.best_by])
