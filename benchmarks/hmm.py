"""Hidden Markov models: comparison with hmmlearn, spoken digits, and part-of-speech tagging.

    python benchmarks/hmm.py                        hmmlearn and seqloom, same initial model, same data
    python benchmarks/hmm.py --digits runs/digits   one model per digit; folds as in benchmarks/digits.py
    python benchmarks/hmm.py --tags runs/tags       part-of-speech tags, 900 training and 100 test sentences

The comparison samples its sequences from a random model. hmmlearn runs without priors, so both compute plain
EM. hmmlearn uses one thread; seqloom is timed with one and with two. `--json FILE` writes the results as JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import data_folder, run_command
from digits import FOLDS, SPEAKERS, find_clips, run, write_tables
from machine import describe
from torch import Tensor

from seqloom import SeqloomError
from seqloom.run.config import compose
from seqloom.run.load import load
from seqloom.run.train import train
from seqloom.statistical.hmm.gaussian import Gaussians
from seqloom.statistical.hmm.model import Hmm
from seqloom.statistical.hmm.starts import chain_start, gaussian_start

STATES = 5
SHAPES = ((1, 13), (1, 39), (4, 13), (4, 39))  # mixture components per state, features per frame
THREADS = (1, 2)
TRAINED = 900  # training sentences of the treebank; the others are the test set


@dataclass(frozen=True)
class Time:
    """Wall-clock and CPU time; the latter depends little on other load."""

    wall: float
    processor: float

    @classmethod
    def of(cls, work: Callable[[], Any]) -> tuple[Time, Any]:
        """Return the time of a function call and its result."""
        wall, processor = time.perf_counter(), time.process_time()
        found = work()
        return cls(time.perf_counter() - wall, time.process_time() - processor), found


@dataclass(frozen=True)
class Race:
    """seqloom and hmmlearn on the same sequences with the same initial model."""

    mixtures: int
    features: int
    frames: int
    iterations: int
    log_likelihood: float  # before the last iteration
    difference: float  # relative, to hmmlearn
    hmmlearn: Time
    ours: dict[int, Time]  # by number of threads

    def line(self) -> str:
        """Return a row of the table."""
        kind = f"mixture of {self.mixtures}" if self.mixtures > 1 else "Gaussian"
        alone = self.ours[THREADS[0]]
        ratios = [self.hmmlearn.processor / alone.processor]
        ratios += [self.hmmlearn.wall / self.ours[threads].wall for threads in THREADS]
        return (
            f"| {kind}, {self.features} features | {self.hmmlearn.processor:.1f} s | {alone.processor:.2f} s | "
            f"{' | '.join(f'{ratio:.1f}' for ratio in ratios)} | {self.log_likelihood:,.0f} | "
            f"{self.difference:.1e} |"
        )


HEAD = (
    "| emissions | hmmlearn, CPU time | seqloom, 1 thread | ratio | wall-clock ratio | with 2 threads "
    "| log-likelihood | relative difference |\n|---|---|---|---|---|---|---|---|"
)


def draw(count: int, mixtures: int, features: int) -> list[Tensor]:
    """Return sequences of 20 to 100 frames, sampled from a random model with persistent states."""
    random = torch.Generator().manual_seed(1)
    shape = (STATES, mixtures, features)
    means = torch.randn(shape, generator=random, dtype=torch.float64)
    start, uniform = chain_start(STATES, "ergodic")
    transition = 0.4 * uniform + 0.6 * torch.eye(STATES, dtype=torch.float64)
    weights = torch.full(shape[:2], 1 / mixtures, dtype=torch.float64)
    emission = Gaussians.of(weights, means, torch.ones_like(means), torch.zeros(features))
    model = Hmm(start, transition, emission)
    lengths = torch.randint(20, 101, (count,), generator=random).tolist()
    return [model.sample(length, random)[1] for length in lengths]


def hmmlearn_model(model: Hmm, iterations: int) -> Any:
    """Return an hmmlearn model with the same parameters, without priors."""
    from hmmlearn.hmm import GMMHMM, GaussianHMM

    emission = model.emission
    assert isinstance(emission, Gaussians)
    options = {"covariance_type": "diag", "n_iter": iterations, "tol": -np.inf, "init_params": ""}
    if emission.weights.shape[1] == 1:
        other = GaussianHMM(STATES, covars_prior=0.0, covars_weight=0.0, **options)
        other.means_, other.covars_ = emission.means[:, 0].numpy(), emission.covariances[:, 0].numpy()
    else:
        other = GMMHMM(*emission.weights.shape, **options)
        other.weights_, other.means_ = emission.weights.numpy(), emission.means.numpy()
        other.covars_ = emission.covariances.numpy()
    other.startprob_, other.transmat_ = model.start.numpy(), model.transition.numpy()
    return other


def race(count: int, mixtures: int, features: int, iterations: int) -> Race:
    """Run both, one after the other. Our time includes packing the sequences."""
    sequences = draw(count, mixtures, features)
    random = torch.Generator().manual_seed(2)
    model = gaussian_start(sequences[:200], STATES, random, mixtures=mixtures, floor=0.0)
    ours, last = {}, 0.0
    for threads in THREADS:
        torch.set_num_threads(threads)
        ours[threads], fit = Time.of(lambda: model.fit(sequences, iterations=iterations, tolerance=-1.0))
        last = fit.history[-1]
    other, flat = hmmlearn_model(model, iterations), torch.cat(sequences).numpy()
    hmmlearn, _ = Time.of(lambda: other.fit(flat, [len(one) for one in sequences]))
    difference = abs(last - other.monitor_.history[-1]) / abs(last)
    return Race(mixtures, features, len(flat), iterations, last, difference, hmmlearn, ours)


def races(count: int, iterations: int) -> list[dict[str, Any]]:
    """Print the table and return its rows."""
    print(HEAD)
    found = []
    for mixtures, features in SHAPES:
        found.append(race(count, mixtures, features, iterations))
        print(found[-1].line(), flush=True)
    return [asdict(one) for one in found]


def digits(folder: Path, size: str) -> list[dict[str, Any]]:
    """Return accuracy by fold; print also the mean over new speakers."""
    clips, rows = find_clips(os.environ), []
    for fold in FOLDS:
        tables = write_tables(clips, fold, folder / "data")
        values = {"data.train": str(tables["train"]), "data.valid": str(tables["valid"])}
        config = compose(None, {"model.name": "hmm-classifier", "model.size": size, **values})
        rows.append({"fold": fold, "size": size, **run(config, folder / f"{fold}-{size}", tables["test"])})
        print(rows[-1], flush=True)
    new = [row["exact"] for row in rows if row["fold"] in SPEAKERS]
    print(f"new speakers: mean accuracy {sum(new) / len(new):.1f} %")
    return rows


def sentences(environment: Mapping[str, str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and part-of-speech tags of every sentence of the treebank."""
    path = data_folder(environment) / "treebank" / "pud-english.conllu.gz"
    if not path.is_file():
        raise SeqloomError(
            f"Treebank not found: {path}.", "Set SEQLOOM_DATA to the folder that contains treebank/."
        )
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    for block in text.strip().split("\n\n"):
        fields = [line.split("\t") for line in block.splitlines() if line[0].isdigit()]
        words = [field for field in fields if field[0].isdigit()]  # not 3-4 (multiword) or 3.1 (empty)
        yield [word[1] for word in words], [word[3] for word in words]


