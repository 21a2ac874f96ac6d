from __future__ import annotations

import pytest

from seqloom import registry
from seqloom.errors import SeqloomError
from seqloom.registry import architecture, architectures, register
from seqloom.settings import ModelSettings


def test_every_file_of_models_is_found() -> None:
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


def test_a_near_miss_is_guessed() -> None:
    with pytest.raises(SeqloomError, match="no model called 'transfomer'") as caught:
        architecture("transfomer")
    assert caught.value.hint == "did you mean 'transformer'?"


def test_a_far_miss_lists_what_there_is() -> None:
    with pytest.raises(SeqloomError) as caught:
        architecture("xyzzy")
    assert "recurrent" in caught.value.hint
    assert "transformer" in caught.value.hint


def test_a_name_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ARCHITECTURES", {})
    add = register("toy", summary="s", paper="p", settings=ModelSettings, overrides={"width": 3})

    def build() -> None: ...

    assert add(build) is build
    assert registry._ARCHITECTURES["toy"].overrides == {"width": 3}
    with pytest.raises(AssertionError, match="two architectures are called toy"):
        add(build)
