"""What executes or overwrites at a stranger's word does not pass the linter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def faults(code: str, name: str = "src/seqloom/example.py") -> str:
    """What the repository's own rules say of a file with this content."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise"]
    done = subprocess.run(
        [*command, "--stdin-filename", name, "-"],
        input=code,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import torch\n\ntorch.load('x')\n",
        "from torch import load\n\nload('x')\n",
        "import torch\n\ntorch.save({}, 'x')\n",
        "import pickle\n\npickle.loads(b'')\n",
        "from pickle import loads\n\nloads(b'')\n",
        "import marshal\n\nmarshal.loads(b'')\n",
        "import shelve\n\nshelve.open('x')\n",
        "import dill\n\ndill.loads(b'')\n",
        "import joblib\n\njoblib.load('x')\n",
        "import yaml\n\nyaml.load('x', Loader=yaml.Loader)\n",
        "import yaml\n\nyaml.unsafe_load('x')\n",
        "import tarfile\n\ntarfile.open('x').extractall()\n",
        "import shutil\n\nshutil.unpack_archive('x')\n",
        "eval('1')\n",
    ],
    ids=lambda code: code.strip().splitlines()[-1],
)
def test_it_is_refused(code: str) -> None:
    found = faults(code)
    assert any(rule in found for rule in ("TID251", "S202", "S301", "S302", "S307", "S506")), found


def test_what_is_safe_passes() -> None:
    code = "import json\n\nimport yaml\n\nyaml.safe_load('x')\njson.loads('1')\n"
    assert "All checks passed" in faults(code)
