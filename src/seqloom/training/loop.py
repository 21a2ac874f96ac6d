"""The training loop, on one page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from seqloom.errors import SeqloomError
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
from seqloom.training.log import Log, peak_memory_mb
from seqloom.training.optimizer import MovingAverage, Update, Updater
from seqloom.training.schedule import learning_rate
from seqloom.types import Batch


class Validation(NamedTuple):
    """Measurements on the validation part, and the one number (higher is better) that chooses the best."""

    metrics: dict[str, float]
    goal: float


class Feed(NamedTuple):
    """A batch and the place in the data that comes after it."""

    epoch: int
    batch: int
    data: Batch


class Trainable(Protocol):
    """What the loop needs of a model: hidden vectors for the loss, and the output layer above them."""

    output: nn.Linear

    def hidden(self, batch: Batch) -> Tensor: ...


class Trainer:
    """Holds what a run is made of; `run` is the loop."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        *,
        feed: Callable[[int, int], Iterator[Feed]],  # endless batches from (epoch, batches used of it)
        batches_per_epoch: int,
        validate: Callable[[], Validation],
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
        self.state = TrainState()

    def run(self) -> TrainState:
        """Trains until a limit, early stopping or `stop`; resumes by itself from the newest checkpoint."""
        config, state = self.config, self._resume()
        began = time.monotonic() - state.seconds
        window = _Window(state)
        feed = self.feed(state.epoch, state.batch)
        self.model.train()
        while not state.finished:
            loss = self._update(list(islice(feed, config.accumulate)), window)
            state.seconds, stopping = self._agree(time.monotonic() - began)
            progress = self._progress()
            self.log.progress(progress, state.seconds * (1 / max(progress, 1e-9) - 1), window.brief(loss))
            if state.step % config.log_every == 0:
                self._report(window)
            state.finished = self._reason_to_end(progress)
            if state.finished and window.count:
                self._report(window)
            if state.finished or state.step % (config.validate_every or config.checkpoint_every) == 0:
                self._validate()
            elif state.step % config.checkpoint_every == 0:
                self._save()
            elif stopping:
                self._save(interim=True)
            if stopping:
                break
        if state.finished and not self.checkpoints.has_average():
            self._average_checkpoints()
        return state

    def _update(self, feeds: list[Feed], window: _Window) -> Tensor:
        """One optimiser step over the accumulated batches; the summed loss."""
        state, count = self.state, sum(feed.data.target_tokens for feed in feeds)
        total = torch.zeros((), device=self.device)
        for number, feed in enumerate(feeds, 1):
            window.see(feed.data)
            batch = self.team.share(feed.data).to(self.device)
            with self.layout.alone(self.learner) if number < len(feeds) else nullcontext():
                loss = self.learner(batch)
                loss.total.backward()
            total += loss.nll.detach()
        state.step += 1
        rate = learning_rate(self.config, state.step, self._progress())
        update = self.updater.update(count, rate)
        if self.average:
            self.average.update(state.step)
        state.epoch, state.batch = feeds[-1].epoch, feeds[-1].batch
        state.target_tokens += count
        window.add(total, count, update, rate)
        return total * self.team.size / count  # of this process's share; the report adds up all

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

    def _reason_to_end(self, progress: float) -> str:
        if progress < 1.0:
            return ""
        config, state = self.config, self.state
        if config.max_steps and state.step >= config.max_steps:
            return f"reached train.max_steps={config.max_steps}"
        if config.max_minutes and state.seconds >= 60 * config.max_minutes:
            return f"reached train.max_minutes={config.max_minutes:g}"
        return f"reached train.max_epochs={config.max_epochs}"

    def _report(self, window: _Window) -> None:
        """Writes the measurements since the last report; the only place that waits for the device."""
        values = window.close(self.state, self.team)
        values["gradient_norms"] = self.updater.layer_norms(window.updates[-1].parts)
        self.log.record("train", self.state.step, values)
        self.state.skipped += window.skipped
        enough = self.state.step if self.state.finished else self.config.max_nonfinite
        if window.skipped_in_a_row >= min(enough, self.config.max_nonfinite):
            raise SeqloomError(
                f"Training stopped at step {self.state.step}: the last {window.skipped_in_a_row} gradients "
                "were not finite (NaN or infinity).",
                "lower train.learning_rate, lengthen train.warmup, or set train.clip=1; "
                "the last checkpoint is good",
            )
        window.reset(self.state)

    def _validate(self) -> None:
        """Measures the weights that would be served, remembers the best, and saves."""
        state, config = self.state, self.config
        self.layout.collect(self.learner, self.model)
        if self.average:
            self.average.swap()
        self.model.eval()
        result = self._measured()
        self.model.train()
        if self.average:
            self.average.swap()
        improved = state.best is None or result.goal > state.best
        if improved:
            state.best, state.best_step, state.worse = result.goal, state.step, 0
        else:
            state.worse += 1
        if config.patience and state.worse >= config.patience and not state.finished:
            state.finished = f"{config.best_by} has not improved for {state.worse} validations"
        self.log.record("valid", state.step, {**result.metrics, "best": improved, "seconds": state.seconds})
        self._save()

    def _measured(self) -> Validation:
        """What the leader measures; the others wait for it."""
        return self.team.told(self.validate() if self.team.leads else None)  # type: ignore[return-value]

    def _save(self, *, interim: bool = False) -> None:
        """A checkpoint whose model.safetensors is what is served; raw weights go beside the moments."""
        self.state.interim = interim
        training = {**self.updater.state(), **random_state(self.team)}
        if self.average:
            training |= {f"raw.{name}": weight.detach() for name, weight in self.average.live.items()}
            self.average.swap()
        self.layout.collect(self.learner, self.model)
        if self.team.leads:
            self.checkpoints.save(weights_of(self.model), training, self.state)
        if self.average:
            self.average.swap()
        self.team.wait()

    def _resume(self) -> TrainState:
        """The state to go on from: the newest checkpoint's, or a new one."""
        restored = self.checkpoints.restore(self.model, tidy=self.team.leads)
        self.layout.deal(self.model, self.learner)
        self.team.wait()
        if restored is None:
            return self.state
        tensors, self.state = restored
        self.updater.restore(tensors)
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
        if self.team.leads:
            self.checkpoints.average(self.model, len(steps))
        self.model.eval()
        result = self._measured()
        better = self.state.best is None or result.goal > self.state.best
        self.log.record("average", self.state.step, {**result.metrics, "of": len(steps), "best": better})
        if self.team.leads:
            self.checkpoints.save_average(self.model, steps, best=better)
        self.team.wait()


