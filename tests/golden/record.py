"""Records what a commit does, to compare it with what another one does.

    python tests/golden/record.py help        # the --help texts, after an option was added or reworded
    python tests/golden/record.py results     # translations, scores and losses, after a result was corrected
    python tests/golden/record.py weights     # print SHA-256 of the weights of short trainings: the same
                                              # bytes on the same machine as long as only the code moves
    python tests/golden/record.py fixtures    # new run directories; the old ones must go on loading, so this is
                                              # for a new kind of run, and --only NAME records that one alone

PYTHONPATH=OTHER/src before a command records the code of another checkout. --to FOLDER writes elsewhere.
"""

from __future__ import annotations

import os

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "80",
    "NO_COLOR": "1",
    "TERM": "dumb",
}

import argparse
import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import typer
from cases import (
    CLIPS,
    COMMANDS,
    LINES,
    PAIRS,
    RUNS,
    SOURCES,
    STOPPED,
    STOPPED_AT,
    TAGGED,
    TEST,
    TEXT,
    TRAININGS,
    TRANSLATIONS,
    Flags,
    sentences,
)

from seqloom.cli.main import app, main

HERE = Path(__file__).resolve().parent


def run(*arguments: object) -> str:
    """Run a command in this process and return its standard output; a failure ends the recording."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["seqloom", *map(str, arguments)]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    if code:
        sys.exit(f"{' '.join(sys.argv)} ended with {code}\n{err.getvalue()}")
    return out.getvalue()


def train(data: str, model: str, flags: Flags, out: Path) -> None:
    """Train a run in `out`."""
    options = [part for name, value in flags.items() for part in ("--set", f"{name}={value}")]
    run("train", data, "--model", model, "--size", "tiny", "--plan", "fixed", "--out", out, *options)


def write_data(folder: Path) -> None:
    """Write the corpora of the recorded runs."""
    (folder / "data" / "clips").mkdir(parents=True, exist_ok=True)
    pairs = sentences(200, seed=1)
    _write(folder / PAIRS, (f"{source}\t{target}" for source, target, _ in pairs))
    _write(folder / TAGGED, (f"{source}\t{tags}" for source, _, tags in pairs[:60]))
    _write(folder / TEXT, (target for _, target, _ in pairs[:100]))
    test = sentences(8, seed=2)
    _write(folder / TEST, (f"{source}\t{target}" for source, target, _ in test))
    # A source, how its translation begins, and what it has to contain; one line is empty.
    begun = [f"{source}\t{target.split()[0]}\t{target.split()[-2]}" for source, target, _ in test[:2]]
    _write(folder / LINES, [*begun, "the cat\tle\tgrand;chat", "\t\t", "the zebra sees the dog .\t\t"])
    _write(folder / "data" / "words.txt", [*(source for source, _, _ in test[:3]), "", "the zebra"])
    _write(folder / CLIPS, _clips(folder))


def _clips(folder: Path) -> Iterator[str]:
    """Write frames that rise or fall over their length; yield each file with its class."""
    random = np.random.default_rng(1)
    for number in range(12):
        rises, length = number % 2 == 0, 5 + number % 4
        way = np.linspace(-2, 2, length) * (1 if rises else -1)
        frames = (way[:, None] + 0.5 * random.normal(size=(length, 2))).astype(np.float32)
        name = f"data/clips/{number}.npy"
        np.save(folder / name, frames)
        yield f"{name}\t{'rises' if rises else 'falls'}"


def _write(path: Path, lines: Any) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def record_fixtures(folder: Path, only: str | None) -> None:
    """Write the corpora and the run directories."""
    write_data(folder)
    os.chdir(folder)
    for name, (data, model, flags) in RUNS.items():
        if only in (None, name):
            out = Path("fixtures") / name
            shutil.rmtree(out, ignore_errors=True)
            train(data, model, flags, out)
    if only in (None, "transformer"):
        run("shortlist", "fixtures/transformer", "--threads", "1")
    if only in (None, STOPPED):
        _forget_the_end(Path("fixtures") / STOPPED)


def _forget_the_end(out: Path) -> None:
    """Leave a finished run as it was after its checkpoint half-way."""
    checkpoints = out / "checkpoints"
    for step in checkpoints.glob("step-*"):
        if step.name != f"step-{STOPPED_AT}":
            shutil.rmtree(step)
    (checkpoints / "best").unlink()
    (checkpoints / "best").symlink_to(f"step-{STOPPED_AT}")
    for name in ("metrics.jsonl", "log.txt"):
        lines = (out / name).read_text(encoding="utf-8").splitlines()
        last = next(i for i, line in enumerate(lines) if "valid" in line and f"{STOPPED_AT}" in line)
        _write(out / name, lines[: last + 1])


def record_results(folder: Path) -> None:
    """Write results.json: what every recorded command gives."""
    os.chdir(HERE)
    found: dict[str, dict[str, Any]] = {
        **{f"translate {name}": _translations(name, searches) for name, searches in TRANSLATIONS.items()},
        "commands": {name: _json(run(*command, "--json")) for name, command in COMMANDS.items()},
        "losses": {name: _metrics(out) for name, out in _short_trainings()},
        "resumed": {STOPPED: _resumed_losses()},
    }
    _write(folder / "results.json", [_one_line_per_result(_rounded(found))])


def _one_line_per_result(found: dict[str, Any]) -> str:
    """JSON of two levels whose values have a line each, so that a difference is easy to see."""
    groups = []
    for group, results in found.items():
        lines = [f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in results.items()]
        groups.append(f"{json.dumps(group)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(groups) + "\n}"


def _json(printed: str) -> list[Any]:
    """Every JSON value of a text."""
    decoder, found = json.JSONDecoder(), []
    while printed := printed.lstrip():
        value, end = decoder.raw_decode(printed)
        found.append(value)
        printed = printed[end:]
    return found


def _translations(name: str, searches: dict[str, list[str]]) -> dict[str, Any]:
    """By search the hypotheses of every line."""
    model, engine = name.split()
    folder = f"fixtures/{'transformer' if model == 'ensemble' else model}"
    command = ["translate", folder, SOURCES.get(model, LINES), "--engine", engine, "--json", "--threads", "1"]
    return {
        search: _hypotheses(run(*command, *options), alignment="--alignment" in options)
        for search, options in searches.items()
    }


def _hypotheses(printed: str, *, alignment: bool) -> list[Any]:
    kept = ("text", "score", "log_prob", "finished", *(["alignment"] if alignment else []))
    lines = [line["hypotheses"] for line in _json(printed)]
    return [[{key: one[key] for key in kept} for one in found] for found in lines]


def _short_trainings() -> Iterator[tuple[str, Path]]:
    """The name and the folder of every short training, until the next one is asked for."""
    for name, (data, model, flags) in TRAININGS.items():
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "run"
            train(data, model, flags, out)
            yield name, out


def _resumed_losses() -> list[Any]:
    with tempfile.TemporaryDirectory() as temporary:
        out = Path(temporary) / "run"
        shutil.copytree(f"fixtures/{STOPPED}", out, symlinks=True)
        run("resume", out)
        return _metrics(out)


def _metrics(out: Path) -> list[Any]:
    """The reports of a run without what depends on the machine."""
    kept = ("kind", "step", "loss", "learning_rate", "gradient_norm", "padding", "epoch", "bleu", "chrf")
    lines = _json((out / "metrics.jsonl").read_text(encoding="utf-8"))
    return [{key: line[key] for key in kept if key in line} for line in lines]


def _rounded(tree: Any) -> Any:
    """The tree with six significant digits of every float, without what names versions or explains."""
    if isinstance(tree, dict):
        return {key: _rounded(value) for key, value in tree.items() if key not in ("note", "signature")}
    if isinstance(tree, list):
        return [_rounded(value) for value in tree]
    return float(f"{tree:.6g}") if isinstance(tree, float) else tree


def record_help(folder: Path) -> None:
    """Write a text file per command."""
    target = folder / "help"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for names in _commands(typer.main.get_command(app), ()):
        text = "\n".join(line.rstrip() for line in run(*names, "--help").strip("\n").splitlines())
        name = "-".join(("seqloom", *names))
        (target / f"{name}.txt").write_text(text + "\n", encoding="utf-8")


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, (*path, name))


def print_weights() -> None:
    """Print SHA-256 of the best weights of every short training."""
    os.chdir(HERE)
    for name, out in _short_trainings():
        weights = (out / "checkpoints" / "best" / "model.safetensors").read_bytes()
        print(hashlib.sha256(weights).hexdigest(), name, flush=True)


def parse() -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("help", "results", "weights", "fixtures"))
    parser.add_argument("--to", type=Path, default=HERE, metavar="FOLDER", help="default: beside this script")
    parser.add_argument("--only", metavar="NAME", help="one of the fixtures")
    return parser.parse_args()


if __name__ == "__main__":
    given = parse()
    to = given.to.resolve()
    to.mkdir(parents=True, exist_ok=True)
    actions: dict[str, Callable[[], None]] = {
        "help": lambda: record_help(to),
        "results": lambda: record_results(to),
        "weights": print_weights,
        "fixtures": lambda: record_fixtures(to, given.only),
    }
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SEQLOOM_CACHE"] = cache
        actions[given.what]()
