"""Registry of the model architectures.

A module of models/ or statistical/ registers its architectures when it is imported. Looking up a name imports
only the module that registers it. A user's file registers its models the same way: in Python by
`import my_model`, on the command line by `--import my_model.py`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Literal

from seqloom.errors import SeqloomError, require_known, unknown
from seqloom.settings import ModelSettings

# Packages whose modules register architectures. Adding one takes one file: there is no list of modules.
FAMILIES = ("seqloom.models", "seqloom.statistical")

# Command that a run is made for.
Use = Literal["translate", "generate", "fill"]


@dataclass(frozen=True)
class Task:
    """Purpose of a model, and what follows from it for data, training and commands.

    The module of an architecture may define a task of its own: `register(..., task=Task("name", ...))`.
    """

    name: str
    model: str = ""  # architecture if only the task is named
    learns_text: bool = False  # from plain text, unless the data is pairs
    use: Use = "translate"  # of a model of pairs
    text_use: Use = "translate"  # of a model of plain text
    noise: str = "none"  # data.noise.kind if the user gives none
    noises: frozenset[str] = frozenset({"none", "mask", "infill"})  # kinds that the model can learn with
    in_place: bool = False  # targets are the masked tokens, at their positions
    reads_frames: bool = False  # sources may be feature files
    planned: bool = False  # the planner has rules for it
    metrics: str = "bleu,chrf"  # of evaluation, if the user names none
    writes_vectors: bool = False  # targets are arrays instead of text
    keeps_words: bool = False  # the words of a source must not change, because each has a target
    mismatch: Callable[[int, int], str | None] | None = None  # fault of a pair with these numbers of words


TRANSLATE = Task("translate", reads_frames=True, planned=True)  # map a source to a target
CONTINUE = Task("continue", model="lm", learns_text=True, text_use="generate")  # continue a text (or a source)
FILL = Task(  # fill the gaps in a text
    "fill",
    model="mlm",
    learns_text=True,
    use="fill",
    text_use="fill",
    noise="mask",
    noises=frozenset({"mask"}),
    in_place=True,
)
TASKS = {task.name: task for task in (TRANSLATE, CONTINUE, FILL)}


@dataclass(frozen=True)
class Architecture:
    """Model architecture that can be selected by name."""

    name: str
    summary: str  # one line
    paper: str  # reference to the publication
    settings: type[ModelSettings]
    build: Callable[..., object]  # build(settings, vocabularies) -> a SequenceModel or a FittedModel
    overrides: Mapping[str, Any] = field(
        default_factory=dict
    )  # settings of a preset; the user's settings take precedence
    task: Task = TRANSLATE
    fitted: bool = False  # by counting or EM instead of gradient descent
    defaults: Mapping[str, Any] = field(
        default_factory=dict
    )  # dotted options of other sections; same precedence
    home: str | None = None  # user's file or module that registers it; None: part of seqloom

    @property
    def file_name(self) -> str | None:
        """Name of the user's file that registers the architecture, without its directory."""
        return Path(self.home).name if self.home and self.home.endswith(".py") else None


class UnknownModel(SeqloomError):
    """Error for a model name that is not registered."""


_ARCHITECTURES: dict[str, Architecture] = {}
_IMPORTED: set[Path] = set()  # user files that have been executed


