"""n-gram models: perplexity by order, speed and memory on a million sentences, comparison with KenLM.

    python benchmarks/ngram.py --out x.png --json x.json [--sentences 1000000] [--kenlm]

Data is read from SEQLOOM_DATA or ../shared/data. Perplexity is computed on the tokenised English validation
captions of Multi30k, per word including the ends of sentences; words outside the training captions count as one
unknown word. The million sentences are sampled with replacement from the English sides of Tatoeba and Multi30k,
with every tenth word replaced by a random one so that n-grams do not simply repeat. `--kenlm` also scores with
KenLM (pip install kenlm), using the ARPA file that seqloom writes. Times are CPU times of one thread, so that
other load on the machine matters little.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from command import add_figure_options, data_folder, run_command
from machine import describe

from seqloom.errors import SeqloomError
from seqloom.inspect.picture import PAGE, Style, canvas, legend_below, save_figure
from seqloom.statistical.ngram.arpa import write_arpa
from seqloom.statistical.ngram.tables import Ngrams
from seqloom.types import UNK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDERS = (1, 2, 3, 4, 5)
PRUNES: dict[str, tuple[int, ...]] = {"all": (), "0 0 1": (0, 0, 1)}
NOISE = 0.1  # share of replaced words in the million sentences
ROWS = 64  # distributions computed per call, as in a batched search
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]

Rows = list[list[int]]


@dataclass(frozen=True)
class Words:
    """Training and validation text as ids, and the vocabulary."""

    names: list[str]
    rows: Rows
    held_out: Rows


@dataclass(frozen=True)
class Fit:
    """A model of the captions."""

    order: int
    prune: str
    perplexity: float
    ngrams: int
    seconds: float


@dataclass(frozen=True)
class Large:
    """A model of the million sentences."""

    prune: str
    sentences: int
    tokens: int  # including the ends of sentences
    vocabulary: int
    ngrams: int
    seconds: float
    tokens_per_second: float
    before_mb: float  # peak resident set before estimation: Python, torch and the ids
    peak_mb: float


@dataclass(frozen=True)
class Speed:
    """Microseconds per query."""

    first: float  # log_prob of a word, first query of its context
    again: float  # the same, repeated
    distribution: float  # log_probs of all words


def lines_of(path: Path, column: int | None = None) -> Iterator[list[str]]:
    """Yield the words of every line, or of one column."""
    if not path.is_file():
        raise SeqloomError(f"Data not found: {path}.", "Set SEQLOOM_DATA to the data folder.")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield (line if column is None else line.split("\t")[column]).lower().split()


def captions(folder: Path) -> Words:
    """Return the training and validation captions."""
    ids = {name: id for id, name in enumerate(SPECIALS)}
    train, valid = (
        folder / "multi30k" / "tokenised" / f"{part}.lc.norm.tok.en.gz" for part in ("train", "val")
    )
    rows = [[ids.setdefault(word, len(ids)) for word in line] for line in lines_of(train)]
    return Words(list(ids), rows, [[ids.get(word, UNK) for word in line] for line in lines_of(valid)])


def sample_sentences(folder: Path, count: int) -> tuple[list[np.ndarray], int]:
    """Return `count` sampled sentences as ids, and the vocabulary size."""
    ids = {name: id for id, name in enumerate(SPECIALS)}
    rows = list[np.ndarray]()
    files = [(folder / "tatoeba" / f"eng-{other}.tsv.gz", 0) for other in ("fra", "deu")]
    for path, column in [*files, (folder / "multi30k" / "tokenised" / "train.lc.norm.tok.en.gz", None)]:
        rows += [np.array([ids.setdefault(w, len(ids)) for w in line]) for line in lines_of(path, column)]
    draw = np.random.default_rng(1)
    words = np.concatenate(rows)
    picked = [rows[i] for i in draw.integers(len(rows), size=count)]
    text = np.concatenate(picked).astype(np.int32)
    noisy = draw.random(len(text)) < NOISE
    text[noisy] = draw.choice(words, int(noisy.sum()))
    return np.split(text, np.cumsum([len(row) for row in picked])[:-1]), len(ids)


def perplexity(model: Ngrams, rows: Rows) -> float:
    scores = [score for row in rows for score in model.score(row)]
    return math.exp(-math.fsum(scores) / len(scores))


def fit(words: Words, order: int, prune: str) -> Fit:
    began = time.process_time()
    model = Ngrams.estimate(words.rows, order=order, vocabulary=len(words.names), prune=PRUNES[prune])
    seconds = time.process_time() - began
    count = sum(map(len, model.levels))
    return Fit(order, prune, perplexity(model, words.held_out), count, seconds)


def peak() -> float:
    """Return the peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1 << 20 if sys.platform == "darwin" else 1 << 10
    )


