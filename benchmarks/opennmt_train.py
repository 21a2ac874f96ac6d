"""Train with OpenNMT-py for a given time after its first update; write metrics in the format of seqloom.

    PEER_PYTHON opennmt_train.py METRICS SECONDS -config CONFIG

The log of OpenNMT-py has rounded rates, so the hook reads the counts. `n_words` is the number of positions of
target[1:] that are not padding (onmt/utils/loss.py, `_stats`): the end of a sentence counts, its start does
not.
"""

from __future__ import annotations

import sys
from typing import Any

from recorder import Recorder


def main() -> None:
    from onmt.bin import train  # type: ignore[import-not-found]
    from onmt.utils.report_manager import ReportMgr  # type: ignore[import-not-found]

    recorder = Recorder(sys.argv.pop(1), float(sys.argv.pop(1)))

    def report(_self: Any, step: int, _steps: int, _rate: float, _patience: Any, statistics: Any) -> None:
        recorder.update(step, statistics.n_words)

    ReportMgr._report_training = report
    train.main()


if __name__ == "__main__":  # the data workers of OpenNMT-py import this file
    main()
