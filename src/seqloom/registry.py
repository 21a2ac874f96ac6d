"""The one dict of architectures.

A file in models/ or statistical/ registers itself when it is imported. A file of the user does so as well: in
Python by `import my_model`, on the command line by `--import my_model.py`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal, get_args

from seqloom.errors import SeqloomError, require_known, unknown
from seqloom.settings import ModelSettings

# Packages whose every module is imported when the registry is asked: adding an architecture is one file.
FAMILIES = ("seqloom.models", "seqloom.statistical")


# What a model is for: to give a target to a source, to continue a text (or a source), to fill gaps in a text.
Task = Literal["translate", "continue", "fill"]


@dataclass(frozen=True)
class Architecture:
    """A model that can be chosen by name."""

    name: str
    summary: str  # one line: what it is
    paper: str  # where it comes from
    settings: type[ModelSettings]
    build: Callable[..., object]  # build(settings, vocabularies) -> a SequenceModel or a CountingModel
    overrides: Mapping[str, Any] = field(default_factory=dict)  # a preset: its fields, before the user's
    task: Task = "translate"
    fitted: bool = False  # fitted at once by counting or EM, not trained by gradient
    defaults: Mapping[str, Any] = field(default_factory=dict)  # dotted options of other sections, likewise
    home: str | None = None  # the file or module of the user that registers it; None: it is part of seqloom

    @property
    def file_name(self) -> str | None:
        """The name of the user's file that registers it, without its folder."""
        return Path(self.home).name if self.home and self.home.endswith(".py") else None


class UnknownModel(SeqloomError):
    """The error for the name of a model that is not registered."""


_ARCHITECTURES: dict[str, Architecture] = {}
_IMPORTED: set[Path] = set()  # files of the user that have been executed


def register(
    name: str,
    *,
    summary: str,
    paper: str,
    settings: type[ModelSettings],
    overrides: Mapping[str, Any] | None = None,
    task: Task = "translate",
    fitted: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a model class (or a builder) available under a name.

    A file of the user may register its own name again, as a notebook does when a cell is run twice.
    """
    require_known("task", task, get_args(Task))
    home = _home(sys._getframe(1).f_globals)

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        known = _ARCHITECTURES.get(name)
        if known and (home is None or known.home != home):
            raise SeqloomError(
                f"There are two models called {name!r}, one of them in {home or known.home or 'seqloom'}.",
                "choose another name",
            )
        _ARCHITECTURES[name] = Architecture(
            name, summary, paper, settings, build, overrides or {}, task, fitted, defaults or {}, home
        )
        return build

    return add


def _home(namespace: Mapping[str, Any]) -> str | None:
    """Return the file, or else the module, that a namespace belongs to; None if it is part of seqloom."""
    module = str(namespace["__name__"])
    if module.startswith("seqloom."):
        return None
    file = namespace.get("__file__")
    return os.path.realpath(file) if file else module


def import_file(path: str | Path) -> None:
    """Execute a Python file of the user, once, so that the models it registers are known.

    Nothing calls this but the user's own request: a run directory never leads here.
    """
    file = Path(path).resolve()
    if file in _IMPORTED:
        return
    name = f"seqloom_import_{file.stem}"
    if not file.is_file():
        raise SeqloomError(f"There is no file {path} to import.", "check the path after --import")
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SeqloomError(f"{path} is not a Python file.", "--import needs a file that ends in .py")
    sys.modules[name] = module = module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # it may import files beside it
    try:
        spec.loader.exec_module(module)
    except SeqloomError:
        raise
    except Exception as error:
        lines = [
            step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename == str(file)
        ]
        where = f" in line {lines[-1]}" if lines else ""  # a syntax error has its line in its text
        raise SeqloomError(
            f"{path} cannot be imported: {type(error).__name__}{where}: {error}.",
            f"python {path} prints the whole traceback",
        ) from error
    _IMPORTED.add(file)


def architectures(*, fitted: bool | None = None) -> dict[str, Architecture]:
    """Every registered architecture by name; or only those that are, or are not, fitted by counting."""
    for family in FAMILIES:
        for module in pkgutil.walk_packages(importlib.import_module(family).__path__, f"{family}."):
            importlib.import_module(module.name)
    known = sorted(_ARCHITECTURES.items())
    return {name: entry for name, entry in known if fitted in (None, entry.fitted)}


def architecture(name: str) -> Architecture:
    """Return the architecture of that name, or raise an error that lists the nearest ones."""
    known = architectures()
    if name not in known:
        error = unknown("model", name, known)
        raise UnknownModel(error.message, f"{error.hint}; a model in a file of your own needs --import FILE")
    return known[name]