class _Window:
    """Sums since the last report, kept on the device until the report asks for them."""

    def __init__(self, state: TrainState) -> None:
        self.skipped_in_a_row = 0
        self.reset(state)

    def reset(self, state: TrainState) -> None:
        self.nll: list[Tensor] = []
        self.updates: list[Update] = []
        self.count, self.real, self.padded = 0, 0, 0
        self.rate = 0.0
        self.began, self.skipped = state.seconds, 0

    def see(self, batch: Batch) -> None:
        assert batch.target_out is not None and batch.target_lengths is not None
        self.padded += batch.target_out.numel()
        self.real += int(batch.target_lengths.sum())

    def add(self, nll: Tensor, count: int, update: Update, rate: float) -> None:
        self.nll.append(nll)
        self.updates.append(update)
        self.count += count
        self.rate = rate

    def brief(self, loss: Tensor) -> dict[str, Any]:
        """What moves beside the progress bar; on an accelerator the loss waits for the report."""
        return {"lr": self.rate} if loss.is_cuda else {"loss": loss.item(), "lr": self.rate}

    def close(self, state: TrainState, team: Team) -> dict[str, Any]:
        skips = torch.stack([update.skipped for update in self.updates]).tolist()
        self.skipped = int(sum(skips))
        for skip in skips:
            self.skipped_in_a_row = self.skipped_in_a_row + 1 if skip else 0
        seconds = max(state.seconds - self.began, 1e-9)
        return {
            "loss": team.sum(torch.stack(self.nll).sum()).item() / self.count,
            "learning_rate": self.rate,
            "gradient_norm": torch.stack([update.norm for update in self.updates]).median().item(),
            **self._clipping(),
            "tokens_per_second": self.count / seconds,
            "padding": 1 - self.real / self.padded,
            "skipped": self.skipped,
            "epoch": state.epoch,
            "memory_mb": round(peak_memory_mb()),
            "seconds": round(state.seconds, 2),
            "target_tokens": state.target_tokens,
        }

    def _clipping(self) -> dict[str, float]:
        """How often the gradient was too long, and to which part of its length it was cut on average."""
        excess = torch.stack([update.excess for update in self.updates]).cpu()
        cut = excess[(excess > 1) & excess.isfinite()]  # infinitely long: skipped, not cut
        return {
            "clipped": len(cut) / len(excess),
            "clip_factor": cut.reciprocal().mean().item() if len(cut) else 1.0,
        }
