"""The linter rejects code that executes or overwrites files on behalf of untrusted data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULES = {"TID251", "S202", "S301", "S302", "S307", "S506"}
REFUSED = [
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
]
SAFE = "import json\n\nimport yaml\n\nyaml.safe_load('x')\njson.loads('1')\n"


def test_unsafe_calls_are_refused_and_safe_ones_pass(tmp_path: Path) -> None:
    for number, code in enumerate([SAFE, *REFUSED]):
        (tmp_path / f"case_{number}.py").write_text(code)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=json"]
    options = ["--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    found: dict[str, set[str]] = {}
    for fault in json.loads(done.stdout):
        found.setdefault(Path(fault["filename"]).stem, set()).add(fault["code"])
    assert "case_0" not in found
    missed = [code for number, code in enumerate(REFUSED, 1) if not RULES & found.get(f"case_{number}", set())]
    assert missed == []