def register(
    name: str,
    *,
    summary: str,
    paper: str,
    settings: type[ModelSettings],
    overrides: Mapping[str, Any] | None = None,
    task: Task | str = TRANSLATE,
    fitted: bool = False,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a model class (or a function that builds one) under a name.

    `task` is a Task, or the name of one in TASKS. A user's file may register the same name again, as a notebook
    does when a cell is run twice.
    """
    if isinstance(task, str):
        require_known("task", task, TASKS)
        task = TASKS[task]
    home = _home(sys._getframe(1).f_globals)
    if home is not None:
        _import_home(name)  # to detect a clash with an architecture of seqloom that is not imported yet

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        known = _ARCHITECTURES.get(name)
        if known and (home is None or known.home != home):
            raise SeqloomError(
                f"There are two models called {name!r}, one of them in {home or known.home or 'seqloom'}.",
                "choose another name for your model",
            )
        _ARCHITECTURES[name] = Architecture(
            name, summary, paper, settings, build, overrides or {}, task, fitted, defaults or {}, home
        )
        return build

    return add


def _home(namespace: Mapping[str, Any]) -> str | None:
    """Return the file of a namespace (or its module if there is no file); None if it is part of seqloom."""
    module = str(namespace["__name__"])
    if module.startswith("seqloom."):
        return None
    file = namespace.get("__file__")
    return os.path.realpath(file) if file else module


def import_file(path: str | Path) -> None:
    """Execute a user's Python file, once, so that the models it registers are known.

    Called only at the user's explicit request (--import): loading a run directory never executes a file.
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
        sys.path.append(str(file.parent))  # it may import modules from its own directory
    try:
        spec.loader.exec_module(module)
    except SeqloomError:
        raise
    except Exception as error:
        lines = [
            step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename == str(file)
        ]
        where = f" in line {lines[-1]}" if lines else ""  # the text of a syntax error includes its line
        raise SeqloomError(
            f"{path} cannot be imported: {type(error).__name__}{where}: {error}.",
            f"python {path} prints the full traceback",
        ) from error
    _IMPORTED.add(file)


def imported_files() -> list[Path]:
    """Return the user's files that `import_file` has executed, for a process that needs the same models."""
    return sorted(_IMPORTED)


def architectures(*, fitted: bool | None = None) -> dict[str, Architecture]:
    """Return all registered architectures by name, or only those that are (not) fitted by counting or EM."""
    for family in FAMILIES:
        for module in pkgutil.walk_packages(importlib.import_module(family).__path__, f"{family}."):
            importlib.import_module(module.name)
    known = sorted(_ARCHITECTURES.items())
    return {name: entry for name, entry in known if fitted in (None, entry.fitted)}


def architecture(name: str) -> Architecture:
    """Return the architecture of this name; if it is unknown, raise an error that suggests similar names."""
    _import_home(name)
    known = _ARCHITECTURES if name in _ARCHITECTURES else architectures()
    if name not in known:
        error = unknown("model", name, known)
        raise UnknownModel(error.message, f"{error.hint}; for a model in your own file, use --import FILE")
    return known[name]


def _import_home(name: str) -> None:
    """Import the module of seqloom that registers the name, if it can be found in the sources.

    This saves time only: a name that is not found, such as one composed at run time, needs `architectures`.
    """
    if name not in _ARCHITECTURES:
        for module in _modules_mentioning(name):
            importlib.import_module(module)
            if name in _ARCHITECTURES:
                return


def _modules_mentioning(name: str) -> list[str]:
    """Return the modules that register architectures and contain the name as a string, likeliest first.

    The name is an argument of `register` or, for presets that are registered in a loop, anywhere in the module.
    """
    literal = rf"""["']{re.escape(name)}["']"""
    sources = _registering_sources()
    direct = [module for module, text in sources.items() if re.search(rf"\bregister\(\s*{literal}", text)]
    return direct or [module for module, text in sources.items() if re.search(literal, text)]


@cache
def _registering_sources() -> dict[str, str]:
    """Return the source of each module in FAMILIES that calls `register`; {} if only byte code is installed."""
    root = Path(__file__).parent
    found = {}
    for family in FAMILIES:
        for file in sorted(root.joinpath(*family.split(".")[1:]).rglob("*.py")):
            source = file.read_text(encoding="utf-8")
            if re.search(r"\bregister\(", source):
                found[".".join(("seqloom", *file.relative_to(root).with_suffix("").parts))] = source
    return found
