"""The example of docs/guides/new-architecture.md passes the contract suite, run as the page describes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "README.md", "src", "tests/conftest.py", "tests/contracts", "tests/support")


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs" / "guides" / "new-architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, page: str) -> Path:
    """A copy of the repository with the example as one more file in models/."""
    folder: Path = tmp_path_factory.mktemp("checkout")
    for name in NEEDED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (folder / "src" / "seqloom" / "models" / "mean.py").write_text(code, encoding="utf-8")
    return folder


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module with the code of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=checkout, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_example_passes_the_contract_suite(checkout: Path, page: str) -> None:
    (arguments,) = re.findall(r"^\.venv/bin/pytest (tests/contracts .*)$", page, flags=re.MULTILINE)
    done = run(checkout, "pytest", *arguments.split(), "-p", "no:cacheprovider", "-rA")
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.findall(r"^PASSED .*\[(mean-\w+)", done.stdout, flags=re.MULTILINE)
    assert {"mean-shared", "mean-separate", "mean-odd"} <= set(passed)


def test_the_example_is_listed_trained_and_used_by_its_name(checkout: Path, tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "run"
    pairs.write_text("".join(f"{n} {n + 1}\t{n + 1} {n}\n" for n in range(40)), encoding="utf-8")
    short = ("--set", "train.max_steps=2", "--set", "search.longest=5")
    assert "Mean of the source as fixed context" in run(checkout, "seqloom", "models", "--json").stdout
    done = run(
        checkout,
        "seqloom",
        "train",
        str(pairs),
        "--model",
        "mean",
        "--plan",
        "fixed",
        "--out",
        str(out),
        *short,
    )
    assert done.returncode == 0, done.stderr
    done = run(checkout, "seqloom", "translate", str(out), str(pairs), "--nbest", "2")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 80
