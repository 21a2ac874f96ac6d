"""Scenarios of `benchmarks/serve.py`: each yields what it measured, with its goal."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from libretranslate_peer import installed
from serving import (
    Bench,
    Outcome,
    Served,
    free_port,
    median,
    plain_command,
    quantile_of,
    send,
    seqloom_command,
    started,
    with_beam,
)

from seqloom.errors import SeqloomError
from seqloom.export.ctranslate2.export import export_ctranslate2


@dataclass(frozen=True)
class Measured:
    """A value of a scenario and what it should be at least, or at most."""

    scenario: str
    what: str
    value: float
    goal: float
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.goal if self.at_most else self.value >= self.goal


@dataclass
class Benchmark:
    """Options, and the models with their engines and beam sizes."""

    options: argparse.Namespace
    work: Path
    run: Path
    lines: list[str]

    def bench(self, engine: str, beam: int) -> Bench:
        """Return the model with an engine and a beam size."""
        run = self.run
        if engine == "int8":
            run = self.options.export or self.work / "int8"
            if not run.exists():
                export_ctranslate2(self.run, run, quantization="int8")
        return Bench(with_beam(run, beam, self.work / f"{engine}-{beam}"), self.work, self.lines)

    def start(self, command: Callable[[Path, int], list[str]], bench: Bench, stack: ExitStack) -> Served:
        """Start a server until the stack ends."""
        port, name = free_port(), command.__name__.removesuffix("_command")
        log = self.work / f"{name}-{port}.log"
        return stack.enter_context(started(name, command(bench.run, port), port, log))

    def rounds(self) -> range:
        """Return the numbers of the rounds."""
        return range(self.options.repeats)

    def plain(self) -> Iterator[Measured]:
        """Compare with the plain server: 32 clients, one sentence per request."""
        for engine, beam, goal in (
            ("default", 1, 4.0),
            ("default", 5, 3.0),
            ("int8", 1, 4.0),
            ("int8", 5, 2.0),
        ):
            bench = self.bench(engine, beam)
            pairs: list[tuple[Outcome, Outcome]] = []
            with ExitStack() as stack:
                ours, plain = (self.start(one, bench, stack) for one in (seqloom_command, plain_command))
                for _ in self.rounds():
                    pair = [bench.load(one, clients=32, seconds=self.options.seconds) for one in (ours, plain)]
                    pairs.append((pair[0], pair[1]))
            name = f"{engine}, beam {beam}"
            rates = [median([pair[i].sentences_per_second for pair in pairs]) for i in (0, 1)]
            tails = [median([pair[i].milliseconds(0.95) for pair in pairs]) for i in (0, 1)]
            ratios = [a.sentences_per_second / b.sentences_per_second for a, b in pairs]
            note = f"{rates[0]:.0f} and {rates[1]:.0f} sentences/s; {min(ratios):.1f}–{max(ratios):.1f}"
            spent = [median([pair[i].processor_ms for pair in pairs]) for i in (0, 1)]
            note += f"; processor time {spent[0]:.1f} and {spent[1]:.1f} ms per sentence"
            yield Measured("plain", f"{name}: speed-up", median(ratios), goal, note=note)
            tail = median([a.milliseconds(0.95) / b.milliseconds(0.95) for a, b in pairs])
            note = f"{tails[0]:.0f} and {tails[1]:.0f} ms"
            yield Measured("plain", f"{name}: p95, relative", tail, 1.0, at_most=True, note=note)
            yield _wrong("plain", f"{name}: wrong outputs", [one for pair in pairs for one in pair])

    def offline(self) -> Iterator[Measured]:
        """Compare with the translator called directly: 64 clients with 1 and 32 sentences."""
        bench = self.bench("default", self.options.beam)
        with ExitStack() as stack:
            ours = self.start(seqloom_command, bench, stack)
            for per_request, goal in ((1, 0.6), (32, 0.9)):
                ratios, rates, directs, outcomes = list[float](), list[float](), list[float](), list[Outcome]()
                for _ in self.rounds():
                    seconds = self.options.seconds * (1 if per_request == 1 else 2)
                    outcomes.append(bench.load(ours, per_request, clients=64, seconds=seconds))
                    began = time.perf_counter()
                    bench.translator.translate(self.lines)
                    directs.append(len(self.lines) / (time.perf_counter() - began))
                    rates.append(outcomes[-1].sentences_per_second)
                    ratios.append(rates[-1] / directs[-1])
                note = f"{median(rates):.0f} and {median(directs):.0f} sentences/s"
                note += f"; {min(ratios):.2f}–{max(ratios):.2f}"
                yield Measured("offline", f"64 clients × {per_request}: share", median(ratios), goal, note=note)
                yield _wrong("offline", f"64 clients × {per_request}: wrong outputs", outcomes)

    def single(self) -> Iterator[Measured]:
        """Compare the time of a request of the only client with a direct call of the translator."""
        for engine in ("default", "int8"):
            bench, differences, served, direct = (
                self.bench(engine, 1),
                list[float](),
                list[float](),
                list[float](),
            )
            with ExitStack() as stack:
                ours = self.start(seqloom_command, bench, stack)
                for _ in self.rounds():
                    outcome = bench.load(ours, clients=1, count=200)
                    called = []
                    for line in self.lines[:200]:
                        began = time.perf_counter()
                        bench.translator.translate([line])
                        called.append(1e3 * (time.perf_counter() - began))
                    served.append(outcome.milliseconds(0.5))
                    direct.append(quantile_of(called, 0.5))
                    differences.append(served[-1] - direct[-1])
            note = f"{median(served):.1f} and {median(direct):.1f} ms"
            what = f"{engine}, greedy: p50 above a direct call, ms"
            yield Measured("single", what, median(differences), 3.0, at_most=True, note=note)

    def overload(self) -> Iterator[Measured]:
        """Send three times the capacity, then a normal load."""
        bench = self.bench("default", 1)
        with ExitStack() as stack:
            ours = self.start(seqloom_command, bench, stack)
            bench.load(ours, clients=32, seconds=2.0)  # warm
            peak = bench.load(ours, clients=64, seconds=self.options.seconds)
            normal = bench.load(ours, clients=8, seconds=self.options.seconds)
            capacity = peak.sentences_per_second
            heavy = bench.load(ours, rate=3 * capacity, seconds=self.options.overload_seconds)
            time.sleep(10)
            after = bench.load(ours, clients=8, seconds=self.options.seconds)
        refused = [1e3 * row.seconds for row in heavy.rows if row.status == 503]
        sent = [row for row in heavy.good if row.end <= self.options.overload_seconds]
        goodput = len(sent) / self.options.overload_seconds / capacity
        note = f"{len(heavy.rows):,} requests: {len(heavy.good):,} good, {len(refused):,} refused"
        yield Measured("overload", "goodput, share of the peak", goodput, 0.9, note=f"peak {capacity:.0f}/s")
        tail = quantile_of(refused, 0.99) if refused else 0.0
        note += f"; median {median(refused or [0.0]):.1f} ms"
        yield Measured("overload", "refusals: p99, ms", tail, 50.0, at_most=True, note=note)
        others = sum(row.status not in (200, 503) for row in heavy.rows)
        yield Measured("overload", "lost or with another error", others, 0, at_most=True)
        yield _wrong("overload", "wrong outputs", [heavy])
        ratio = after.milliseconds(0.95) / normal.milliseconds(0.95)
        note = f"{after.milliseconds(0.95):.0f} and {normal.milliseconds(0.95):.0f} ms"
        yield Measured("overload", "p95 10 s later, relative", ratio, 1.25, at_most=True, note=note)

    def mixed(self) -> Iterator[Measured]:
        """Send requests of all kinds; memory is read after a fifth and at the end."""
        bench = self.bench("default", 1)
        requests = list(mixed_requests(self.lines))
        with ExitStack() as stack:
            ours = self.start(seqloom_command, bench, stack)
            count = self.options.mixed
            task = {"port": ours.port, "requests": requests, "clients": 16}
            rows = send(self.work, {**task, "count": count // 5})
            before = ours.resident_bytes()
            rows += send(self.work, {**task, "count": count - count // 5})
            growth = 100 * (ours.resident_bytes() / before - 1)
        failed = sum(row.status != 200 for row in rows)
        yield Measured("mixed", f"failed of {len(rows):,}", failed, 0, at_most=True)
        note = f"{before / 2**20:.0f} MiB after {count // 5:,} requests"
        yield Measured("mixed", "growth of memory, %", growth, 5.0, at_most=True, note=note)

    def libretranslate(self) -> Iterator[Measured]:
        """Compare with LibreTranslate 1.9.6 that has the same weights."""
        if self.options.libretranslate is None:
            raise SeqloomError("The scenario libretranslate needs its interpreter.", "--libretranslate PYTHON")
        bench = self.bench("default", self.options.beam)
        command, variables = installed(self.options.libretranslate, bench.run, self.work, self.options.beam)
        port = free_port()
        with ExitStack() as stack:
            ours = self.start(seqloom_command, bench, stack)
            log = self.work / "libretranslate.log"
            theirs = stack.enter_context(
                started(
                    "libretranslate", [*command, str(port)], port, log, ready="/languages", variables=variables
                )
            )
            for what, per_request, clients, goal in (
                ("32 clients", 1, 32, 3.0),
                ("one request of 100", 100, 1, 5.0),
            ):
                ratios, rates = list[float](), list[tuple[float, float]]()
                for _ in self.rounds():
                    pair = [
                        bench.load(one, per_request, clients=clients, seconds=self.options.seconds)
                        for one in (ours, theirs)
                    ]
                    rates.append((pair[0].sentences_per_second, pair[1].sentences_per_second))
                    ratios.append(rates[-1][0] / rates[-1][1])
                note = (
                    f"{median([a for a, _ in rates]):.0f} and {median([b for _, b in rates]):.0f} sentences/s"
                )
                if per_request == 1:
                    note += f"; {1 - pair[1].wrong / len(pair[1].good):.0%} of its responses equal ours"
                yield Measured("libretranslate", f"{what}: speed-up", median(ratios), goal, note=note)


def _wrong(scenario: str, what: str, outcomes: list[Outcome]) -> Measured:
    count, wrong = sum(len(one.good) for one in outcomes), sum(one.wrong for one in outcomes)
    failed = sum(len(one.rows) - len(one.good) for one in outcomes)
    note = f"of {count:,} responses" + (f"; {failed:,} not 200" if failed else "")
    return Measured(scenario, what, wrong, 0, at_most=True, note=note)


def mixed_requests(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield requests of all kinds."""
    pair = {"source": "en", "target": "de"}
    for i, line in enumerate(lines):
        others = lines[i : i + 3]
        kinds: list[tuple[str, dict[str, object]]] = [
            ("/translate", {"q": line, **pair}),
            ("/translate", {"q": others, **pair}),
            ("/translate", {"q": f"<p>{line} <b>{others[-1]}</b></p>", "format": "html", **pair}),
            ("/translate", {"q": line, **pair, "alternatives": 2}),
            ("/translate", {"q": f"{line}\n\n{others[-1]}\n", "source": "auto", "target": "de"}),
            ("/detect", {"q": line}),
            ("/v1/translate", {"texts": line, "scores": True, "nbest": 2, "beam": 2}),
            ("/v1/translate", {"texts": line, "beam": 1, "timeout_ms": 30_000}),
            ("/v1/score", {"pairs": [{"source": line, "target": "Ein Mann ."}]}),
            ("/v1/completions", {"model": "en-de", "prompt": line, "max_tokens": 20}),
        ]
        path, body = kinds[i % len(kinds)]
        yield path, json.dumps(body)
