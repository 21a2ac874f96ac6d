"""The training loop."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from enum import Enum, auto
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.data.loader import Feed
from seqloom.distributed.ddp import data_parallel
from seqloom.distributed.process_group import ProcessGroup
from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.training.checkpoint import (
    Checkpoints,
    TrainState,
    random_state,
    restore_random_state,
    weights_of,
)
from seqloom.training.config import TrainConfig
from seqloom.training.loss import LossModule
from seqloom.training.metrics import TrainingMetrics
from seqloom.training.optimizer import MovingAverage, Updater
from seqloom.training.run_log import Log
from seqloom.training.schedule import learning_rate
from seqloom.training.step import retry_on_oom, split, too_large
from seqloom.types import Batch

logger = logging.getLogger(__name__)

_AGAINST_DIVERGING = "lower train.learning_rate, lengthen train.warmup, or set train.clip=1"


class Validation(NamedTuple):
    """Measurements on the validation data, and the goal (higher is better) that selects the best."""

    metrics: dict[str, float]
    goal: float

    @property
    def is_finite(self) -> bool:
        """Whether the result can be compared with others: a diverged model gives NaN or infinity."""
        return math.isfinite(self.goal) and math.isfinite(self.metrics["loss"])

    def is_better(self, best: float | None) -> bool:
        """Return whether this is the best validation so far; a non-finite one never is."""
        return self.is_finite and (best is None or self.goal > best)


# Called after each validation with the used fraction of the nearest limit. A result that is not empty ends the
# training, as its reason.
Review = Callable[[float, Validation], str]


class Action(Enum):
    """The action after an update."""

    CONTINUE = auto()
    CHECKPOINT = auto()
    VALIDATE = auto()  # and save
    FINISH = auto()  # a limit is reached: validate, save and end
    CHECKPOINT_AND_STOP = auto()  # the run is asked to stop where a checkpoint is due
    STOP = auto()  # the run is asked to stop elsewhere: save an interim checkpoint


def next_action(config: TrainConfig, step: int, *, finished: bool, stopping: bool) -> Action:
    """Return the action after the update of this step."""
    on_schedule = step % config.checkpoint_every == 0
    validates = finished or step % (config.validate_every or config.checkpoint_every) == 0
    if stopping:
        return Action.CHECKPOINT_AND_STOP if on_schedule and not validates else Action.STOP
    if finished:
        return Action.FINISH
    if validates:
        return Action.VALIDATE
    return Action.CHECKPOINT if on_schedule else Action.CONTINUE


class Trainer:
    """The parts of a training run; `run` is the loop."""

    def __init__(
        self,
        model: SequenceModel,
        config: TrainConfig,
        *,
        feed: Callable[[int, int], Iterator[Feed]],  # endless batches from (epoch, batches used of it)
        batches_per_epoch: int,
        validate: Callable[[], Validation | None],  # None if `stop` interrupted it
        checkpoints: Checkpoints,
        log: Log,
        stop: Callable[[], bool],  # True when the user or the system asks the run to stop
        device: torch.device,
        group: ProcessGroup | None = None,  # processes that train together; default: only this one
        review: Review | None = None,
    ) -> None:
        self.group, self.review = group or ProcessGroup(), review
        self.model, self.config, self.feed, self.validate = model, config, feed, validate
        self.checkpoints, self.log, self.stop, self.device = checkpoints, log, stop, device
        self.batches_per_epoch = batches_per_epoch
        self.parallel = data_parallel(self.group, device, shard=config.shard)
        self.loss_module = self.parallel.wrap(
            LossModule(model, config.label_smoothing, config.precision, rdrop=config.rdrop)
        )
        self.updater = Updater(self.parallel.model(self.loss_module), config, self.parallel)
        self.average = MovingAverage(model, config.ema) if config.ema else None
        self.state, self.metrics = TrainState(), TrainingMetrics()

    def run(self) -> TrainState:
        """Train until a limit, early stopping or `stop`; continue from the newest checkpoint, if any."""
        state = self._resume()
        start = time.monotonic() - state.seconds
        feed = self.feed(state.epoch, state.batch)
        self.model.train()
        if state.interim and not self._run_pending_validation():
            return state
        while not state.finished:
            loss = self._update(list(islice(feed, self.config.accumulate)))
            state.seconds, stopping = self._sync_stop_signal(time.monotonic() - start)
            self._log_progress(loss)
            match next_action(self.config, state.step, finished=bool(state.finished), stopping=stopping):
                case Action.CONTINUE:
                    continue
                case Action.CHECKPOINT:
                    self._save()
                case Action.VALIDATE | Action.FINISH:
                    if not self._validate():  # stopped during validation
                        return self._save_and_stop()
                case Action.CHECKPOINT_AND_STOP:
                    self._save()
                    return state
                case Action.STOP:
                    return self._save_and_stop()
        if state.best is None:
            raise self._diverged()
        if not self.checkpoints.has_average():
            self._average_checkpoints()
        return state

    def _update(self, feeds: list[Feed]) -> Tensor:
        """Take one optimiser step over the accumulated batches; return the loss per token."""
        state, count = self.state, sum(feed.target_tokens for feed in feeds)
        for feed in feeds:
            self.metrics.update(feed.data)
        state.step += 1
        batches = [feed.data for feed in feeds]
        rows = max(len(batch.source) for batch in batches)
        for attempt in retry_on_oom(rows if self.group.size == 1 else 1, self.loss_module.zero_grad):
            with attempt:
                total = self._forward_backward(
                    [part for batch in batches for part in split(batch, attempt.parts)]
                )
        if attempt.failed:
            raise too_large(batches, state.step, self.config.batch_tokens, self.group)
        self._note_split(attempt.parts)
        rate = learning_rate(self.config, state.step, self._progress())
        update = self.updater.update(count, rate)
        if self.average:
            self.average.update(state.step)
        state.epoch, state.batch = feeds[-1].epoch, feeds[-1].batch
        state.target_tokens += count
        self.metrics.add(total, count, update, rate)
        return total * self.group.size / count  # of this process only; the report sums over all processes

    def _forward_backward(self, batches: list[Batch]) -> Tensor:
        """Return the summed loss of the batches; their gradients accumulate."""
        total = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, 1):
            with self.parallel.no_sync(self.loss_module) if number < len(batches) else nullcontext():
                loss = self.loss_module(batch.to(self.device))
                loss.total.backward()
            total += loss.nll.detach()
        return total

    def _note_split(self, parts: int) -> None:
        """Count and report a batch that had to be split to fit into memory."""
        if parts == 1:
            return
        if not self.metrics.split:
            logger.info(
                f"step {self.state.step:,}: not enough memory for the batch, so it is split into {parts} "
                f"parts; if this happens often, lower train.batch_tokens={self.config.batch_tokens}"
            )
        self.metrics.split += 1
        self.state.split += 1

    def _log_progress(self, loss: Tensor) -> None:
        """Update the progress bar, write a report if one is due, and check the limits."""
        state, progress = self.state, self._progress()
        remaining = state.seconds * (1 / max(progress, 1e-9) - 1)
        self.log.progress(progress, remaining, self.metrics.progress_fields(loss))
        if state.step % self.config.log_every == 0:
            self._report()
        state.finished = self._reason_to_end(progress)
        if state.finished and self.metrics.count:
            self._report()

    def _sync_stop_signal(self, seconds: float) -> tuple[float, bool]:
        """Return the elapsed time and whether to stop, the same in all processes."""
        seconds, stop = self.group.all_reduce_max(seconds, float(self.stop()))
        return seconds, bool(stop)

    def _progress(self) -> float:
        """Return the used fraction of the nearest limit, in [0, 1]."""
        config, state = self.config, self.state
        parts = [0.0]
        if config.max_steps:
            parts.append(state.step / config.max_steps)
        if config.max_minutes:
            parts.append(state.seconds / (60 * config.max_minutes))
        if config.max_epochs:
            epochs = state.epoch + state.batch / max(self.batches_per_epoch, 1)
            parts.append(epochs / config.max_epochs)
        return min(max(parts), 1.0)

    def _save_and_stop(self) -> TrainState:
        """Save an interim checkpoint; a validation that is due is left to the resumed run."""
        self.state.finished = ""
        self._save(interim=True)
        return self.state

    def _run_pending_validation(self) -> bool:
        """Run the validation that was due when the run was stopped; return False if it is stopped again."""
        self.state.finished = self._reason_to_end(self._progress())
        action = next_action(self.config, self.state.step, finished=bool(self.state.finished), stopping=False)
        if action not in (Action.VALIDATE, Action.FINISH) or self._validate():
            return True
        self._save_and_stop()
        return False

    def _reason_to_end(self, progress: float) -> str:
        if progress < 1.0:
            return ""
        config, state = self.config, self.state
        if config.max_steps and state.step >= config.max_steps:
            return f"reached train.max_steps={config.max_steps}"
        if config.max_minutes and state.seconds >= 60 * config.max_minutes:
            return f"reached train.max_minutes={config.max_minutes:g}"
        return f"reached train.max_epochs={config.max_epochs}"

    def _lost_patience(self) -> str:
        """Return the reason for early stopping, if there is one."""
        config, worse = self.config, self.state.worse
        if config.patience and worse >= config.patience:
            return f"{config.best_by} has not improved for {worse} validations"
        return ""

    def _report(self) -> None:
        """Report the measurements since the last report; the only place that waits for the device."""
        metrics = self.metrics
        values = metrics.compute(self.state, self.group)
        values["gradient_norms"] = self.updater.layer_norms(metrics.updates[-1].parts)
        self.log.record("train", self.state.step, values)
        for warning in metrics.warnings(self.state.step):
            logger.info(warning)
        self.state.skipped += metrics.skipped
        enough = self.state.step if self.state.finished else self.config.max_nonfinite
        if metrics.skipped_in_a_row >= min(enough, self.config.max_nonfinite):
            raise SeqloomError(
                f"Training stopped at step {self.state.step}: the last {metrics.skipped_in_a_row} gradients "
                "were not finite (NaN or infinity).",
                f"{_AGAINST_DIVERGING}; {self._last_checkpoint()}",
            )
        metrics.reset(self.state)

    def _diverged(self) -> SeqloomError:
        """Return the error for a run that ended without a finite validation."""
        return SeqloomError(
            f"Training ended at step {self.state.step:,} ({self.state.finished}), but no "
            "validation was finite: the model diverged, and there is no best checkpoint.",
            f"start a new run: {_AGAINST_DIVERGING}",
        )

    def _last_checkpoint(self) -> str:
        steps = self.checkpoints.steps()
        return f"last checkpoint: step {steps[-1]:,}" if steps else "there is no checkpoint yet"

    def _validate(self) -> bool:
        """Evaluate the weights to be served, record the best, and save; return False if stopped."""
        state, before = self.state, (self.state.best, self.state.best_step)
        self.parallel.gather_weights(self.loss_module, self.model)
        if self.average:
            self.average.swap()
        self.model.eval()
        result = self._measure()
        self.model.train()
        if self.average:
            self.average.swap()
        if result is None:
            return False
        improved = result.is_better(state.best)
        if improved:
            state.best, state.best_step, state.worse = result.goal, state.step, 0
        else:
            state.worse += 1
        if not result.is_finite:
            logger.warning(
                f"validation at step {state.step:,} is not finite (NaN or infinity), so this checkpoint cannot "
                f"be the best; if this happens again, {_AGAINST_DIVERGING}"
            )
        stopped_early = self.review(self._progress(), result) if self.review else ""
        state.finished = state.finished or self._lost_patience() or stopped_early
        self.log.record("valid", state.step, {**result.metrics, "best": improved, "seconds": state.seconds})
        if not self._save():
            state.best, state.best_step = before  # only saved weights can be served
        return True

    def _measure(self) -> Validation | None:
        """Validate in the processes that hold the full model; return the result in all, None if stopped."""
        return self.group.broadcast(self.validate() if self._holds_full_model else None)

    @property
    def _holds_full_model(self) -> bool:
        """Whether this process holds all weights, not a shard of them."""
        return self.group.is_main or not self.config.shard

    def _save(self, *, interim: bool = False) -> bool:
        """Save a checkpoint; return False if it cannot be written and training continues.

        model.safetensors has the weights to be served; under EMA the raw weights are stored with the moments.
        """
        self.state.interim = interim
        training = {**self.updater.state(), **random_state(self.group), **self.metrics.state(self.group)}
        if self.average:
            training |= {f"raw.{name}": weight.detach() for name, weight in self.average.live.items()}
            self.average.swap()
        self.parallel.gather_weights(self.loss_module, self.model)
        saved = self.group.is_main and self._write(training)
        if self.average:
            self.average.swap()
        return self.group.broadcast(saved)

    def _write(self, training: dict[str, Tensor]) -> bool:
        """Write the checkpoint and return whether it is on the disk; raise if the run ends here without it."""
        state = self.state
        try:
            self.checkpoints.save(weights_of(self.model), training, state)
            return True
        except OSError as error:
            steps = self.checkpoints.steps()
            problem = f"The checkpoint of step {state.step:,} cannot be written: {error.strerror or error}."
            last = f"last checkpoint: step {steps[-1]:,}" if steps else "there is no earlier checkpoint"
            if state.finished or state.interim:
                raise SeqloomError(problem, f"{last}; free up disk space, then run seqloom resume") from error
            logger.warning(f"{problem} Training continues; {last}.")
            return state.step in steps

    def _resume(self) -> TrainState:
        """Restore the newest checkpoint, if there is one, and return the state to continue from."""
        restored = self.checkpoints.restore(self.model, tidy=self.group.is_main)
        self.parallel.load_weights(self.model, self.loss_module)
        self.group.barrier()
        if restored is None:
            return self.state
        tensors, self.state = restored
        if self.state.finished:  # the limits may have been raised since
            self.state.finished = self._reason_to_end(self._progress()) or self._lost_patience()
        self.updater.restore(tensors)
        self.metrics.restore(tensors, self.state, self.group, self.device)
        if self.average:
            for name, weight in self.average.live.items():
                self.average.average[name] = weight.detach().clone()
                weight.data.copy_(tensors[f"raw.{name}"])
        restore_random_state(tensors, self.group)
        return self.state

    def _average_checkpoints(self) -> None:
        """Average the last checkpoints; the average becomes the best if it validates better."""
        steps = self.checkpoints.steps()[-self.config.average :]
        if self.config.average < 2 or len(steps) < 2:
            return
        if self._holds_full_model:
            self.checkpoints.average(self.model, len(steps))
        self.model.eval()
        result = self._measure()
        if result is None:
            self.state.finished = (
                ""  # for the caller; the saved state stays finished, so only the average is left to do
            )
            return
        better = result.is_better(self.state.best)
        self.log.record("average", self.state.step, {**result.metrics, "of": len(steps), "best": better})
        if self.group.is_main:
            self.checkpoints.save_average(self.model, steps, best=better)
        self.group.barrier()
