"""Training of a fitted model: one fit, saved like any other model."""

from __future__ import annotations

import logging
import time

from seqloom.data.corpus import Prepared
from seqloom.progress import duration
from seqloom.run.build import build_fitted
from seqloom.run.config import Config
from seqloom.run.directory import Run
from seqloom.statistical.base import FitData
from seqloom.system import checked_threads
from seqloom.training.checkpoint import TrainState
from seqloom.training.run_log import RunLog

logger = logging.getLogger(__name__)

_STEP = 1  # the only checkpoint of a fitted model


def fit_run(run: Run, config: Config, prepared: Prepared, *, progress: bool = False) -> TrainState:
    """Fit the model of a run unless it is fitted already; an interrupted fit starts again."""
    checkpoints = run.checkpoints()
    if (finished := checkpoints.restore_state()) is not None:
        return finished
    model = build_fitted(config, prepared.tokenizers)
    start = time.monotonic()
    with RunLog(run.folder, progress=progress) as log:
        unit = "texts" if config.data.is_text else "pairs"
        logger.info(f"{config.model.name}: {len(prepared.store):,} {unit}")
        figures = model.fit(
            FitData(
                tokenizers=prepared.tokenizers,
                train=prepared.store,
                valid=prepared.valid,
                valid_examples=prepared.valid_examples,
                seed=config.train.seed,
                threads=checked_threads(config.train.threads),
            )
        )
        seconds = time.monotonic() - start
        state = TrainState(step=_STEP, seconds=seconds, best_step=_STEP, finished="counted")
        log.record("valid", _STEP, {**figures, "seconds": seconds, "best": True})
        checkpoints.folder.mkdir(exist_ok=True)
        checkpoints.save(model.state_dict(), {}, state)
        logger.info(f"done after {duration(seconds)}")
    return state
