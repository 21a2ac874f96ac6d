"""The Python way gives what the command line gives."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import Command, run_python
from support.configs import TINY_TRANSFORMER, learner_flags

SCRIPT = """
import json, sys
import seqloom

table, out, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
translator = seqloom.train(table, out=out, model="transformer", size="tiny", settings=settings, plan="fixed")
lines = ["1 2 3", "", "4 5"]
answers = [[h.text for h in line] for line in translator.translate(lines, beam=3, nbest=2)]
loaded = [[h.text for h in line] for line in seqloom.load(out).translate(lines, beam=3, nbest=2)]
print(json.dumps([answers, loaded]))
"""


def test_train_and_load_are_the_commands(data: Path, tmp_path: Path, command: Command) -> None:
    flags = learner_flags({**TINY_TRANSFORMER, "train.max_steps": 20})
    typed = dict(flag.split("=", 1) for flag in flags if flag != "--set")
    arguments = [str(data / "small.tsv"), str(tmp_path / "api"), json.dumps(typed)]
    answers, loaded = json.loads(run_python(SCRIPT, *arguments))
    assert answers == loaded

    done = command("train", data / "small.tsv", "--out", tmp_path / "cli", "--size", "tiny", *flags)
    assert done.code == 0, done.err
    weights = [
        (tmp_path / name / "checkpoints" / "step-20" / "model.safetensors").read_bytes()
        for name in ("api", "cli")
    ]
    assert weights[0] == weights[1]
    said = command("translate", tmp_path / "cli", "--beam", 3, "--nbest", 2, "--json", given=b"1 2 3\n\n4 5\n")
    by_command = [[h["text"] for h in json.loads(line)["hypotheses"]] for line in said.out.splitlines()]
    assert by_command == answers
