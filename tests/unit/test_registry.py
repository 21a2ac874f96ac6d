from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seqloom import registry
from seqloom.errors import SeqloomError, unknown
from seqloom.registry import architecture, architectures, import_file, register
from seqloom.settings import ModelSettings


def test_all_architectures_are_found() -> None:
    known = architectures()
    assert {"recurrent", "lstm-dot", "transformer"} <= known.keys()
    assert list(known) == sorted(known)
    for name, entry in known.items():
        assert entry.name == name
        assert entry.summary
        assert entry.paper
        assert "tiny" in entry.settings.SIZES


def test_every_size_of_every_architecture_is_valid() -> None:
    for name, entry in architectures().items():
        for size in entry.settings.SIZES:
            settings = entry.settings.model_validate({**entry.overrides, "name": name, "size": size})
            assert (settings.name, settings.size) == (name, size)


def test_a_similar_name_is_suggested() -> None:
    with pytest.raises(SeqloomError, match="no model called 'transfomer'") as caught:
        architecture("transfomer")
    assert caught.value.hint.startswith("did you mean 'transformer'?")
    assert "--import FILE" in caught.value.hint


def test_without_a_similar_name_all_are_listed() -> None:
    with pytest.raises(SeqloomError) as caught:
        architecture("xyzzy")
    assert "recurrent" in caught.value.hint
    assert "transformer" in caught.value.hint


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ARCHITECTURES", {})
    add = register("toy", summary="s", paper="p", settings=ModelSettings, overrides={"width": 3})

    def build() -> None: ...

    assert add(build) is build
    assert registry._ARCHITECTURES["toy"].overrides == {"width": 3}
    assert add(build) is build  # a cell of a notebook that is run twice
    elsewhere: dict[str, Any] = {"__name__": "other", "__file__": "/else/other.py", "register": register}
    exec("def again(**how): return register('toy', **how)", elsewhere)
    with pytest.raises(SeqloomError, match=r"two models called 'toy', one of them in /else/other\.py"):
        elsewhere["again"](summary="s", paper="p", settings=ModelSettings)(build)


def test_a_model_of_seqloom_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ARCHITECTURES", dict(architectures()))
    with pytest.raises(SeqloomError, match="two models called 'transformer'"):
        register("transformer", summary="s", paper="p", settings=ModelSettings)(object)


def test_an_unknown_task_is_an_error() -> None:
    with pytest.raises(SeqloomError, match="no task called 'summarise'"):
        register("toy", summary="s", paper="p", settings=ModelSettings, task="summarise")


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registry that forgets the registrations of the test."""
    monkeypatch.setattr(registry, "_ARCHITECTURES", dict(architectures()))
    monkeypatch.setattr(registry, "_IMPORTED", set())
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_file_is_imported_once_with_its_neighbours(
    clean: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "summary_of_toy.py").write_text("SUMMARY = 'a toy'\n")
    (tmp_path / "my-toy.py").write_text(
        "from summary_of_toy import SUMMARY\n"
        "from seqloom.models.transformer import Transformer, TransformerSettings\n"
        "from seqloom.registry import register\n"
        "register('toy', summary=SUMMARY, paper='p', settings=TransformerSettings)(Transformer)\n"
        "with open('times', 'a') as file: file.write('x')\n"
    )
    monkeypatch.chdir(tmp_path)
    for path in ("my-toy.py", tmp_path / "my-toy.py"):
        import_file(path)
    assert (tmp_path / "times").read_text() == "x"
    assert (architecture("toy").summary, architecture("toy").file_name) == ("a toy", "my-toy.py")
    assert architecture("transformer").file_name is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "import not_there_at_all\n",
            "ModuleNotFoundError in line 1: No module named 'not_there_at_all'.",
        ),
        ("\n1 / 0\n", "ZeroDivisionError in line 2: division by zero."),
        ("def (:\n", "SyntaxError: invalid syntax (mine.py, line 1)."),
    ],
)
def test_the_error_of_a_failing_file_has_its_line(
    clean: None, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(SeqloomError) as caught:
        import_file(tmp_path / "mine.py")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.py", "There is no file"), ("folder", "There is no file"), ("notes.txt", "is not a Python file")],
)
def test_a_file_that_is_not_python_is_refused(clean: None, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(SeqloomError, match=message):
        import_file(tmp_path / name)


@pytest.mark.parametrize(("noun", "plural"), [("model", "models"), ("strategy", "strategies")])
def test_a_hint_uses_the_plural(noun: str, plural: str) -> None:
    assert unknown(noun, "x", ["one", "two"]).hint == f"the {plural} are one, two"


def test_looking_up_a_name_imports_the_module_that_registers_it_first() -> None:
    """A scan of the sources that misses a registration or prefers another module fails here."""
    registering = {name: entry.build.__module__ for name, entry in architectures().items() if not entry.home}
    assert {name: registry._modules_mentioning(name)[0] for name in registering} == registering


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("hmm", "seqloom.models.transformer"),
        ("transformer", "seqloom.statistical.hmm.tagger"),
        ("lstm-dot", "seqloom.models.transformer"),
    ],
)
def test_looking_up_a_name_does_not_import_other_architectures(name: str, other: str) -> None:
    code = f"import sys; from seqloom.registry import architecture; architecture({name!r}); "
    subprocess.run([sys.executable, "-c", code + f"sys.exit({other!r} in sys.modules)"], check=True)


def test_a_name_that_no_source_mentions_is_found_by_importing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registering_sources", dict)  # as in an installation of byte code only
    assert architecture("transformer").name == "transformer"
    code = (
        "from seqloom import registry; registry._registering_sources = dict; registry.architecture('lstm-dot')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_user_model_cannot_take_a_name_of_seqloom_before_it_is_imported() -> None:
    code = (
        "from seqloom.errors import SeqloomError\n"
        "from seqloom.registry import register\n"
        "from seqloom.settings import ModelSettings\n"
        "try:\n"
        "    register('transformer', summary='s', paper='p', settings=ModelSettings)(object)\n"
        "except SeqloomError as error:\n"
        "    assert \"two models called 'transformer'\" in error.message\n"
        "else:\n"
        "    raise AssertionError('not refused')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
