"""The commands and the Python of README and docs run as they stand there, for a few steps."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.data.tasks import generate

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/getting-started.md"]
# Long by nature, or in need of a network: these are covered by tests of their own.
ELSEWHERE = ("seqloom demo", "seqloom data get")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(page: str) -> list[str]:
    lines = [line.partition("  #")[0].strip() for block in blocks(page, "bash") for line in block.splitlines()]
    return [line for line in lines if "seqloom " in line and not line.startswith(ELSEWHERE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("documentation")
    examples = list(generate("copy", 300, seed=3))
    for name, part in (("pairs.tsv", examples), ("test.tsv", examples[:20])):
        (folder / name).write_text("".join(f"{e.source}\t{e.target}\n" for e in part), encoding="utf-8")
    (folder / "input.txt").write_text("1 2 3\n\n4 5\n", encoding="utf-8")
    (folder / "bin").mkdir()
    command = folder / "bin" / "seqloom"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m seqloom "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    found = commands(page)
    assert any("train" in line for line in found) and any("translate" in line for line in found)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for line in found:
        if line.startswith("seqloom train"):
            line += " --set train.max_steps=2 --set model.width=16 --set model.ffn=16"
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_python_of_getting_started_runs(folder: Path) -> None:
    (code,) = blocks("docs/getting-started.md", "python")
    code = code.replace("runs/first", "runs/python").replace('"train.max_minutes": 10', '"train.max_steps": 2')
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_architecture_passes_as_described(folder: Path) -> None:
    """CONTRIBUTING's model is trained and used by name, from one file and nothing else."""
    (code,) = blocks("CONTRIBUTING.md", "python")
    use = """
import seqloom
short = {"train.max_steps": 2}
translator = seqloom.train("pairs.tsv", out="runs/mean", model="mean", size="tiny", settings=short)
assert [len(found) for found in translator.translate(["1 2", "3"], nbest=2)] == [2, 2]
"""
    (folder / "mean.py").write_text(code + use, encoding="utf-8")
    done = subprocess.run([sys.executable, "mean.py"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_link_between_pages_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_of_options_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import generate; print(generate.page(), end='')"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
    )
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert done.stdout == page, "run `make docs`"
