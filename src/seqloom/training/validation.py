"""Validation loss and metrics during training."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import torch

from seqloom.data.batching import BatchStream, Collate, Position
from seqloom.data.corpus import Prepared
from seqloom.decode.config import MOST_TOKENS, SearchConfig
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

_BATCH = 100  # lines that share a maximum output length


class _Stopped(Exception):
    """The run was asked to stop during validation."""


class _PartialResult(NamedTuple):
    """The results of one process: the loss of its batches and the translations of its lines."""

    nll: float
    target_tokens: int
    outputs: list[str]


def _search_options(search: SearchConfig, beam: int | None) -> SearchConfig:
    """Return the search options of validation."""
    changes: dict[str, object] = {"shortlist": False}  # a shortlist is built after training
    if beam is not None:
        changes |= {"beam": beam, "nbest": 1, "groups": 1, "diversity": 0.0, "stop_after": None}
    return search.model_copy(update=changes)


def _translator(
    model: SequenceModel, tokenizers: TokenizerPair, search: SearchConfig, device: torch.device
) -> Translator | None:
    """Return the translator that decodes with the model; a masked language model has none, and no metrics."""
    if isinstance(model, VectorModel):
        return VectorTranslator(model, tokenizers, search, device)
    return (
        TorchTranslator(model, tokenizers, search, device) if isinstance(model, AutoregressiveModel) else None
    )


def _longest_useful(target: str | None, tokenizers: TokenizerPair) -> int:
    """Return a number of tokens, end included, that a good output does not exceed."""
    if tokenizers.target_kind != "tokens":
        return MOST_TOKENS
    return 2 * len(tokenizers.target.encode(target or "")) + 10


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
        search = _search_options(search, config.validate_beam)
        self._translator = _translator(model, prepared.tokenizers, search, device)
        self._limits = [_longest_useful(example.target, prepared.tokenizers) for example in self._examples]

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
        """Return the translations of the lines of this process.

        At the beginning of training most outputs do not end, so each is limited by the length of its reference.
        """
        own = self._shares[self._group.rank]
        if not own or self._translator is None:
            return []
        outputs: dict[int, str] = {}
        by_limit = sorted(own, key=self._limits.__getitem__)
        for start in range(0, len(by_limit), _BATCH):
            indices = by_limit[start : start + _BATCH]
            examples = [self._examples[index] for index in indices]
            requests = requests_for(
                self._translator,
                [example.source for example in examples],
                [example.heads for example in examples],
            )
            options = self._limited(self._translator.search, self._limits[indices[-1]])
            found = self._translator.translate(requests, options, on_progress=self._check_stop)
            outputs.update(zip(indices, (best[0].text for best in found), strict=True))
        return [outputs[index] for index in own]

    @staticmethod
    def _limited(search: SearchConfig, limit: int) -> SearchConfig:
        """Return the search options with a maximum number of tokens per output."""
        longest = limit if search.longest is None else min(limit, search.longest)
        return search.model_copy(update={"longest": max(longest, search.min_length + 1)})

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
