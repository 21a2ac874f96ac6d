"""Speed and BLEU of vocabulary shortlists on the validation pairs of a trained run.

    python benchmarks/shortlist.py RUN [--lists 20:100 50:300] [--repeats 3] [--threads 1] [--json out.json]

A shortlist N:K has N translations of every source token and the K most frequent target tokens, learned from the
training pairs of the run; the run is not changed. The torch engine translates the validation sources greedily
and with beam 5, without a shortlist and with each one in turn, in several rounds: all lines in batches, then
some lines one at a time. The table shows medians. Times are CPU times, which depend little on other load.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from command import run_command
from machine import describe
from rich import box
from rich.console import Console
from rich.table import Table

from seqloom.data.batching import collate_ids
from seqloom.data.corpus import Corpus
from seqloom.decode.pipeline import batches_by_length
from seqloom.decode.shortlist import Shortlist, VocabularySubset
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.evaluate.metrics import evaluate
from seqloom.run.build import load_model
from seqloom.run.directory import Run
from seqloom.statistical.alignment.shortlist import Coverage, coverage, make_shortlist

BEAMS = (1, 5)
_WARMUP = 64  # lines before the clock starts

Sizes = tuple[int, int]  # translations per source token, frequent target tokens


@dataclass(frozen=True)
class Result:
    """Results of one beam size with one shortlist, or with none."""

    sizes: Sizes | None
    beam: int
    union_size: float | None  # mean size of the union of the shortlists in a batch
    bleu: float
    equal: int  # outputs identical to those without a shortlist
    rates: list[float]  # sentences per CPU second, per round
    latencies: list[float]  # median milliseconds of a single line, per round
    gain: float  # ratio to the rate without a shortlist, median over rounds
    gain_alone: float  # the same for latencies


@dataclass(frozen=True)
class Setup:
    """Translators of the same model with different shortlists, and the lines to translate."""

    translators: dict[Sizes | None, TorchTranslator]
    tables: dict[Sizes, Shortlist]
    coverages: dict[Sizes, Coverage]
    lines: list[str]
    references: list[list[str]]


def prepare(folder: Path, lists: Sequence[Sizes], lines: int) -> Setup:
    """Return the translators without and with each shortlist, and the first validation pairs."""
    run = Run.open(folder)
    config = run.config()
    data = Corpus(config.data, config.text).reopen(run.data_record(), run.tokenizers())
    pairs, valid = (
        [(store.source(i), store.target(i)) for i in range(len(store))] for store in (data.store, data.valid)
    )
    examples = list(islice(data.valid_examples(), lines))
    model, tokenizers = load_model(run)
    translators: dict[Sizes | None, TorchTranslator] = {
        None: TorchTranslator(model, tokenizers, config.search)  # type: ignore[arg-type]
    }
    tables, coverages = {}, {}
    for sizes in lists:
        table = make_shortlist(pairs, tokenizers, translations=sizes[0], frequent=sizes[1])
        tables[sizes], coverages[sizes] = table, coverage(table, valid)
        search = config.search.model_copy(update={"shortlist": True})
        translators[sizes] = TorchTranslator(
            model,  # type: ignore[arg-type]
            tokenizers,
            search,
            shortlist=partial(lambda found: found, table),
        )
    references = [[e.target or ""] for e in examples]
    return Setup(translators, tables, coverages, [e.source for e in examples], references)


def union_size(translator: TorchTranslator, table: Shortlist, lines: Sequence[str], beam: int) -> float:
    """Return the mean size of the union of the shortlists in a batch."""
    sources = [translator.tokenizers.source.encode(line) for line in lines]
    search = translator.search.changed(beam, None)
    sizes = []
    lengths = list(map(len, sources))
    for group in batches_by_length(lengths, batch_tokens=search.batch_tokens, rows=search.beam):
        batch = collate_ids([sources[i] for i in group], None, range(len(group)))
        sizes.append(len(VocabularySubset(table.allowed(batch.source)).ids))
    return statistics.mean(sizes)


def measure(setup: Setup, beam: int, repeats: int, alone: int) -> list[Result]:
    """Return the results of all translators, which take turns."""
    rates: dict[Sizes | None, list[float]] = {sizes: [] for sizes in setup.translators}
    latencies: dict[Sizes | None, list[float]] = {sizes: [] for sizes in setup.translators}
    outputs = {}
    for _ in range(repeats):
        for sizes, translator in setup.translators.items():
            translator.translate(setup.lines[:_WARMUP], beam=beam)
            began = time.process_time()
            found = translator.translate(setup.lines, beam=beam)
            rates[sizes].append(len(setup.lines) / (time.process_time() - began))
            latencies[sizes].append(_latency(translator, setup.lines[:alone], beam))
            outputs[sizes] = [best[0].text for best in found]
    plain = setup.translators[None]
    results = []
    for sizes in setup.translators:
        (score,) = evaluate(outputs[sizes], setup.references, "bleu", bootstrap=0)
        results.append(
            Result(
                sizes=sizes,
                beam=beam,
                union_size=union_size(plain, setup.tables[sizes], setup.lines, beam) if sizes else None,
                bleu=score.value,
                equal=sum(map(str.__eq__, outputs[sizes], outputs[None])),
                rates=rates[sizes],
                latencies=latencies[sizes],
                gain=_ratio(rates[sizes], rates[None]),
                gain_alone=_ratio(latencies[None], latencies[sizes]),
            )
        )
    return results


def _latency(translator: TorchTranslator, lines: Sequence[str], beam: int) -> float:
    """Return the median milliseconds of a single line."""
    times = []
    for line in lines:
        began = time.process_time()
        translator.translate([line], beam=beam)
        times.append(1e3 * (time.process_time() - began))
    return statistics.median(times)


def _ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def show(results: Sequence[Result], setup: Setup) -> None:
    """Print one table per beam size."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    for beam in BEAMS:
        table = Table("greedy" if beam == 1 else f"beam {beam}", box=box.MARKDOWN)
        for title in (
            "size",
            "size per batch",
            "coverage",
            "BLEU",
            "equal",
            "sentences/s",
            "gain",
            "single line",
            "gain",
        ):
            table.add_column(title, justify="right")
        for row in (result for result in results if result.beam == beam):
            held = setup.coverages[row.sizes] if row.sizes else None
            table.add_row(
                "full vocabulary" if row.sizes is None else f"{row.sizes[0]}:{row.sizes[1]}",
                "–" if held is None else f"{held.mean_size:,.0f}",
                "–" if row.union_size is None else f"{row.union_size:,.0f}",
                "–" if held is None else f"{100 * held.share:.1f} %",
                f"{row.bleu:.2f}",
                f"{row.equal:,}",
                f"{statistics.median(row.rates):,.0f}",
                f"{row.gain:.2f}",
                f"{statistics.median(row.latencies):.1f} ms",
                f"{row.gain_alone:.2f}",
            )
        console.print(table)


def _sizes(text: str) -> Sizes:
    translations, frequent = map(int, text.split(":"))
    return translations, frequent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--lists", type=_sizes, nargs="+", metavar="N:K", default=[(20, 100), (50, 300)])
    parser.add_argument("--lines", type=int, default=1014, help="validation pairs (default: %(default)s)")
    parser.add_argument(
        "--alone",
        type=int,
        default=100,
        help="lines translated one at a time (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="number of threads (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = describe(options.threads, importlib.metadata.version("torch"))
    setup = prepare(options.run, options.lists, options.lines)
    results = [one for beam in BEAMS for one in measure(setup, beam, options.repeats, options.alone)]
    vocabulary = setup.translators[None].tokenizers.target.size
    print(
        f"{machine.cpu}, threads: {machine.threads}, torch {machine.torch}, {machine.date}; "
        f"{len(setup.lines):,} sentences, vocabulary {vocabulary:,}"
    )
    show(results, setup)
    if options.json:
        report = {
            "machine": asdict(machine),
            "vocabulary": vocabulary,
            "coverage": [{"sizes": sizes, **held.as_dict()} for sizes, held in setup.coverages.items()],
            "results": [asdict(result) for result in results],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_command(main)
