"""Phrase-based translation of Multi30k: training time by stage, BLEU, and sentences per second by workers.

    python benchmarks/phrase.py --run runs/phrase [--json phrase.json] [--set model.longest=7] [--no-test]

Trains recipes/multi30k-en-de-phrase.yaml on the tokenised files in SEQLOOM_DATA or ../shared/data, unless the
run exists. Speed is measured on the validation file. The test file is decoded once, or not at all (--no-test).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from command import data_folder, run_command
from machine import describe

from seqloom import SeqloomError
from seqloom.decode.translator import Translator
from seqloom.evaluate.metrics import evaluate
from seqloom.run.load import load

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "multi30k-en-de-phrase.yaml"
# Log line at which each stage of the training starts.
STAGES = {
    "phrase: ": "language model",
    "aligning words": "word alignment",
    "extracting phrases": "phrase table",
    "tuning weights": "tuning",
    "done after": "saving",
}


def find_data(environment: Mapping[str, str]) -> Path:
    """Return the folder of the tokenised Multi30k files."""
    folder = data_folder(environment) / "multi30k" / "tokenised"
    if not folder.is_dir():
        raise SeqloomError(
            f"Multi30k not found: {folder}.",
            "Set SEQLOOM_DATA to the folder that contains multi30k/tokenised.",
        )
    return folder


def file_of(data: Path, part: str, language: str) -> Path:
    """Return the file of a part: train, val or test_2016_flickr."""
    return data / f"{part}.lc.norm.tok.{language}.gz"


def train(data: Path, run: Path, settings: Sequence[str]) -> dict[str, float]:
    """Run `seqloom train` and return the seconds of each stage."""
    files = {
        "--source": file_of(data, "train", "en"),
        "--target": file_of(data, "train", "de"),
        "--valid-source": file_of(data, "val", "en"),
        "--valid-target": file_of(data, "val", "de"),
    }
    arguments = [str(word) for pair in files.items() for word in pair]
    sets = [word for assignment in settings for word in ("--set", assignment)]
    command = ["-m", "seqloom", "train", "--config", str(RECIPE), "--out", str(run), *arguments, *sets]
    seconds: dict[str, float] = {}
    stage, since = "reading and tokenising", time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", file=sys.stderr, flush=True)
            next_stage = next((name for start, name in STAGES.items() if line.startswith(start)), None)
            if next_stage:
                now = time.perf_counter()
                seconds[stage] = round(now - since, 1)
                stage, since = next_stage, now
    seconds[stage] = round(time.perf_counter() - since, 1)
    if process.returncode:
        raise SeqloomError(f"Training failed with exit code {process.returncode}.", "See the log above.")
    return seconds


def read(data: Path, part: str) -> tuple[list[str], list[str]]:
    """Return the sources and targets of a part."""
    sides = []
    for language in ("en", "de"):
        with gzip.open(file_of(data, part, language), "rt", encoding="utf-8") as file:
            sides.append(file.read().splitlines())
    return sides[0], sides[1]


def translate(translator: Translator, lines: list[str]) -> tuple[list[str], float]:
    """Return the translations and the number of sentences per second."""
    began = time.perf_counter()
    found = [hypotheses[0].text for hypotheses in translator.translate(lines)]
    return found, len(lines) / (time.perf_counter() - began)


def measure(data: Path, run: Path, *, test: bool) -> dict[str, Any]:
    """Return the speed by number of workers, and BLEU."""
    sources, targets = read(data, "val")
    speed, texts = {}, []
    for workers in (1, 2):
        translator = load(run, workers=workers)
        translate(translator, sources[:50])  # warm up the caches
        text, per_second = translate(translator, sources)
        speed[str(workers)] = round(per_second, 1)
        texts.append(text)
    facts: dict[str, Any] = {
        "sentences_per_second_by_workers": speed,
        "same_output": texts[0] == texts[1],
        "bleu_valid": _bleu(texts[0], targets),
    }
    if test:
        sources, targets = read(data, "test_2016_flickr")
        facts["bleu_test"] = _bleu(translate(translator, sources)[0], targets)
    return facts


def _bleu(found: list[str], references: list[str]) -> dict[str, Any]:
    (score,) = evaluate(found, [[reference] for reference in references], "bleu:none")
    return {"value": score.value, "low": score.low, "high": score.high, "signature": score.signature}


def main() -> None:
    """Train, measure and print a JSON object."""
    parser = argparse.ArgumentParser(description="Phrase-based translation of Multi30k.")
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION",
        help="config option, e.g. model.longest=7",
    )
    parser.add_argument("--no-test", action="store_true", help="do not decode the test file")
    given = parser.parse_args()
    data = find_data(os.environ)
    facts: dict[str, Any] = {"machine": asdict(describe(torch.get_num_threads(), torch.__version__))}
    if not given.run.is_dir():
        seconds = train(data, given.run, given.set)
        facts |= {"seconds": seconds, "minutes": round(sum(seconds.values()) / 60, 2)}
    facts |= measure(data, given.run, test=not given.no_test)
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
