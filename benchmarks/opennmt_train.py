"""Trains with OpenNMT-py for some seconds after its first update and writes metrics.jsonl as seqloom does.

    PEER_PYTHON opennmt_train.py METRICS SECONDS -config CONFIG

Its own log gives rounded rates. The hook reads the counts behind them: `n_words` is the number of positions
of target[1:] that are not padding (onmt/utils/loss.py, `_stats`): the end of a sentence counts, its start
does not.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main() -> None:
    from onmt.bin import train  # type: ignore[import-not-found]
    from onmt.utils.report_manager import ReportMgr  # type: ignore[import-not-found]

    path, limit = sys.argv.pop(1), float(sys.argv.pop(1))
    tokens, first = 0, None

    def report(self: Any, step: int, _steps: int, _rate: float, _patience: Any, statistics: Any) -> None:
        nonlocal tokens, first
        tokens += statistics.n_words
        seconds = time.time() - self.start_time
        row = {"kind": "train", "step": step, "seconds": seconds, "target_tokens": tokens}
        with open(path, "a", encoding="utf-8") as metrics:
            metrics.write(json.dumps(row) + "\n")
        first = seconds if first is None else first
        if seconds - first >= limit:  # filling its first bucket is no training
            sys.exit(0)

    ReportMgr._report_training = report
    train.main()


if __name__ == "__main__":  # its data workers import this file again
    main()
