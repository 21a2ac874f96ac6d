"""Who takes part in decode.py, each as a driver beside this file and what it is told, and how one is run.

A further contestant is a driver that hands its loader to stopwatch.py and a function that returns a `Decoder`,
named among CONTESTANTS.
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, Protocol

from measure import child_environment
from peers import HUGGINGFACE, OPENNMT

from seqloom import SeqloomError, __version__
from seqloom.decode.config import SearchConfig
from seqloom.run import Run
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK

_HERE = Path(__file__).resolve().parent


Speech = Literal["text", "ids", "pieces"]


class Place(Protocol):
    """Where contestants run."""

    @property
    def tokenizers(self) -> TokenizerPair: ...

    @property
    def threads(self) -> int: ...

    @property
    def work(self) -> Path: ...  # what they cache is kept here


@dataclass(frozen=True)
class Setup:
    """What contestants are made of."""

    run: Path
    work: Path  # an empty folder for the run in other formats
    environments: Path
    threads: int
    batch: int  # sentences, for those that have to be told

    @cached_property
    def search(self) -> SearchConfig:
        return Run.open(self.run).config().search

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        return Run.open(self.run).tokenizers()

    def exported(self, quantization: str) -> str:
        """The folder that `seqloom export --to ctranslate2` makes of the run, once."""
        from seqloom.exchange.ctranslate2_export import export_ctranslate2

        folder = self.work / quantization
        if not folder.exists():
            export_ctranslate2(self.run, folder, quantization=quantization)
        return str(folder)


@dataclass(frozen=True)
class Decoder:
    """A contestant, ready to run."""

    title: str
    version: str
    driver: str
    options: dict[str, Any]
    speaks: Speech = "text"
    python: str = sys.executable


@dataclass(frozen=True)
class Timing:
    """What one search took, and what it found."""

    seconds: float  # for all lines, in batches
    latencies: list[float] = field(repr=False)  # seconds of each line that went alone
    answers: list[str] = field(repr=False)


@dataclass(frozen=True)
class Result:
    """One run of one contestant."""

    start_to_first_answer: float  # seconds, with loading the model
    searches: dict[int, Timing]  # by beam


def run_decoder(
    decoder: Decoder, setup: Place, lines: Sequence[str], beams: Sequence[int], *, single: int, folder: Path
) -> Result:
    """What a contestant does with the lines, in a process of its own."""
    given = spoken(lines, setup.tokenizers.source, decoder.speaks)
    task, result, log = (folder / name for name in ("task.json", "result.json", "output.log"))
    content = {"lines": given, "beams": list(beams), "single": single, "options": decoder.options}
    task.write_text(json.dumps(content), encoding="utf-8")
    with open(log, "wb") as output:
        done = subprocess.run(
            [decoder.python, str(_HERE / decoder.driver), str(task), str(result)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=child_environment(setup.threads, cache=setup.work / "cache"),
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise SeqloomError(
            f"{decoder.title} ended with exit code {done.returncode}; the end of its log:\n{tail}"
        )
    found = json.loads(result.read_text(encoding="utf-8"))
    timings = {
        int(beam): Timing(
            timing["seconds"],
            timing["latencies"],
            understood(timing["answers"], setup.tokenizers.target, decoder.speaks),
        )
        for beam, timing in found["searches"].items()
    }
    return Result(found["start_to_first_answer"], timings)


def spoken(lines: Sequence[str], tokenizer: Tokenizer, speech: Speech) -> list[str]:
    """Text as a contestant takes it."""
    if speech == "text":
        return list(lines)
    ids = [tokenizer.encode(line) for line in lines]
    return [" ".join(map(str, line) if speech == "ids" else tokenizer.pieces(line)) for line in ids]


def understood(answers: Sequence[str], tokenizer: Tokenizer, speech: Speech) -> list[str]:
    """The text of what a contestant answers; a piece that is not ours is the unknown token."""
    if speech == "text":
        return list(answers)
    if speech == "ids":
        return [tokenizer.decode(map(int, answer.split())) for answer in answers]
    ids = {piece: id for id, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    return [tokenizer.decode(ids.get(piece, UNK) for piece in answer.split(" ") if piece) for answer in answers]


def _ours_torch(setup: Setup) -> Decoder:
    options = {"folder": str(setup.run), "engine": "torch", "expected": "torch"}
    return Decoder("seqloom, torch", __version__, "seqloom_translate.py", options)


def _ours_ctranslate2(setup: Setup) -> Decoder:
    """Nothing is set: `auto` finds that CTranslate2 is exact for the run, and how many workers it has."""
    options = {"folder": str(setup.run), "engine": "auto", "expected": "ctranslate2"}
    return Decoder("seqloom, CTranslate2 float32", __version__, "seqloom_translate.py", options)


def _ours_int8(setup: Setup) -> Decoder:
    options = {"folder": setup.exported("int8"), "engine": "auto", "expected": "ctranslate2"}
    return Decoder("seqloom, CTranslate2 int8", __version__, "seqloom_translate.py", options)


def _plain(setup: Setup, *, quantization: str, workers: bool) -> Decoder:
    """As many workers of one thread as there are processors, or one worker with as many threads."""
    layout = (setup.threads, 1) if workers else (1, setup.threads)
    options = {
        "folder": setup.exported(quantization),
        "workers": layout[0],
        "threads": layout[1],
        "batch": setup.batch,
        "length_penalty": setup.search.length_penalty,
    }
    title = f"CTranslate2 {quantization}, {layout[0]} × {layout[1]}"
    version = importlib.metadata.version("ctranslate2")
    return Decoder(title, version, "ctranslate2_translate.py", options)


def _huggingface(setup: Setup, *, early_stopping: bool) -> Decoder:
    """Its generate with the rule that ends a beam by default, or with ours."""
    from peer_models import write_huggingface

    folder = setup.work / "huggingface"
    if not folder.exists():
        write_huggingface(setup.run, folder)
    options = {
        "folder": str(folder),
        "batch": setup.batch,
        "early_stopping": early_stopping,
        "length_penalty": setup.search.length_penalty,
        "max_length_factor": setup.search.max_length_factor,
        "max_length_extra": setup.search.max_length_extra,
    }
    python = HUGGINGFACE.python(setup.environments)
    title = "Hugging Face generate" + (", our stop rule" if early_stopping else "")
    return Decoder(title, HUGGINGFACE.version, "huggingface_generate.py", options, "ids", python)


def _opennmt(setup: Setup) -> Decoder:
    from peer_models import write_opennmt

    file = setup.work / "opennmt.pt"
    write_opennmt(setup.run, file)
    options = {
        "file": str(file),
        "batch": setup.batch,
        "batch_type": "sents",
        "length_penalty": setup.search.length_penalty,
        "max_length": setup.search.max_length(setup.search.batch_tokens),
        "max_length_factor": setup.search.max_length_factor,
    }
    return Decoder(
        "OpenNMT-py",
        OPENNMT.version,
        "opennmt_translate.py",
        options,
        "ids",
        OPENNMT.python(setup.environments),
    )


TORCH, OURS, PLAIN = "seqloom-torch", "seqloom-", "ctranslate2-"  # a name and beginnings of names
CONTESTANTS: dict[str, Callable[[Setup], Decoder]] = {
    TORCH: _ours_torch,
    "seqloom-ctranslate2": _ours_ctranslate2,
    "seqloom-int8": _ours_int8,
    "ctranslate2-workers": partial(_plain, quantization="float32", workers=True),
    "ctranslate2-threads": partial(_plain, quantization="float32", workers=False),
    "ctranslate2-int8-workers": partial(_plain, quantization="int8", workers=True),
    "ctranslate2-int8-threads": partial(_plain, quantization="int8", workers=False),
    "huggingface": partial(_huggingface, early_stopping=False),
    "huggingface-count": partial(_huggingface, early_stopping=True),
    "opennmt": _opennmt,
}
