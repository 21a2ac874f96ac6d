"""`seqloom doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree

from support.commands import Command


def test_a_run_is_diagnosed(runs: Path, command: Command, tmp_path: Path) -> None:
    sick = copytree(runs / "pairs", tmp_path / "sick", symlinks=True)
    lines = [{"kind": "train", "step": step, "loss": loss} for step, loss in ((1, 2.0), (2, 9.0))]
    (sick / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = command("doctor", sick)
    assert told.code == 0, told.err
    assert "The run diverged" in told.out and "evidence: 2 at step 1, 9 at step 2" in told.out
    (found,) = json.loads(command("doctor", sick, "--json").out)
    assert set(found) == {"problem", "evidence", "advice"}
    (sick / "metrics.jsonl").unlink()
    (sick / "data-report.json").unlink()
    assert command("doctor", sick).out.startswith("No problems")


def test_a_missing_run_is_an_error(command: Command, tmp_path: Path) -> None:
    done = command("doctor", tmp_path / "nothing")
    assert done.code == 2 and "There is no run directory" in done.err