def large(folder: Path, sentences: int, prune: str) -> Large:
    """Estimate a model of sampled sentences. Run it in a new process to measure its own peak memory."""
    rows, vocabulary = sample_sentences(folder, sentences)
    tokens, before, began = sum(map(len, rows)) + len(rows), peak(), time.process_time()
    model = Ngrams.estimate(rows, order=5, vocabulary=vocabulary, prune=PRUNES[prune])
    seconds = time.process_time() - began
    count = sum(map(len, model.levels))
    return Large(prune, sentences, tokens, vocabulary, count, seconds, tokens / seconds, before, peak())


def speed(words: Words) -> Speed:
    """Time queries for the validation captions with a model of order 5."""
    model = Ngrams.estimate(words.rows, order=5, vocabulary=len(words.names))
    count = sum(len(row) + 1 for row in words.held_out)

    def microseconds_per_word() -> float:
        began = time.process_time()
        for row in words.held_out:
            model.score(row)
        return (time.process_time() - began) / count * 1e6

    first, again = microseconds_per_word(), microseconds_per_word()
    contexts = [tuple(row[:4]) for row in words.held_out]
    began = time.process_time()
    for start in range(0, len(contexts), ROWS):
        model.log_probs(contexts[start : start + ROWS])
    distribution = (time.process_time() - began) / len(contexts) * 1e6
    return Speed(first, again, distribution)


def against_kenlm(words: Words) -> dict[str, Any]:
    """Compare perplexities with KenLM on the same ARPA file, and time its Python module."""
    try:
        import kenlm
    except ImportError as error:
        raise SeqloomError("KenLM is not installed.", "Run: pip install kenlm") from error
    model = Ngrams.estimate(words.rows, order=5, vocabulary=len(words.names), prune=(0, 0, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.arpa"
        write_arpa(path, model.levels, words.names)
        kenlm_model = kenlm.Model(str(path))
    texts = [" ".join(words.names[word] for word in row) for row in words.held_out]
    count = sum(len(row) + 1 for row in words.held_out)
    began = time.process_time()
    scores = [kenlm_model.score(text, bos=True, eos=True) for text in texts]
    seconds = time.process_time() - began
    apart = max(
        abs(sum(model.score(row)) / math.log(10) - score)
        for row, score in zip(words.held_out, scores, strict=True)
    )
    return {
        "ours": perplexity(model, words.held_out),
        "kenlm": 10 ** (-math.fsum(scores) / count),
        "largest_log10_difference_of_a_sentence": apart,
        "kenlm_microseconds": seconds / count * 1e6,
    }


def draw(fits: Sequence[Fit], style: Style = PAGE) -> Figure:
    """Draw perplexity and model size by order, with and without pruning."""
    with canvas(8, 3.8, style=style, title="N-gram models of Multi30k captions by order") as figure:
        left, right = figure.subplots(1, 2)
        for prune, marker in zip(PRUNES, "os", strict=True):
            points = [one for one in fits if one.prune == prune]
            label = "all n-grams" if prune == "all" else f"pruned: [{prune.replace(' ', ',')}]"
            left.plot([p.order for p in points], [p.perplexity for p in points], marker=marker, label=label)
            right.plot([p.order for p in points], [p.ngrams / 1000 for p in points], marker=marker)
        left.set(xlabel="order", ylabel="validation perplexity per word", xticks=ORDERS, yscale="log")
        ticks = (30, 50, 100, 200, 300)
        left.set_yticks(ticks, [str(tick) for tick in ticks])
        left.set_yticks([], minor=True)
        right.set(xlabel="order", ylabel="thousand n-grams", xticks=ORDERS)
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.grid()
        legend_below(figure, left.lines, style)
    return figure


def large_in_new_process(*arguments: Any) -> Large:
    """Run `large` in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(large, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_figure_options(parser, required=True)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="results as JSON")
    parser.add_argument(
        "--sentences",
        type=int,
        default=1_000_000,
        help="for speed and memory (default: %(default)s)",
    )
    parser.add_argument("--kenlm", action="store_true", help="compare with KenLM")
    options = parser.parse_args()
    folder = data_folder(os.environ)
    words = captions(folder)
    found: dict[str, Any] = {"machine": asdict(describe(1, torch.__version__)), "vocabulary": len(words.names)}
    held_out = [word for row in words.held_out for word in row]
    found["unknown_share"] = held_out.count(UNK) / len(held_out)
    fits = [fit(words, order, prune) for prune in PRUNES for order in ORDERS]
    for one in fits:
        print(
            f"order {one.order} ({one.prune}): perplexity {one.perplexity:.2f}, {one.ngrams:,} n-grams",
            flush=True,
        )
    save_figure(draw(fits, options.style), options.out)
    found["fits"], found["speed"] = [asdict(one) for one in fits], asdict(speed(words))
    print(found["speed"], flush=True)
    if options.kenlm:
        found["kenlm"] = against_kenlm(words)
        print(found["kenlm"], flush=True)
    found["large"] = [asdict(large_in_new_process(folder, options.sentences, prune)) for prune in PRUNES]
    print(*found["large"], sep="\n")
    options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
