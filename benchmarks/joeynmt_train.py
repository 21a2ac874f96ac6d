"""Trains with Joey NMT for some seconds after its first update and writes metrics.jsonl as seqloom does.

    PEER_PYTHON joeynmt_train.py METRICS SECONDS train CONFIG

The hook takes the place of its progress report, which it calls after every update at `logging_freq: 1`.
`total_tokens` adds up the positions of target[1:] that are not padding (joeynmt/batch.py, `ntokens`): the end
of a sentence counts, its start does not. Where it would validate, and keep what is best, it saves.
"""

from __future__ import annotations

import sys
from typing import Any

from joeynmt.__main__ import main  # type: ignore[import-not-found]
from joeynmt.training import TrainManager  # type: ignore[import-not-found]
from recorder import Recorder

recorder = Recorder(sys.argv.pop(1), float(sys.argv.pop(1)))


def report(self: Any, _epoch: int, _seconds: float, start_tokens: int, *_: Any) -> None:
    recorder.update(self.stats.steps, self.stats.total_tokens - start_tokens)


def save(self: Any, _data: Any) -> None:
    self._save_checkpoint(new_best=False, score=float("nan"))  # not a number: nothing older goes for it


TrainManager._log_scores = report
TrainManager._validate = save
main()
