"""Systems compared by decode.py: the driver script and options of each, and a function to run them.

To add a system, write a driver that passes its loader to stopwatch.py and a function that returns a `Decoder`,
and add the function to SYSTEMS.
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

from measure import child_environment, process_failed
from peers import HUGGINGFACE, OPENNMT

from seqloom import __version__
from seqloom.decode.config import SearchConfig
from seqloom.run.directory import Run
from seqloom.text.pair import TokenizerPair
from seqloom.text.tokenizer import Tokenizer
from seqloom.types import UNK

_HERE = Path(__file__).resolve().parent

Interface = Literal["text", "ids", "pieces"]  # input and output of a system


class DecodingSetup(Protocol):
    """Settings that run_decoder needs."""

    @property
    def tokenizers(self) -> TokenizerPair: ...

    @property
    def threads(self) -> int: ...

    @property
    def work(self) -> Path: ...  # folder for caches


@dataclass(frozen=True)
class Setup:
    """Settings from which the decoders are built."""

    run: Path
    work: Path  # empty folder for exports of the run
    environments: Path
    threads: int
    batch: int  # sentences per batch, for systems without automatic batching

    @cached_property
    def search(self) -> SearchConfig:
        return Run.open(self.run).config().search

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        return Run.open(self.run).tokenizers()

    def exported(self, quantization: str) -> str:
        """Return the CTranslate2 export of the run; created on first use."""
        from seqloom.export.ctranslate2.export import export_ctranslate2

        folder = self.work / quantization
        if not folder.exists():
            export_ctranslate2(self.run, folder, quantization=quantization)
        return str(folder)


@dataclass(frozen=True)
class Decoder:
    """System with its driver script and options."""

    title: str
    version: str
    driver: str
    options: dict[str, Any]
    interface: Interface = "text"
    python: str = sys.executable


@dataclass(frozen=True)
class Timing:
    """Times and outputs of one search."""

    seconds: float  # all lines in batches
    latencies: list[float] = field(repr=False)  # seconds per line, translated one at a time
    outputs: list[str] = field(repr=False)


@dataclass(frozen=True)
class Result:
    """Results of one run of a system."""

    start_to_first_output: float  # seconds, including loading the model
    searches: dict[int, Timing]  # by beam size


def run_decoder(
    decoder: Decoder,
    setup: DecodingSetup,
    lines: Sequence[str],
    beams: Sequence[int],
    *,
    single: int,
    folder: Path,
) -> Result:
    """Translate the lines with a system in a separate process and return the results."""
    given = encode_lines(lines, setup.tokenizers.source, decoder.interface)
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
        raise process_failed(decoder.title, done.returncode, log)
    found = json.loads(result.read_text(encoding="utf-8"))
    timings = {
        int(beam): Timing(
            timing["seconds"],
            timing["latencies"],
            decode_outputs(timing["outputs"], setup.tokenizers.target, decoder.interface),
        )
        for beam, timing in found["searches"].items()
    }
    return Result(found["start_to_first_output"], timings)


def encode_lines(lines: Sequence[str], tokenizer: Tokenizer, interface: Interface) -> list[str]:
    """Convert text to the input format of a system."""
    if interface == "text":
        return list(lines)
    ids = [tokenizer.encode(line) for line in lines]
    return [" ".join(map(str, line) if interface == "ids" else tokenizer.pieces(line)) for line in ids]


def decode_outputs(outputs: Sequence[str], tokenizer: Tokenizer, interface: Interface) -> list[str]:
    """Convert the outputs of a system to text. Pieces outside the vocabulary become the unknown token."""
    if interface == "text":
        return list(outputs)
    if interface == "ids":
        return [tokenizer.decode(map(int, output.split())) for output in outputs]
    ids = {piece: id for id, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    return [tokenizer.decode(ids.get(piece, UNK) for piece in output.split(" ") if piece) for output in outputs]


def _ours_torch(setup: Setup) -> Decoder:
    options = {"folder": str(setup.run), "engine": "torch", "expected": "torch"}
    return Decoder("seqloom, torch", __version__, "seqloom_translate.py", options)


def _ours_ctranslate2(setup: Setup) -> Decoder:
    """Return seqloom with default settings: `auto` selects CTranslate2 and the number of workers."""
    options = {"folder": str(setup.run), "engine": "auto", "expected": "ctranslate2"}
    return Decoder("seqloom, CTranslate2 float32", __version__, "seqloom_translate.py", options)


def _ours_int8(setup: Setup) -> Decoder:
    options = {"folder": setup.exported("int8"), "engine": "auto", "expected": "ctranslate2"}
    return Decoder("seqloom, CTranslate2 int8", __version__, "seqloom_translate.py", options)


def _plain(setup: Setup, *, quantization: str, workers: bool) -> Decoder:
    """Return plain CTranslate2 with one single-threaded worker per processor, or one multi-threaded worker."""
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
    """Return Hugging Face's generate with its default stopping rule, or with ours (early_stopping)."""
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
    title = "Hugging Face generate" + (", our stopping rule" if early_stopping else "")
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


TORCH, OURS, PLAIN = "seqloom-torch", "seqloom-", "ctranslate2-"  # one name and two prefixes
SYSTEMS: dict[str, Callable[[Setup], Decoder]] = {
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
