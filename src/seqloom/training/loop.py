"""The training loop, on one page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.models.base import SequenceModel
from seqloom.team import Team
from seqloom.training.checkpoint import (
    Checkpoints,
    TrainState,
    random_state,
    restore_random_state,
    weights_of,
)
from seqloom.training.config import TrainConfig
from seqloom.training.layout import Learner, layout_of
from seqloom.training.log import Log
from seqloom.training.memory import fit, split, too_large
from seqloom.training.optimizer import MovingAverage, Updater
from seqloom.training.schedule import learning_rate
from seqloom.training.window import Window
from seqloom.types import Batch

_AGAINST_DIVERGING = "lower train.learning_rate, lengthen train.warmup, or set train.clip=1"


class Validation(NamedTuple):
    """Measurements on the validation part, and the one number (higher is better) that chooses the best."""

    metrics: dict[str, float]
    goal: float

    @property
    def is_finite(self) -> bool:
        """Whether the weights can be compared with others: those of a diverged model give NaN or infinity."""
        return math.isfinite(self.goal) and math.isfinite(self.metrics["loss"])

    def is_better(self, best: float | None) -> bool:
        """Return whether this is the best validation; one that is not finite never is."""
        return self.is_finite and (best is None or self.goal > best)


class Feed(NamedTuple):
    """This process's rows of a batch, and the place in the data that comes after it."""

    epoch: int
    batch: int
    data: Batch
    target_tokens: int  # of all rows of the batch, in whichever process they are


