"""Layers of the package, checked by the imports of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqloom
from support.commands import run_python

PACKAGE = Path(seqloom.__file__).parent
LAYERS = [
    {"errors", "types", "settings", "registry", "files", "limits", "locks", "outputs"}
    | {
        "tensors",
        "system",
        "progress",
        "distributed",
        "lazy",
        "log",
        "strict_json",
        "suggestions",
        "languages",
    },
    {"text", "nn", "evaluate"},
    {"data", "models"},
    {"decode", "training"},
    {"statistical"},
    {"run"},
    {"inspect", "export", "cleaning", "document"},
    {"decode.select"},
    {"compare", "demo", "tune", "distillation", "docstrings", "gettext_corpus", "serve", "studio", "labs"},
    {"cli", "__init__", "__main__"},
]
LAYER = {unit: number for number, units in enumerate(LAYERS) for unit in units}
INDEPENDENT = [("decode", "training"), ("decode", "models"), ("training", "models")]
MODULES = sorted(PACKAGE.rglob("*.py"))


def _unit(module: Path) -> str:
    """Return the package or top-level module of a file; a module with its own layer is a unit too."""
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:2]) if ".".join(parts[:2]) in LAYER else parts[0]


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every imported module; `from seqloom import x` as seqloom.x."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _units(module: Path, *, shared: str = "") -> set[str]:
    """Return the units of seqloom that a module imports, except its own and the module `shared`."""
    found = _imports(ast.parse(module.read_text(encoding="utf-8")))
    names = (name.split(".") for name in found if not (shared and name.startswith(shared)))
    imported = [parts for parts in names if parts[0] == "seqloom" and parts[1:] != ["__version__"]]
    pairs = ((".".join(parts[1:3]), parts[1]) for parts in imported)
    return {pair if pair in LAYER else unit for pair, unit in pairs} - {_unit(module)}


def test_imports_go_down_only() -> None:
    faults = []
    for module in MODULES:
        unit, name = _unit(module), module.relative_to(PACKAGE)
        assert unit in LAYER, f"{unit} has no layer yet: give it one here and in the architecture document"
        faults += [f"{name} imports {one}" for one in _units(module) if LAYER[one] > LAYER[unit]]
        known = _units(module, shared="seqloom.models.base.")  # decoders know the base class, no model
        faults += [f"{name} imports {one}" for one in known if (unit, one) in INDEPENDENT]
    assert faults == []


def test_no_two_parts_of_a_layer_import_each_other() -> None:
    edges = {(_unit(module), imported) for module in MODULES for imported in _units(module)}
    while longer := {(a, d) for a, b in edges for c, d in edges if b == c} - edges:
        edges |= longer
    assert [edge for edge in edges if edge[0] == edge[1]] == []


def test_no_module_has_a_vague_name() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [path for path in PACKAGE.rglob("*") if path.stem in vague] == []


def test_nothing_that_executes_an_untrusted_file_is_used() -> None:
    unsafe = {"pickle", "dill", "joblib", "marshal", "shelve"}
    banned = {"torch.load", "torch.save", "yaml.load", "yaml.unsafe_load", "eval", "exec"}
    for module in MODULES:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        assert not unsafe & {name.split(".")[0] for name in _imports(tree)}, module
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not calls & banned, module


@pytest.mark.parametrize(
    "code",
    [
        "import seqloom; seqloom.SeqloomError",
        "from seqloom.cli.main import app; app(['--help'], standalone_mode=False)",
    ],
    ids=["import", "help"],
)
def test_starting_up_does_not_import_torch(code: str) -> None:
    show = "import sys; print('HEAVY', sorted({'torch', 'numpy', 'sentencepiece'} & set(sys.modules)))"
    assert run_python(f"{code}\n{show}").splitlines()[-1] == "HEAVY []"


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        seqloom.trian  # noqa: B018


def test_the_function_train_is_not_hidden_by_a_module() -> None:
    code = "import seqloom; seqloom.train; seqloom.load; assert callable(seqloom.train), seqloom.train"
    run_python(code)


def test_loading_a_run_does_not_import_the_compiler() -> None:
    """Importing torch._dynamo takes a second, and every command would pay for it."""
    runs = Path(__file__).parents[1] / "golden" / "fixtures"
    code = f"import sys, seqloom; [seqloom.load({str(runs)!r} + name) for name in ('/transformer', '/lstm')]"
    code += "; sys.exit('torch._dynamo' in sys.modules)"
    run_python(code)
