"""`--processes N`: the same command in several processes, as by torchrun."""

from __future__ import annotations

import logging
import os
import sys
import tempfile

import typer

ON_THIS_MACHINE = "Processes on this machine that share the work, as by torchrun."


def launch(processes: int, *, restarts: int = 0) -> None:
    """Runs this command in so many processes; when one is lost, all start again, at most `restarts` times."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    from seqloom.machine import check_processes, processors

    check_processes(processes)
    place = next(i for i, word in enumerate(sys.argv) if word.startswith("--processes"))
    rest = sys.argv[1:place] + sys.argv[place + (1 if "=" in sys.argv[place] else 2) :]
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, processors() // processes)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch wonders at what we ask it for
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    logging.getLogger("torch.distributed.run").setLevel(logging.CRITICAL)
    options = ["--standalone", "--nproc-per-node", str(processes), "--max-restarts", str(restarts)]
    try:
        with tempfile.TemporaryDirectory(prefix="seqloom-") as logs:  # torch would leave its own behind
            words = [*options, "--log-dir", logs, "-m", "seqloom", *rest]
            run(parse_args(words))  # type: ignore[no-untyped-call]
    except SignalException as stopped:  # the processes were told, and have saved
        raise typer.Exit(128 + stopped.sigval) from None
    except ChildFailedError as error:
        codes = [failure.exitcode for failure in error.failures.values()]
        if all(code < 0 for code in codes):  # else one of them has told why it ended
            print(f"error: a process was lost to signal {-codes[0]}.", file=sys.stderr)
        raise typer.Exit(max((code for code in codes if code > 0), default=1)) from None
