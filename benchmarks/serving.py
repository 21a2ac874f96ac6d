"""Servers under load: started, loaded by another process, and checked against offline translations."""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from http_load import LOST, Row

from seqloom.decode.select import load_translator
from seqloom.decode.translator import Translator
from seqloom.document.translation import DocumentOptions
from seqloom.errors import SeqloomError
from seqloom.files import SUMS, write_sums

_HERE = Path(__file__).parent
_START_SECONDS = 180.0
SOURCE, TARGET = "en", "de"


@dataclass
class Served:
    """A server process."""

    name: str
    port: int
    process: subprocess.Popen[bytes]

    def processor_seconds(self) -> float:
        """Return the processor time of the process and its workers so far."""
        ticks = 0
        for one in self._pids():
            fields = Path(f"/proc/{one}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _pids(self) -> list[str]:
        pid = str(self.process.pid)
        return [pid, *Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    def resident_bytes(self) -> int:
        """Return the memory of the process and its workers."""
        pages = [int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1]) for one in self._pids()]
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")


def seqloom_command(run: Path, port: int) -> list[str]:
    """Return the command of our server."""
    return [sys.executable, "-m", "seqloom", "serve", f"{SOURCE}-{TARGET}={run}", "--port", str(port)]


def plain_command(run: Path, port: int) -> list[str]:
    """Return the command of the plain server."""
    return [sys.executable, str(_HERE / "plain_server.py"), str(run), str(port)]


@contextmanager
def started(
    name: str,
    command: Sequence[str],
    port: int,
    log: Path,
    ready: str = "/ready",
    variables: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """Run a server until the block ends."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(variables or {})}
        )
    try:
        _wait_until_ready(name, process, f"http://127.0.0.1:{port}{ready}", log)
        yield Served(name, port, process)
    finally:
        process.terminate()
        try:
            process.wait(40)
        finally:
            process.kill()


def _wait_until_ready(name: str, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise SeqloomError(f"{name} does not start.", f"see {log}")


def free_port() -> int:
    """Return a port that nothing uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Outcome:
    """Result of a load."""

    rows: list[Row]
    wrong: int  # responses with another output than offline
    per_request: int  # sentences
    processor_seconds: float  # of the server

    @property
    def processor_ms(self) -> float:
        """Processor time of the server per sentence, which depends little on other programs."""
        return 1e3 * self.processor_seconds / (len(self.good) * self.per_request)

    @property
    def good(self) -> list[Row]:
        """Requests with code 200."""
        return [row for row in self.rows if row.status == 200]

    @property
    def lost(self) -> int:
        """Number of requests without a response."""
        return sum(row.status == LOST for row in self.rows)

    @property
    def sentences_per_second(self) -> float:
        """Sentences of good responses per second."""
        return len(self.good) * self.per_request / max(row.end for row in self.rows)

    def milliseconds(self, quantile: float) -> float:
        """Return a quantile of the time of good responses."""
        return quantile_of([1e3 * row.seconds for row in self.good], quantile)


def quantile_of(values: Sequence[float], quantile: float) -> float:
    """Return a quantile of values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]


@dataclass
class Bench:
    """A model, its offline translations, and a folder for files."""

    run: Path
    work: Path
    lines: list[str]
    translator: Translator = field(init=False)
    expected: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.translator = load_translator(self.run, "auto", scores=False)
        outputs = [one[0] for one in self.translator.translate(self.lines)]
        # A server returns the white space of the source: that of an unfinished output is removed.
        self.expected = {line: one.text.strip() for line, one in zip(self.lines, outputs, strict=True)}

    def bodies(self, per_request: int = 1) -> list[list[str]]:
        """Return the lines in groups of this size."""
        ends = range(per_request, len(self.lines) + 1, per_request)
        return [self.lines[end - per_request : end] for end in ends]

    def load(self, server: Served, per_request: int = 1, **options: float) -> Outcome:
        """Load a server with `options` of `http_load.Task`, and compare its outputs."""
        groups = self.bodies(per_request)
        fields = {"source": SOURCE, "target": TARGET}
        requests = [
            ("/translate", json.dumps({"q": group[0] if per_request == 1 else group, **fields}))
            for group in groups
        ]
        before = server.processor_seconds()
        rows = send(self.work, {"port": server.port, "requests": requests, **options})
        spent = server.processor_seconds() - before
        if not any(row.status == 200 for row in rows):
            raise SeqloomError(
                f"{server.name} answers no request.", f"code {rows[0].status}: {rows[0].content[:200]}"
            )
        wrong = 0
        for row in rows:
            if row.status == 200:
                found = json.loads(row.content)["translatedText"]
                outputs = [one.strip() for one in (found if isinstance(found, list) else [found])]
                wrong += outputs != [self.expected[line] for line in groups[row.request]]
        return Outcome(rows, wrong, per_request, spent)


def send(work: Path, task: Mapping[str, object]) -> list[Row]:
    """Send requests from another process; return its rows."""
    task_file, result_file = work / "task.json", work / "result.json"
    task_file.write_text(json.dumps(task), encoding="utf-8")
    subprocess.run([sys.executable, str(_HERE / "http_load.py"), str(task_file), str(result_file)], check=True)
    return [Row(*row) for row in json.loads(result_file.read_text(encoding="utf-8"))]


def with_beam(run: Path, beam: int, out: Path) -> Path:
    """Return a copy of a run or an export with another default beam size."""
    if out.exists():
        return out
    shutil.copytree(run, out, symlinks=True)
    file = out / "config.yaml"
    tree = yaml.safe_load(file.read_text(encoding="utf-8"))
    tree.setdefault("search", {})["beam"] = beam
    file.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    if (out / SUMS).is_file():
        write_sums(out)
    return out


def one_segment(lines: Sequence[str]) -> list[str]:
    """Return the lines that are one sentence, which servers translate as a whole, as the command line does."""
    options, found = DocumentOptions(language=SOURCE), []
    for line in dict.fromkeys(lines):
        segments = options.parse(line).segments
        if len(segments) == 1 and segments[0].source == line:
            found.append(line)
    return found


def usual_length(lines: Sequence[str], translator: Translator) -> list[str]:
    """Return the lines whose output has a usual length; a hardly trained model repeats itself in others."""
    outputs = [one[0].text for one in translator.translate(lines)]
    return [
        line
        for line, output in zip(lines, outputs, strict=True)
        if len(output.split()) <= 1.3 * len(line.split()) + 2
    ]


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)
