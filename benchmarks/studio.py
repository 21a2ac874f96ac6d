"""Speed of the studio in a browser, and size of its files.

    python benchmarks/studio.py RUN [--text TEXT] [--repeats 5] [--bertviz PYTHON] [--json out.json]

RUN is a small run that translates. Documents that a small model cannot give are made here: 6 x 8 heads of 60 x
60 and of 256 x 256 weights, one head of 512 x 512, and the search tree of beam 10 over 60 steps. They are drawn
by the self-contained file, with the modules of the studio. Times end at the second animation frame after the
picture is there, so they include painting. `--bertviz` is the interpreter of an environment with BertViz, whose
`head_view` gets the same weights; only the bytes are compared: its file loads three libraries from the network.

Needs playwright and chromium: make .venv/.installed-browser.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from machine import describe
from playwright.sync_api import Browser, Page, sync_playwright

import seqloom
from seqloom.inspect.heads import HeadAttention
from seqloom.inspect.page import self_contained
from seqloom.inspect.searchtree import Node, SearchTree, Survival

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

LIMITS = {  # milliseconds
    "command to usable page": 5000,
    "page of a running studio": 500,
    "key press to output, beyond the model": 100,
    "forced token to output, beyond the model": 100,
    "6 x 8 heads, 60 tokens": 500,
    "change of head": 50,
    "one head, 512 x 512": 1000,
    "pointer to highlight, 512 x 512": 50,
    "search tree, beam 10, 60 steps": 1000,
    "one step of the slider": 50,
    "6 x 8 heads, 256 tokens": 0,  # no limit: it has to work
}
# Runs an action and returns the milliseconds until the frame after the one in which `ready` holds.
_TIMED = """async ([action, ready]) => {
  const start = performance.now();
  await new Function(`return (async () => { ${action} })()`)();
  const done = new Function(`return ${ready}`);
  while (!done()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
_BERTVIZ = """
import json, sys, numpy as np, torch
from bertviz import head_view
weights = torch.tensor(np.load(sys.argv[1]))
names = [f"word{i}" for i in range(weights.shape[-1])]
page = head_view(cross_attention=[one.unsqueeze(0) for one in weights], encoder_tokens=names,
                 decoder_tokens=names, html_action="return").data
print(len(page.encode()))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", default="four hundred and sixty-seven thousand, three hundred and twenty-one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--bertviz", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in LIMITS}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-background-networking"]
        )
        for _ in range(options.repeats):
            _measure_command(browser, options.run, options.text, times)
            _measure_files(browser, Path(folder), times)
        browser.close()
        sizes = _sizes(Path(folder), options.bertviz)
    result = {
        "times": {name: statistics.median(values) for name, values in times.items()},
        "slowest": {name: max(values) for name, values in times.items()},
        "limits": LIMITS,
        "bytes": sizes,
        "machine": vars(describe(1, "cpu")),
    }
    for name, values in times.items():
        limit = f"{LIMITS[name]:,}" if LIMITS[name] else "works"
        print(f"{name:45} {statistics.median(values):8,.0f} ms   at most {limit}")
    print(sizes)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


def _measure_command(browser: Browser, run: Path, text: str, times: dict[str, list[float]]) -> None:
    start = time.perf_counter()
    with _running(run, text) as studio:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(studio.address)
        page.wait_for_selector(".output.best")
        times["command to usable page"].append(1000 * (time.perf_counter() - start))
        again = page.context.new_page()
        begin = time.perf_counter()
        again.goto(studio.address)
        again.wait_for_selector("#source")
        times["page of a running studio"].append(1000 * (time.perf_counter() - begin))
        again.close()
        fields: dict[str, Any] = {"run": run.resolve().name, "text": f"{text} "}
        spent = _timed(
            page,
            "const one = document.querySelector('#source'); "
            f"one.value = {json.dumps(fields['text'])};"
            "one.dispatchEvent(new Event('input', {bubbles: true}));",
            "document.querySelector('main').getAttribute('aria-busy') === 'false'",
        )
        fields["text"] += " "
        model, document = _request_time(lambda: studio.document("translation", fields))
        times["key press to output, beyond the model"].append(spent - model)
        page.wait_for_selector("main[aria-busy=false]")
        page.click("[data-place='0-0']")
        page.wait_for_selector(".alternatives .pick")
        spent = _timed(
            page,
            "document.querySelectorAll('.alternatives .pick')[1].click();",
            "document.querySelector('.token.forced') && document.querySelector('.change')",
        )
        second = studio.document("alternatives", {**fields, "count": 2})["alternatives"][1]["token"]
        forced = {**fields, "prefix_tokens": [second]}
        model, document = _request_time(lambda: studio.document("translation", forced))
        assert document["hypotheses"]
        times["forced token to output, beyond the model"].append(spent - model)
        page.context.close()


@dataclass(frozen=True)
class _Studio:
    """A running studio."""

    address: str

    def document(self, view: str, fields: dict[str, Any]) -> Any:
        """Return the document of a view."""
        parts = urlsplit(self.address)
        token = parse_qs(parts.query)["token"][0]
        headers = {"Cookie": f"seqloom-studio-{parts.port}={token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
        connection.request("POST", f"/api/{view}", json.dumps(fields), headers)
        return json.loads(connection.getresponse().read())


@contextmanager
def _running(run: Path, text: str) -> Iterator[_Studio]:
    command = [sys.executable, "-m", "seqloom", "studio", str(run), "--text", text, "--port", "0", "--no-open"]
    process = subprocess.Popen([*command, "--threads", "1"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield _Studio(process.stdout.readline().split()[-1])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _request_time(ask: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = ask()
    return 1000 * (time.perf_counter() - start), found


def _timed(page: Page, action: str, ready: str) -> float:
    found: float = page.evaluate(_TIMED, [action, ready])
    return found


def _measure_files(browser: Browser, folder: Path, times: dict[str, list[float]]) -> None:
    heads = _opened(
        browser, _file(folder, "heads", _attention(6, 8, 60)), ".heatmap", times, "6 x 8 heads, 60 tokens"
    )
    spent = _timed(heads, "document.querySelectorAll('.thumb')[9].click();", "true")
    times["change of head"].append(spent)
    heads.context.close()
    large = _opened(
        browser, _file(folder, "large", _attention(1, 1, 512)), ".heatmap", times, "one head, 512 x 512"
    )
    point = (
        "const map = document.querySelector('.heatmap'), box = map.getBoundingClientRect();"
        "const at = {clientX: box.left + 200, clientY: box.top + 200, bubbles: true};"
        "map.dispatchEvent(new PointerEvent('pointermove', at));"
    )
    times["pointer to highlight, 512 x 512"].append(_timed(large, point, "document.querySelector('.mark')"))
    large.context.close()
    tree = _opened(
        browser, _file(folder, "tree", _tree(10, 60)), ".tree", times, "search tree, beam 10, 60 steps"
    )
    slide = (
        "const one = document.querySelector('input[type=range]');"
        "one.value = '59'; one.dispatchEvent(new Event('input', {bubbles: true}));"
    )
    times["one step of the slider"].append(_timed(tree, slide, "true"))
    tree.context.close()
    long = _opened(
        browser, _file(folder, "long", _attention(6, 8, 256)), ".heatmap", times, "6 x 8 heads, 256 tokens"
    )
    long.context.close()


def _opened(browser: Browser, file: Path, ready: str, times: dict[str, list[float]], name: str) -> Page:
    page = browser.new_context(offline=True, viewport={"width": 1440, "height": 900}).new_page()
    start = time.perf_counter()
    page.goto(file.as_uri())
    page.wait_for_selector(ready)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    times[name].append(1000 * (time.perf_counter() - start))
    return page


def _file(folder: Path, name: str, found: HeadAttention | SearchTree) -> Path:
    path = folder / f"{name}.html"
    if not path.exists():
        path.write_text(self_contained(json.loads(json.dumps(found.to_dict())), name), encoding="utf-8")
        if isinstance(found, HeadAttention):
            np.save(folder / f"{name}.npy", found.weights)
    return path


def _attention(layers: int, heads: int, length: int) -> HeadAttention:
    random = np.random.default_rng(1)
    scores = np.exp(3 * random.standard_normal((layers, heads, length, length)))
    names = tuple(f"word{i}" for i in range(length))
    return HeadAttention(names, names, scores / scores.sum(axis=-1, keepdims=True))


def _tree(beam: int, steps: int) -> SearchTree:
    """Return a tree with the shape of a search: 10 kept and 20 pruned hypotheses at each step."""
    nodes = [Node(0, None, 0, 0, "", 0.0, 0.0, 0.0, 1, "start", winner=True)]
    kept = [0]
    attention = tuple(1 / steps for _ in range(steps))
    for length in range(1, steps + 1):
        added = []
        for rank in range(1, 3 * beam + 1):
            fate = "kept" if rank <= beam else "pruned"
            parent = kept[(rank * 7) % len(kept)] if rank > 1 else kept[0]
            total = -0.3 * length - 0.1 * rank
            node = Node(
                len(nodes), parent, 0, length, f"word{rank}", -0.3, total, total / length, rank, fate, attention
            )
            nodes.append(node if rank > 1 else Node(**{**vars(node), "winner": True}))
            added += [node.id] if fate == "kept" else []
        kept = added
    survival = tuple(Survival(length, "word1", 1, 0.5) for length in range(1, steps + 1))
    names = tuple(f"word{i}" for i in range(steps))
    return SearchTree("source", "output", True, -1.0, names, beam, 1, tuple(nodes), survival)


def _sizes(folder: Path, bertviz: Path | None) -> dict[str, int]:
    found = {"seqloom, 6 x 8 heads, 60 tokens": (folder / "heads.html").stat().st_size}
    found["seqloom, 6 x 8 heads, 256 tokens"] = (folder / "long.html").stat().st_size
    if bertviz:
        done = subprocess.run(
            [bertviz, "-c", _BERTVIZ, folder / "heads.npy"], capture_output=True, text=True, check=True
        )
        found["BertViz, 6 x 8 heads, 60 tokens"] = int(done.stdout.split()[-1])
    return found


if __name__ == "__main__":
    print(f"seqloom {seqloom.__version__}")
    main()
