"""Virtual environments for other toolkits, created once and reused."""

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
    """Packages of a toolkit, installed together with the torch version that seqloom uses."""

    name: str
    package: str
    version: str
    requirements: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()  # modules that it imports but does not use here; empty files are created
    torch: str = field(default_factory=lambda: importlib.metadata.version("torch").split("+")[0])

    def python(self, environments: Path) -> str:
        """Return the path of the interpreter; create the environment if necessary."""
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
        # The package pins an older torch, so its other requirements are listed explicitly.
        self._pip(interpreter, "--no-deps", f"{self.package}=={self.version}")
        self._pip(interpreter, torch, *self.requirements)
        for module in self.stubs:
            (next(folder.glob("lib/python*/site-packages")) / f"{module}.py").touch()

    def _pip(self, interpreter: Path, *arguments: str) -> None:
        command = [str(interpreter), "-m", "pip", "install", "--quiet", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            raise SeqloomError(
                f"Cannot install {self.package}: pip exited with code {done.returncode}.",
                "Check that pip can reach a package index, or exclude this toolkit with --only.",
            )