def tags(folder: Path) -> dict[str, float]:
    """Return the tagging accuracy of the HMM and of the most frequent tag of each word."""
    rows = list(sentences(os.environ))
    learned, tested = rows[:TRAINED], rows[TRAINED:]
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "train.tsv"
    table.write_text(
        "".join(f"{' '.join(words)}\t{' '.join(row)}\n" for words, row in learned), encoding="utf-8"
    )
    train(table, out=folder / "run", model="hmm", quiet=True)
    translator = load(folder / "run")
    outputs = [best[0].text.split() for best in translator.translate([" ".join(words) for words, _ in tested])]
    seen, every = dict[str, Counter[str]](), Counter[str]()
    for words, row in learned:
        for word, tag in zip(words, row, strict=True):
            seen.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    usual = [[seen.get(word, every).most_common(1)[0][0] for word in words] for words, _ in tested]
    right = [tag for _, row in tested for tag in row]
    new = [word not in seen for words, _ in tested for word in words]
    figures: dict[str, float] = {"words": len(right), "new_words": sum(new)}
    for name, guessed in (("hmm", outputs), ("most_frequent_tag", usual)):
        hits = [one == two for one, two in zip([tag for row in guessed for tag in row], right, strict=True)]
        figures[name] = 100 * float(np.mean(hits))
        figures[f"{name}_new_words"] = 100 * float(
            np.mean([hit for hit, is_new in zip(hits, new, strict=True) if is_new])
        )
    print(json.dumps(figures, indent=2))
    return figures


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--sequences", type=int, default=2000, help="for the comparison (default: %(default)s)")
    parser.add_argument("--iterations", type=int, default=5, help="of EM (default: %(default)s)")
    parser.add_argument("--digits", type=Path, metavar="FOLDER", help="spoken digits; folder for the runs")
    parser.add_argument("--size", default="small", help="model size for --digits (default: %(default)s)")
    parser.add_argument("--tags", type=Path, metavar="FOLDER", help="part-of-speech tags; folder for the run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    return parser.parse_args()


def main() -> None:
    options = parse()
    found: Any
    if options.digits:
        found = digits(options.digits, options.size)
    elif options.tags:
        found = tags(options.tags)
    else:
        found = races(options.sequences, options.iterations)
    if options.json:
        machine = asdict(describe(torch.get_num_threads(), torch.__version__))
        options.json.write_text(json.dumps({"machine": machine, "found": found}, indent=2) + "\n")


if __name__ == "__main__":
    run_command(main)
