"""A virtual environment for a peer: built once, then used again."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass, field
from pathlib import Path

from seqloom.errors import SeqloomError


@dataclass(frozen=True)
class Environment:
    """What to install for a peer, beside the torch release that seqloom itself runs on."""

    name: str
    package: str
    version: str
    requirements: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()  # modules that it imports but does not need here: empty ones will do
    torch: str = field(default_factory=lambda: importlib.metadata.version("torch").split("+")[0])

    def python(self, environments: Path) -> str:
        """The interpreter of this environment, which is built first unless it stands already."""
        folder = environments / self.name
        interpreter, ready = folder / "bin" / "python", folder / "ready.json"
        recipe = json.dumps(asdict(self), sort_keys=True)
        if not ready.is_file() or ready.read_text(encoding="utf-8") != recipe:
            print(f"setting up {self.package} {self.version} in {folder} (once)", file=sys.stderr)
            self._build(folder, interpreter)
            ready.write_text(recipe, encoding="utf-8")
        return str(interpreter)

    def _build(self, folder: Path, interpreter: Path) -> None:
        venv.create(folder, clear=True, with_pip=True)
        torch = f"torch=={self.torch}"
        self._pip(interpreter, torch)
        # The peer's own pins would bring an older torch; its other requirements are named one by one.
        self._pip(interpreter, "--no-deps", f"{self.package}=={self.version}")
        self._pip(interpreter, torch, *self.requirements)
        for module in self.stubs:
            (next(folder.glob("lib/python*/site-packages")) / f"{module}.py").touch()

    def _pip(self, interpreter: Path, *arguments: str) -> None:
        command = [str(interpreter), "-m", "pip", "install", "--quiet", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SeqloomError(
                f"{self.package} could not be installed: pip ended with {done.returncode}.\n{done.stderr}",
                "see that pip can reach a package index, or leave this peer out by --only",
            )
