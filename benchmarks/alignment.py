"""Word alignment on Hansards: our models, fast_align and eflomal on the same words in the same run.

    pip install systran-align eflomal
    python benchmarks/alignment.py --work alignment-work [--threads 2] [--only ibm1 hmm eflomal]

Every system aligns the 447 Hansards pairs that have a gold standard together with Tatoeba's English-French
pairs, in lower case, with punctuation split off. The options of our models were chosen on every twelfth
Hansards pair (37 pairs); the other 410 are used for the table only and are also scored separately. Systems that
are not installed are skipped. Seconds cover the alignment of all pairs, from token ids or a file to links.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from command import data_folder, run_command

from seqloom import SeqloomError
from seqloom.evaluate.alignment import Gold, Link, parse_gold, parse_links, score_alignment
from seqloom.statistical.alignment.align import MODELS, Aligner, Model
from seqloom.statistical.alignment.symmetrise import Method
from seqloom.statistical.alignment.words import words_to_ids

Words = tuple[list[str], list[str]]
Alignments = Sequence[Collection[Sequence[int]]]

WORD = re.compile(r"\w+'(?=\w)|\w+|[^\w\s]")
SHOWN: tuple[Method, ...] = ("forward", "backward", "intersection", "grow-diag-final-and")


class Result(NamedTuple):
    """One row of the table."""

    system: str
    method: str
    links: Alignments  # of the pairs that have a gold standard
    seconds: float


def find_data(environment: Mapping[str, str]) -> Path:
    """Return the data folder: SEQLOOM_DATA, or shared/data next to the repository."""
    folder = data_folder(environment)
    for name in ("word-alignment/enfr.src-tgt", "word-alignment/enfr.gold", "tatoeba/eng-fra.tsv.gz"):
        if not (folder / name).is_file():
            raise SeqloomError(
                f"{name} not found in {folder}.",
                "Set SEQLOOM_DATA to the folder that contains word-alignment/ and tatoeba/.",
            )
    return folder


def read_pairs(folder: Path) -> Iterator[Words]:
    """Yield the words of Hansards, then of Tatoeba, in lower case."""
    with (folder / "word-alignment" / "enfr.src-tgt").open(encoding="utf-8") as file:
        for line in file:
            source, target = line.lower().split("|||")
            yield source.split(), target.split()
    with gzip.open(folder / "tatoeba" / "eng-fra.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            source, target = line.lower().replace("’", "'").rstrip("\n").split("\t")[:2]
            yield WORD.findall(source), WORD.findall(target)


def read_gold(folder: Path) -> list[Gold]:
    """Return the gold alignments of the Hansards pairs."""
    with (folder / "word-alignment" / "enfr.gold").open(encoding="utf-8") as file:
        return [parse_gold(line, first=1) for line in file]


def ours(pairs: Sequence[Words], gold: int, threads: int, models: Sequence[Model]) -> Iterator[Result]:
    """Yield the results of our models, one per symmetrisation method."""
    numbers = words_to_ids(pairs)
    for model in models:
        began, busy = time.perf_counter(), time.process_time()
        aligner = Aligner(numbers, threads=threads)
        aligner.train(model)
        trained, busy = time.perf_counter() - began, time.process_time() - busy
        for method in SHOWN:
            began = time.perf_counter()
            links = aligner.links(method)[:gold]
            seconds = trained + time.perf_counter() - began
            yield Result(f"seqloom {model}", method, [row.tolist() for row in links], seconds)
        print(f"{model}: {trained:.1f} s of training, {busy:.1f} s of CPU time", file=sys.stderr)


def fast_align(pairs: Sequence[Words], gold: int, work: Path) -> Iterator[Result]:
    """Yield the result of fast_align with the recommended options; its package returns symmetrised links."""
    import systran_align

    began = time.perf_counter()
    files = [str(work / name) for name in ("pairs.txt", "forward", "backward")]
    options = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
    systran_align.generate_alignment_probabilities(*files, **options)
    aligner = systran_align.Aligner(*files[1:])
    links = [aligner.align(source, target)["alignments"] for source, target in pairs]
    yield Result("fast_align", "its own method", links[:gold], time.perf_counter() - began)


def eflomal(pairs: Sequence[Words], gold: int, work: Path) -> Iterator[Result]:
    """Yield the results of eflomal with its default options, symmetrise_links by seqloom."""
    began = time.perf_counter()
    files = [work / "eflomal.forward", work / "eflomal.backward"]
    scripts = Path(sys.executable).parent
    command = [
        scripts / "eflomal-align",
        "--overwrite",
        "-i",
        work / "pairs.txt",
        "-f",
        files[0],
        "-r",
        files[1],
    ]
    path = f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run([str(part) for part in command], check=True, env={**os.environ, "PATH": path})
    seconds = time.perf_counter() - began
    forward, backward = (_read_links(file, gold) for file in files)
    for method in SHOWN:
        yield Result("eflomal", method, _symmetrised(forward, backward, method), seconds)


PEERS = {  # module, package, function that runs it
    "fast_align": ("systran_align", "systran-align", fast_align),
    "eflomal": ("eflomal", "eflomal", eflomal),
}


def _read_links(file: Path, count: int) -> list[frozenset[Link]]:
    with file.open(encoding="utf-8") as lines:
        return [parse_links(line) for line, _ in zip(lines, range(count), strict=False)]


def _symmetrised(
    forward: Sequence[Collection[Link]], backward: Sequence[Collection[Link]], method: Method
) -> Alignments:
    import numpy as np

    from seqloom.statistical.alignment.symmetrise import symmetrise_links

    found = []
    for sides in zip(forward, backward, strict=True):
        size = 1 + max((place for side in sides for link in side for place in link), default=0)
        masks = np.zeros((2, 1, size, size), dtype=np.bool_)
        for mask, side in zip(masks, sides, strict=True):
            for i, j in side:
                mask[0, i, j] = True
        found.append(np.argwhere(symmetrise_links(masks[0], masks[1], method)[0]).tolist())
    return found


def table(results: Sequence[Result], gold: Sequence[Gold]) -> Iterator[str]:
    """Yield the lines of a Markdown table, in percent."""
    kept = [i for i in range(len(gold)) if not _for_development(i)]
    yield "| system | links | AER | precision | recall | AER of 410 | seconds |"
    yield "|---|---|---|---|---|---|---|"
    for system, method, links, seconds in results:
        score = score_alignment(links, gold)
        unseen = score_alignment([links[i] for i in kept], [gold[i] for i in kept])
        shares = [f"{100 * share:.1f}" for share in (score.aer, score.precision, score.recall, unseen.aer)]
        yield f"| {system} | {method} | {' | '.join(shares)} | {seconds:.0f} |"


def _for_development(pair: int) -> bool:
    return pair % 12 == 6


def main() -> None:
    """Run the selected systems and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the files of the other systems")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[*MODELS, *PEERS], default=[*MODELS, *PEERS])
    given = parser.parse_args()
    folder = find_data(os.environ)
    pairs, gold = list(read_pairs(folder)), read_gold(folder)
    given.work.mkdir(parents=True, exist_ok=True)
    for name, between in (("pairs.txt", " ||| "), ("pairs.tsv", "\t")):
        with (given.work / name).open("w", encoding="utf-8") as file:
            file.writelines(f"{' '.join(source)}{between}{' '.join(target)}\n" for source, target in pairs)
    models = [model for model in reversed(MODELS) if model in given.only]
    results = list(ours(pairs, len(gold), given.threads, models))
    for name in (name for name in PEERS if name in given.only):
        module, package, peer = PEERS[name]
        if importlib.util.find_spec(module):
            print(f"{package} {importlib.metadata.version(package)}", file=sys.stderr)
            results += peer(pairs, len(gold), given.work)
        else:
            print(f"{package} is not installed: skipped", file=sys.stderr)
    print(f"{datetime.date.today()}, {len(pairs):,} pairs, {given.threads} threads\n")
    print("\n".join(table(results, gold)))


if __name__ == "__main__":
    run_command(main)
