"""Where the time of our torch search goes, by kind of operation.

    python benchmarks/decode_profile.py RUN FILE [--lines 400] [--beam 5] [--threads 1]

RUN is a run directory and FILE has a source per line, gzip or not. Shares are of the processor's time in
operations of torch; Python between them is not in it.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import torch
from command import run_command
from machine import describe
from training_profile import spent

from seqloom.data.lines import lines
from seqloom.exchange.engines import load_translator

KINDS = {  # the first that is part of an operator's name
    "products of matrices": ("::mm", "addmm"),
    "products of heads": ("bmm", "scaled_dot_product", "flash"),
    "following survivors, dropping sentences": ("index_select",),
    "softmax over the vocabulary": ("log_softmax",),
    "softmax of attention": ("softmax",),
    "finding the best": ("topk", "amax", "gather", "sort"),
    "copies": ("copy_", "cat", "clone"),
    "layer norm": ("layer_norm",),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("file")
    parser.add_argument("--lines", type=int, default=400, help="of the file (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="default: %(default)s")
    options = parser.parse_args()
    translator = load_translator(
        options.run, "torch", threads=options.threads, search={"beam": options.beam}, scores=False
    )
    sources = list(islice(lines(options.file), options.lines))
    translator.translate(sources[:50])
    seconds = spent(translator.translate, [sources], KINDS)
    machine = describe(options.threads, torch.__version__)
    print(f"{machine.cpu}, {machine.threads} threads, torch {machine.torch}, {machine.date}\n")
    total = sum(seconds.values())
    for kind, part in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{part:8.2f} s  {part / total:4.0%}  {kind}")


if __name__ == "__main__":
    run_command(main)
