"""Start a command in several processes on this machine, as torchrun does."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Sequence

from seqloom.system import check_processes, processors


def launch(arguments: Sequence[str], processes: int, *, restarts: int = 0) -> int:
    """Run `seqloom ARGUMENTS` in several processes and return the exit code.

    If a process dies, all of them are restarted, at most `restarts` times.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    check_processes(processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, processors() // processes)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # no warnings about our process group options
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    logging.getLogger("torch.distributed.run").setLevel(logging.CRITICAL)
    options = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    try:
        with tempfile.TemporaryDirectory(prefix="seqloom-") as logs:  # torchrun does not remove its own
            words = [*options, "--log-dir", logs, "-m", "seqloom", *arguments]
            run(parse_args(words))  # type: ignore[no-untyped-call]
    except SignalException as stopped:  # the processes received the signal, too, and have saved
        return 128 + stopped.sigval
    except ChildFailedError as error:
        codes = [failure.exitcode for failure in error.failures.values()]
        if all(code < 0 for code in codes):  # otherwise a process has printed the reason
            print(f"error: a process was killed by signal {-codes[0]}.", file=sys.stderr)
        return max((code for code in codes if code > 0), default=1)
    return 0
