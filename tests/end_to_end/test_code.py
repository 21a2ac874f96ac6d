"""Code keeps its indentation and line breaks from the training data to the translation."""

from __future__ import annotations

import json
from pathlib import Path

from support.commands import Command
from support.configs import flags

NAMES = ["alpha", "beta", "gamma", "delta", "count", "total", "index", "value"]


def programs() -> list[tuple[str, str]]:
    """Descriptions of code, and code that is right only with its white space."""
    found = []
    for level in range(4):
        for name in NAMES:
            for other in NAMES:
                indent = "    " * level
                found.append((f"level {level} return {name} {other}", f"{indent}return {name}  # {other}"))
                body = f"{indent}if {name}:\n{indent}\t{other} = 1\n"
                found.append((f"level {level} if {name} set {other}", body))
    return found


def write_jsonl(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in pairs))
    return path


def test_indentation_and_line_breaks_survive(tmp_path: Path, command: Command) -> None:
    pairs = programs()
    train = write_jsonl(tmp_path / "train.jsonl", pairs)
    test = write_jsonl(tmp_path / "test.jsonl", pairs[::9])
    settings = {
        "text.preset": "code",
        "text.vocab_size": 340,
        "model.layers": 1,
        "model.width": 64,
        "model.dropout": 0,
        "train.max_steps": 250,
        "train.batch_tokens": 1500,
        "train.learning_rate": 0.005,
        "train.warmup": 50,
        "train.label_smoothing": 0,
        "train.threads": 1,
        "data.valid_share": 0.02,
    }
    run = tmp_path / "run"
    done = command("train", train, "--size", "tiny", "--out", run, *flags(settings))
    assert done.code == 0, done.err

    done = command("translate", run, test, "--beam", 1, "--json")
    outputs = [json.loads(line)["hypotheses"][0]["text"] for line in done.out.splitlines()]
    right = sum(output == target for output, (_, target) in zip(outputs, pairs[::9], strict=True))
    assert right > 0.9 * len(outputs)

    done = command("evaluate", run, test, "--beam", 1, "--metrics", "exact,exact:raw", "--json")
    exact, raw = (score["value"] for score in json.loads(done.out)["scores"])
    assert raw == 100 * right / len(outputs)
    assert exact >= raw

    plain = command("translate", run, test, "--beam", 1)
    lines = plain.out.splitlines()
    assert lines == [output.replace("\n", " ") for output in outputs]
    assert "--json" in plain.err
