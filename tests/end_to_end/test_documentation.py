"""Every block of Python and of shell in README, CONTRIBUTING and docs runs, in the order of its page.

A page has a folder with small files under the names that it uses. Runs that it does not train itself are copies
of the runs in tests/golden. Trainings are cut to a few steps (TRAIN_OPTIONS, SHORTENED); what does not run is
listed with its reason (NOT_RUN).
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow
import pytest
import yaml
from pyarrow import parquet

from seqloom import __version__
from support.fork_server import Shell, fork_server
from support.golden import GOLDEN, golden_run

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/index.md",
    *(
        str(page.relative_to(ROOT))
        for page in sorted((ROOT / "docs").glob("*/*.md"))
        if page.parent.name != "labs"  # generated: see tests/unit/test_lab_pages.py
    ),
]
# Languages of blocks that run, and of those that are only shown.
RUN, SHOWN = ("bash", "console", "python"), ("yaml", "json", "js", "", "{toctree}", "{eval-rst}")

# Added to every `seqloom train`.
TRAIN_OPTIONS = [
    *("--set", "model.size=tiny", "--set", "train.max_steps=2", "--set", "train.batch_tokens=300"),
    *("--set", "train.threads=1", "--set", "search.longest=40"),  # a model that has learned nothing never ends
]
# What is replaced in blocks, because it would take minutes.
SHORTENED = {
    '"train.max_minutes": 10': '"train.max_steps": 2',
    "--count 20000": "--count 200",
    "--count 1000 ": "--count 50 ",
    "restarts=3": "restarts=1",
    "--layer 4 --head 4": "--layer 1 --head 2",
    "head -1014": "head -8",
    "--trials 20 --steps 2000": "--trials 2 --steps 2 --size tiny --set search.longest=10",
    "seqloom lab run all": "seqloom lab run mask",
    "--minutes 20": "--set train.max_steps=2",
}

_MINUTES = "takes minutes"
_BENCHMARK = "measures for minutes; tests/unit/benchmarks runs its parts"
_MAKE = "sets up an environment"
_SERVER = "needs a server; see tests/unit/serve"
_LAB = "tests/contracts/test_labs.py runs every lab"
_NOTES_WITH_LABS = ("from-seq2seq-to-transformer", "lectures-6-7-9", "self-attention")
_RECORDINGS = "needs recordings and their features; see test_speech.py"
# By page how a block begins that does not run, or a line of it, and why.
NOT_RUN: dict[str, dict[str, str]] = {
    "README.md": {"make demo": _MAKE},
    "CONTRIBUTING.md": {"make setup": _MAKE, ".venv/bin/": "needs a checkout with its environment"},
    "docs/guides/documents.md": {"pip install --no-deps": "downloads packages and trains for an hour"},
    "docs/reference/architecture.md": {"class StepModel(Protocol)": "a part of types.py"},
    "docs/guides/data.md": {"seqloom data get": "downloads; see tests/unit/data/test_datasets.py"},
    "docs/guides/comparing.md": {
        "seqloom compare": "trains in several processes; see tests/unit/cli/test_compare.py",
        "zcat eng-deu.tsv.gz": "needs Tatoeba, and minutes",
    },
    "docs/start/first-model.md": {"seqloom demo": f"{_MINUTES}; see tests/unit/test_demo.py"},
    "docs/start/install.md": {"make setup": _MAKE, "python -m venv": _MAKE},
    "docs/ladder/hmm.md": {"seqloom train train.en": "needs Multi30k, and minutes"},
    "docs/ladder/rnn.md": {"seqloom train train.en": "needs Multi30k, and minutes"},
    "docs/ladder/long-inputs.md": {"python benchmarks/": _BENCHMARK},
    "docs/guides/marian.md": {"MarianMTModel": "needs transformers and a model of the hub"},
    "docs/reference/performance.md": {"python benchmarks/": _BENCHMARK},
    "docs/reference/recall.md": {"cd benchmarks": _BENCHMARK},
    "docs/guides/new-architecture.md": {".venv/bin/pytest tests/contracts": "see test_new_architecture.py"},
    "docs/guides/scaling.md": {
        "seqloom train pairs.tsv --out runs/mine --processes": "several processes; see test_distributed.py",
    },
    "docs/reference/results.md": {
        "seqloom data get": "downloads Multi30k and trains for 50 minutes",
        "seqloom train --source train.en.gz": "needs Multi30k, and minutes",
        "for part in train val": "needs Multi30k, and half an hour",
        "D=data/multi30k": "needs Multi30k, and ten minutes",
        "python benchmarks/": _BENCHMARK,
    },
    "docs/reference/scale.md": {"python benchmarks/": _BENCHMARK},
    "docs/reference/statistical.md": {"python benchmarks/": _BENCHMARK},
    "docs/reference/scan.md": {"seqloom train train_simple": "needs SCAN, and minutes; see test_recipes.py"},
    "docs/reference/security.md": {"pytest tests/fuzz": "is part of the tests"},
    "docs/guides/serving.md": {
        "pip install": "a server does not end; see test_serve.py",
        "curl": _SERVER,
        "from libretranslatepy": _SERVER,
    },
    "docs/guides/speech.md": {
        "pip install": _RECORDINGS,
        "import seqloom": _RECORDINGS,
    },
    "docs/guides/studio.md": {
        "pip install": "starts a server; see tests/unit/studio and tests/browser",
        "seqloom studio runs/lstm-last": "starts a server; see tests/unit/studio and tests/browser",
    },
    "docs/reference/survival.md": {"seqloom data make": "kills a process; see test_kill_and_resume.py"},
    **{f"docs/guides/{page}.md": {"python benchmarks/": _BENCHMARK} for page in ("tasks", "techniques")},
    **{f"docs/notes/{page}.md": {"seqloom lab run": _LAB} for page in _NOTES_WITH_LABS},
    "docs/guides/training.md": {"seqloom train --config recipes/": "needs Multi30k, and minutes"},
}
# Runs that a page uses but does not train.
RUNS = {
    "runs/mine": "transformer",
    "runs/first": "transformer",
    "runs/tiny": "transformer",
    "runs/numbers": "transformer",
    "runs/x": "transformer",
    "runs/untrusted": "transformer",
    "runs/attention": "lstm",
    "runs/bottleneck": "prefix-lm",
    "runs/hmm": "hmm",
    "runs/lm": "lm",
    "runs/lstm-lm": "lstm-lm",
    "runs/mlm": "mlm",
    "runs/reverse": "transformer",
    "runs/teacher": "transformer",
    "runs/teacher-2": "lstm",
}
MISSING = {"runs/missing"}  # and is meant to be
# A block of Python that a page calls by this name later.
SAVED_AS = {"docs/guides/new-architecture.md": "my_model.py"}


class Block(NamedTuple):
    """A piece of code of a page."""

    language: str
    code: str

    def without(self, beginnings: Sequence[str]) -> Block:
        """What is left of the block: nothing if it begins in one of these ways, else the other lines."""
        begins = tuple(beginnings)
        if self.code.startswith(begins):
            return self._replace(code="")
        lines = self.code.replace("\\\n", " ").splitlines(keepends=True)
        return self._replace(code="".join(line for line in lines if not line.startswith(begins)))

    def script(self, file: Path) -> str:
        """What a shell runs; Python is written to the file."""
        code = self.code
        for long, short in SHORTENED.items():
            code = code.replace(long, short)
        if self.language == "bash":
            return code
        if self.language == "console":
            return "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
        file.write_text(code, encoding="utf-8")
        return f"python {file.name}"

    def trained(self) -> list[str]:
        """The runs that the block makes, also in a loop over models."""
        loops = re.findall(r"for model in (.*); do", self.code)
        models = [f"runs/{model}" for loop in loops for model in loop.split()]
        return [*re.findall(r'(?:--out |out=")(runs/[\w-]+)', self.code), *models]


FENCED = r"^```(?P<language>\w*|{[\w-]+})\n(?P<code>.*?)^```$"
INDENTED = r"(?<=\n\n)(?P<indented>    (?:seqloom|python) .*\n(?:    .*\n)*)"


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page between fences, and those that are indented and begin with a command."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in re.finditer(f"{FENCED}|{INDENTED}".replace(".*?", r"[\s\S]*?"), text, flags=re.MULTILINE):
        if found["indented"]:
            yield Block("bash", re.sub(r"^    ", "", found["indented"], flags=re.MULTILINE))
        else:
            yield Block(found["language"], found["code"])


def run_blocks(page: str) -> list[Block]:
    """The blocks of a page that run, without what is listed as not run.

    Blocks of Python without a shell between them are one session, as for a reader.
    """
    found: list[Block] = []
    for block in (one.without([*NOT_RUN.get(page, {})]) for one in blocks(page) if one.language in RUN):
        if block.language == "python" and found and found[-1].language == "python":
            block = Block("python", f"{found.pop().code}\n{block.code}")
        found.append(block)
    return [block for block in found if block.code]


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with fork_server(TRAIN_OPTIONS) as started:
        yield started


@pytest.mark.parametrize("page", [page for page in PAGES if run_blocks(page)])
def test_the_blocks_of_a_page_run(page: str, shell: Shell, tmp_path: Path) -> None:
    found = run_blocks(page)
    write_files(tmp_path, page)
    trained = {run for block in found for run in block.trained()}
    used = {run for block in found for run in re.findall(r"runs/[\w-]+", block.code)}
    for run in used - trained - MISSING:
        shutil.copytree(golden_run(RUNS[run]), tmp_path / run, symlinks=True)
    for block in found:
        for run in block.trained():  # an earlier block may have shown another way to make it
            shutil.rmtree(tmp_path / run, ignore_errors=True)
        done = shell.run(block.script(tmp_path / SAVED_AS.get(page, "block.py")), tmp_path, timeout=120)
        assert done.returncode == 0, f"{block.code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_every_block_runs_or_is_listed_with_a_reason() -> None:
    for page in PAGES:
        assert {block.language for block in blocks(page)} <= {*RUN, *SHOWN}, page
    for page, reasons in NOT_RUN.items():
        lines = [line for block in blocks(page) for line in block.code.splitlines()]
        for beginning in reasons:
            assert any(line.startswith(beginning) for line in lines), f"{page} has no {beginning!r} any more"


def _copies(folder: Path) -> None:
    """The corpora of the golden runs, and the same under the names of the pages."""
    shutil.copytree(GOLDEN / "data", folder / "data")
    text = {name: (GOLDEN / "data" / name).read_text(encoding="utf-8") for name in SAME}
    for name, others in SAME.items():
        for other in others:
            (folder / other).write_text(text[name], encoding="utf-8")


# By file of the golden corpora the names that pages have for such a file.
SAME = {
    "pairs.tsv": ["train.tsv", "clean.tsv", "en-de.tsv", "en-is.tsv", "words.tsv", "general.tsv"],
    "test.tsv": ["test.tsv", "valid.tsv", "val.tsv", "dev.tsv"],
    "text.txt": ["text.txt", "target.txt", "english.txt", "german.txt", "test.txt", "valid.txt"],
    "words.txt": ["input.txt", "lines.txt"],
    "lines.tsv": ["begun.tsv"],
    "tagged.tsv": ["tagged.tsv"],
    "clips.tsv": ["clips.tsv"],
}


def write_files(folder: Path, page: str) -> None:
    """The files that pages use."""
    _copies(folder)
    pairs = [line.split("\t") for line in (folder / "train.tsv").read_text(encoding="utf-8").splitlines()]
    twice = [*pairs, *pairs]  # one page looks at line 211
    _write(folder / "pairs.tsv", ["\t".join(pair) for pair in twice])
    _write(folder / "gold.txt", ["1-1 2-2"] * len(twice))
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{a}</seg></tuv><tuv xml:lang="de"><seg>{b}</seg></tuv></tu>'
        for a, b in pairs
    )
    _write(folder / "memory.tmx", [f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'])
    entries = (line for a, b in pairs for line in (f'msgid "{a}"', f'msgstr "{b}"', ""))
    (folder / "locale" / "de" / "LC_MESSAGES").mkdir(parents=True)
    _write(folder / "locale" / "de" / "LC_MESSAGES" / "django.po", list(entries))
    _write(folder / "tickets.csv", ["id,english,german", *(f"{i},{a},{b}" for i, (a, b) in enumerate(pairs))])
    _write(folder / "new.csv", ["id,english", "1,the cat sees the dog ."])
    _write(folder / "test.csv", ["id,en", "1,the cat sees the dog ."])
    (folder / "clean.tsv.gz").write_bytes(gzip.compress((folder / "clean.tsv").read_bytes()))
    (folder / "web").mkdir()
    columns = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs]}
    parquet.write_table(pyarrow.table(columns), folder / "web" / "part.parquet")
    if page == "docs/guides/syntax.md":
        _write_trees(folder, pairs)
    if page == "docs/guides/evaluation.md":
        _write_references(folder, pairs[:8])


def _write_references(folder: Path, pairs: list[list[str]]) -> None:
    """Sources with two references each, in files and in columns."""
    _write(folder / "test.en", [source for source, _ in pairs])
    for number in (1, 2):
        _write(folder / f"test.de.{number}", [target for _, target in pairs])
    _write(folder / "references.tsv", [f"{source}\t{target}\t{target}" for source, target in pairs])


def _write_trees(folder: Path, pairs: list[list[str]]) -> None:
    """Pairs whose sources have trees, as a column and as CoNLL-U: every word hangs on the one before it."""

    def heads(source: str) -> str:
        return " ".join(map(str, range(len(source.split()))))

    def sentence(source: str) -> list[str]:
        words = enumerate(source.split())
        return [*(f"{i + 1}\t{word}" + "\t_" * 4 + f"\t{i}" + "\t_" * 3 for i, word in words), ""]

    for name, part in (("train", pairs), ("test", pairs[:8]), ("input", pairs[:2])):
        _write(folder / f"{name}.conllu", [line for source, _ in part for line in sentence(source)])
        _write(folder / f"{name}.de", [target for _, target in part])
    for name, part in (("pairs", pairs), ("test", pairs[:8])):
        _write(folder / f"{name}.tsv", [f"{source}\t{target}\t{heads(source)}" for source, target in part])
    _write(folder / "input.tsv", [f"{source}\t{heads(source)}" for source, _ in pairs[:2]])


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8")):
            if "://" not in target:
                assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_generated_pages_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "docs" / "generate.py", tmp_path], check=True)
    written = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.iterdir()}
    for name, text in written.items():
        committed = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
        assert text == committed, f"docs/reference/{name} is out of date: run `python docs/generate.py`"
    assert written.keys() == {"options.md", "cli.md"}


def test_every_page_is_in_the_sidebar() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = [
        line
        for tree in re.findall(r"^```{toctree}\n(.*?)^```", index, re.MULTILINE | re.DOTALL)
        for line in tree.splitlines()
    ]
    pages = {page for page in PAGES if page.startswith("docs/") and page != "docs/index.md"}
    assert sorted(
        f"docs/{line}.md" for line in listed if line and not line.startswith((":", "labs/"))
    ) == sorted(pages)


def test_the_citation_names_the_current_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
