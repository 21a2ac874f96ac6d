"""Public names of every package: they exist, `dir` shows them, and they are imported on first use."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import seqloom
from support.commands import run_python

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python-api.md"

PACKAGES = ("seqloom", *(f"seqloom.{name}" for name in ("data", "evaluate", "inspect", "models", "nn", "text")))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_exists_and_is_shown(name: str) -> None:
    package = importlib.import_module(name)
    assert package.__all__ == sorted(package.__all__)
    assert [one for one in package.__all__ if one != "__version__"] == [
        one for one in dir(package) if not one.startswith("__")
    ]
    for public in package.__all__:
        assert getattr(package, public) is not None


@pytest.mark.parametrize("name", PACKAGES[1:])
def test_no_public_name_hides_a_module(name: str) -> None:
    package = importlib.import_module(name)
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(package.__all__)


@pytest.mark.parametrize("name", PACKAGES)
def test_another_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'trian'"):
        _ = importlib.import_module(name).trian


def test_the_functions_of_the_readme_are_public() -> None:
    assert {"train", "load", "SeqloomError", "nn", "models"} <= set(dir(seqloom))


@pytest.mark.parametrize(
    "name", ["seqloom", "seqloom.data", "seqloom.evaluate", "seqloom.text", "seqloom.inspect"]
)
def test_importing_a_package_does_not_import_torch(name: str) -> None:
    code = f"import sys, {name}; print('torch' in sys.modules)"
    assert run_python(code) == "False\n"


def test_packages_and_star_imports_work_after_importing_seqloom() -> None:
    code = (
        "import seqloom; seqloom.nn.Cell('lstm'); from seqloom import *; from seqloom.nn import *; load, Cell"
    )
    run_python(code)


@pytest.mark.parametrize("name", PACKAGES)
def test_the_page_lists_exactly_the_public_names(name: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(name)}` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == importlib.import_module(name).__all__


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    run_python(code, folder=tmp_path)
    assert (tmp_path / "runs" / "reverse" / "config.yaml").is_file()
