"""Train with Joey NMT for a given time after its first update; write metrics in the format of seqloom.

    PEER_PYTHON joeynmt_train.py METRICS SECONDS train CONFIG

The hook replaces the progress report, which Joey NMT calls after every update with `logging_freq: 1`.
`total_tokens` is the number of positions of target[1:] that are not padding (joeynmt/batch.py, `ntokens`): the
end of a sentence counts, its start does not. Validation is replaced by saving a checkpoint.
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
    self._save_checkpoint(new_best=False, score=float("nan"))  # NaN: no older checkpoint is deleted


TrainManager._log_scores = report
TrainManager._validate = save
main()
