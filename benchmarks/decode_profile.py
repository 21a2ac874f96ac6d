"""Profile of our torch beam search: time by kind of operation.

    python benchmarks/decode_profile.py RUN FILE [--lines 400] [--beam 5] [--threads 1]

RUN is a run directory and FILE has one source per line (plain or gzipped). Percentages refer to the CPU time
spent in torch operators, without the Python code between them.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import torch
from command import run_command
from machine import describe
from training_profile import profile_kinds

from seqloom.data.lines import lines
from seqloom.decode.select import load_translator

KINDS = {  # the first kind with a matching part of the operator name
    "matrix products": ("::mm", "addmm"),
    "attention products": ("bmm", "scaled_dot_product", "flash"),
    "reordering hypotheses, removing finished sentences": ("index_select",),
    "softmax over the vocabulary": ("log_softmax",),
    "attention softmax": ("softmax",),
    "selecting the best tokens": ("topk", "amax", "gather", "sort"),
    "copies": ("copy_", "cat", "clone"),
    "layer norm": ("layer_norm",),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--lines", type=int, default=400, help="number of lines (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    options = parser.parse_args()
    translator = load_translator(
        options.run, "torch", threads=options.threads, search={"beam": options.beam}, scores=False
    )
    sources = list(islice(lines(options.file), options.lines))
    translator.translate(sources[:50])
    seconds = profile_kinds(translator.translate, [sources], KINDS)
    machine = describe(options.threads, torch.__version__)
    print(f"{machine.cpu}, {machine.threads} threads, torch {machine.torch}, {machine.date}\n")
    total = sum(seconds.values())
    for kind, part in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{part:8.2f} s  {part / total:4.0%}  {kind}")


if __name__ == "__main__":
    run_command(main)