class Trainer:
    """Holds what a run is made of; `run` is the loop."""

    def __init__(
        self,
        model: SequenceModel,
        config: TrainConfig,
        *,
        feed: Callable[[int, int], Iterator[Feed]],  # endless batches from (epoch, batches used of it)
        batches_per_epoch: int,
        validate: Callable[[], Validation | None],  # for the leader; None when `stop` has broken it off
        checkpoints: Checkpoints,
        log: Log,
        stop: Callable[[], bool],  # True when the person or the system wants the run to end now
        device: torch.device,
        team: Team | None = None,  # the processes that train together; this one alone if not given
    ) -> None:
        self.team = team or Team()
        self.model, self.config, self.feed, self.validate = model, config, feed, validate
        self.checkpoints, self.log, self.stop, self.device = checkpoints, log, stop, device
        self.batches_per_epoch = batches_per_epoch
        self.layout = layout_of(self.team, config, device)
        self.learner = self.layout.spread(Learner(model, config.label_smoothing, config.precision))
        self.updater = Updater(self.layout.model(self.learner), config, self.layout)
        self.average = MovingAverage(model, config.ema) if config.ema else None
        self.state, self.window = TrainState(), Window()

    def run(self) -> TrainState:
        """Trains until a limit, early stopping or `stop`; resumes by itself from the newest checkpoint."""
        config, state = self.config, self._resume()
        began = time.monotonic() - state.seconds
        feed = self.feed(state.epoch, state.batch)
        self.model.train()
        if state.interim and not self._catch_up():
            return state
        while not state.finished:
            loss = self._update(list(islice(feed, config.accumulate)))
            state.seconds, stopping = self._agree(time.monotonic() - began)
            progress = self._progress()
            self.log.progress(progress, state.seconds * (1 / max(progress, 1e-9) - 1), self.window.brief(loss))
            if state.step % config.log_every == 0:
                self._report()
            state.finished = self._reason_to_end(progress)
            if state.finished and self.window.count:
                self._report()
            if self._is_due() and not stopping and self._validate():
                continue
            if state.step % config.checkpoint_every == 0 and not self._is_due():
                self._save()
            elif stopping or self._is_due():  # broken off, in the latter case
                self._leave()
                break
            if stopping:
                break
        if state.finished and state.best is None:
            raise self._diverged()
        if state.finished and not self.checkpoints.has_average():
            self._average_checkpoints()
        return state

    def _update(self, feeds: list[Feed]) -> Tensor:
        """One optimiser step over the accumulated batches; the summed loss."""
        state, count = self.state, sum(feed.target_tokens for feed in feeds)
        for feed in feeds:
            self.window.see(feed.data)
        state.step += 1
        total = self._learn([feed.data for feed in feeds])
        rate = learning_rate(self.config, state.step, self._progress())
        update = self.updater.update(count, rate)
        if self.average:
            self.average.update(state.step)
        state.epoch, state.batch = feeds[-1].epoch, feeds[-1].batch
        state.target_tokens += count
        self.window.add(total, count, update, rate)
        return total * self.team.size / count  # of this process's share; the report adds up all

    def _learn(self, batches: list[Batch]) -> Tensor:
        """The summed loss of the batches, their gradients added up; in smaller parts if memory runs out."""
        step, budget = self.state.step, self.config.batch_tokens
        found = fit(
            lambda parts: self._pass([part for batch in batches for part in split(batch, parts)]),
            most=max(len(batch.source) for batch in batches) if self.team.size == 1 else 1,
            forget=self.learner.zero_grad,
        )
        if found is None:
            raise too_large(batches, step, budget, self.team)
        if found.parts > 1:
            if not self.window.split:
                self.log.say(
                    f"step {step:,}: memory is not enough for the batch, so it is cut into {found.parts} "
                    f"parts; if this happens often, lower train.batch_tokens={budget}"
                )
            self.window.split += 1
            self.state.split += 1
        return found.total

    def _pass(self, batches: list[Batch]) -> Tensor:
        """The summed loss of the batches, forwards and backwards."""
        total = torch.zeros((), device=self.device)
        for number, batch in enumerate(batches, 1):
            with self.layout.alone(self.learner) if number < len(batches) else nullcontext():
                loss = self.learner(batch.to(self.device))
                loss.total.backward()
            total += loss.nll.detach()
        return total

    def _agree(self, seconds: float) -> tuple[float, bool]:
        """The time used up, and whether anybody wants the run to end now: the same in all processes."""
        seconds, stop = self.team.most(seconds, float(self.stop()))
        return seconds, bool(stop)

    def _progress(self) -> float:
        """How much of the nearest limit is used up, in [0, 1]."""
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

    def _is_due(self) -> bool:
        """Whether this step is one that ends with a validation."""
        every = self.config.validate_every or self.config.checkpoint_every
        return bool(self.state.finished) or self.state.step % every == 0

    def _leave(self) -> None:
        """Saves because somebody wants the run to end; a validation that is due is left to the next one."""
        self.state.finished = ""
        self._save(interim=True)

    def _catch_up(self) -> bool:
        """Validates if the run was stopped where that was due; False if it is stopped again."""
        self.state.finished = self._reason_to_end(self._progress())
        if not self._is_due() or self._validate():
            return True
        self._leave()
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
        """Write the measurements since the last report; the only place that waits for the device."""
        window = self.window
        values = window.close(self.state, self.team)
        values["gradient_norms"] = self.updater.layer_norms(window.updates[-1].parts)
        self.log.record("train", self.state.step, values)
        for remark in window.remarks(self.state.step):
            self.log.say(remark)
        self.state.skipped += window.skipped
        enough = self.state.step if self.state.finished else self.config.max_nonfinite
        if window.skipped_in_a_row >= min(enough, self.config.max_nonfinite):
            raise SeqloomError(
                f"Training stopped at step {self.state.step}: the last {window.skipped_in_a_row} gradients "
                "were not finite (NaN or infinity).",
                f"{_AGAINST_DIVERGING}; {self._last_checkpoint()}",
            )
        window.reset(self.state)

    def _diverged(self) -> SeqloomError:
        """The error of a run that ended without a single validation that could be compared."""
        return SeqloomError(
            f"Training ended at step {self.state.step:,} ({self.state.finished}), but no validation was finite "
            "(NaN or infinity): the model diverged, and there is no best checkpoint.",
            f"start a new run: {_AGAINST_DIVERGING}",
        )

    def _last_checkpoint(self) -> str:
        steps = self.checkpoints.steps()
        return f"the last checkpoint is that of step {steps[-1]:,}" if steps else "there is no checkpoint yet"

    def _validate(self) -> bool:
        """Measures the weights that would be served, remembers the best, and saves; False if it was stopped."""
        state, before = self.state, (self.state.best, self.state.best_step)
        self.layout.collect(self.learner, self.model)
        if self.average:
            self.average.swap()
        self.model.eval()
        result = self._measured()
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
            self.log.say(
                f"validation at step {state.step:,} is not finite (NaN or infinity), so its checkpoint cannot "
                f"be the best; if this happens again, {_AGAINST_DIVERGING}"
            )
        state.finished = state.finished or self._lost_patience()
        self.log.record("valid", state.step, {**result.metrics, "best": improved, "seconds": state.seconds})
        if not self._save():
            state.best, state.best_step = before  # what is not on the disk cannot be served
        return True

    def _measured(self) -> Validation | None:
        """What those measure who have all weights, unless one of them is stopped; all hear of it."""
        return self.team.told(self.validate() if self._has_all else None)

    @property
    def _has_all(self) -> bool:
        """Whether the model of this process has all weights, and not a slice of them."""
        return self.team.leads or not self.config.shard

    def _save(self, *, interim: bool = False) -> bool:
        """A checkpoint whose model.safetensors is what is served; raw weights go beside the moments.

        False if the disk refuses it: then the run goes on, unless nothing would come after.
        """
        self.state.interim = interim
        training = {**self.updater.state(), **random_state(self.team), **self.window.state(self.team)}
        if self.average:
            training |= {f"raw.{name}": weight.detach() for name, weight in self.average.live.items()}
            self.average.swap()
        self.layout.collect(self.learner, self.model)
        saved = self.team.leads and self._write(training)
        if self.average:
            self.average.swap()
        return self.team.told(saved)

    def _write(self, training: dict[str, Tensor]) -> bool:
        """Whether the checkpoint is on the disk; if the run ends here, that it is not is an error."""
        state = self.state
        try:
            self.checkpoints.save(weights_of(self.model), training, state)
            return True
        except OSError as error:
            steps = self.checkpoints.steps()
            problem = f"The checkpoint of step {state.step:,} cannot be written: {error.strerror or error}."
            last = f"the last good one is that of step {steps[-1]:,}" if steps else "there is no earlier one"
            if state.finished or state.interim:
                raise SeqloomError(problem, f"{last}; when the disk is well, seqloom resume goes on") from error
            self.log.say(f"{problem} Training goes on; {last}.")
            return state.step in steps

    def _resume(self) -> TrainState:
        """The state to go on from: the newest checkpoint's, or a new one."""
        restored = self.checkpoints.restore(self.model, tidy=self.team.leads)
        self.layout.deal(self.model, self.learner)
        self.team.wait()
        if restored is None:
            return self.state
        tensors, self.state = restored
        if self.state.finished:  # unless the limits were raised since then
            self.state.finished = self._reason_to_end(self._progress()) or self._lost_patience()
        self.updater.restore(tensors)
        self.window.restore(tensors, self.state, self.team, self.device)
        if self.average:
            for name, weight in self.average.live.items():
                self.average.average[name] = weight.detach().clone()
                weight.data.copy_(tensors[f"raw.{name}"])
        restore_random_state(tensors, self.team)
        return self.state

    def _average_checkpoints(self) -> None:
        """The mean of the last checkpoints becomes the best if it measures better."""
        steps = self.checkpoints.steps()[-self.config.average :]
        if self.config.average < 2 or len(steps) < 2:
            return
        if self._has_all:
            self.checkpoints.average(self.model, len(steps))
        self.model.eval()
        result = self._measured()
        if result is None:
            self.state.finished = ""  # to the caller; the checkpoint says that only this is left to do
            return
        better = result.is_better(self.state.best)
        self.log.record("average", self.state.step, {**result.metrics, "of": len(steps), "best": better})
        if self.team.leads:
            self.checkpoints.save_average(self.model, steps, best=better)
        self.team.wait()
