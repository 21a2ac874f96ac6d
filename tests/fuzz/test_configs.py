"""Damaged configurations: consistent options, or one error message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import strategies as st

from seqloom.run.config import Config, compose, from_tree, search_options

RECIPES = sorted((Path(__file__).parents[2] / "recipes").rglob("*.yaml"))
MODELS = ["transformer", "lm", "mlm", "lstm-additive", "ngram", "phrase", "hmm-lm"]


def resolved(model: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(compose(values={"model.name": model}).to_yaml())
    return tree


def survives(config: Config) -> None:
    """Check that an accepted configuration can be written and read back."""
    assert from_tree(yaml.safe_load(config.to_yaml()), "itself") == config


def test_damaged_files(tmp_path: Path, fuzz: Any, damage: Any) -> None:
    def check(content: bytes) -> None:
        (tmp_path / "a.yaml").write_bytes(content)
        survives(compose(tmp_path / "a.yaml"))

    valid = [path.read_bytes() for path in RECIPES[:3]]
    fuzz(damage(compose().to_yaml().encode(), *valid), check, cost=4)


@pytest.mark.parametrize("model", MODELS)
def test_trees_of_another_shape(model: str, fuzz: Any, reshape: Any) -> None:
    def check(tree: Any) -> None:
        if isinstance(tree, dict):
            survives(from_tree(tree, "the test"))

    fuzz(reshape(resolved(model)), check, cost=4)


KEYS = [f"{section}.{key}" for section, options in resolved("transformer").items() for key in options]
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["[" * 500, "9" * 5000, "2001-99-99", "&a [*a]", "!!python/name:os", "{1: 2}", ".inf", ".nan", "1:9:9"]
)


def test_assignments(fuzz: Any) -> None:
    key = st.sampled_from([*KEYS, "model", "model.encoder.window", "model.width.x", "", ".", "data..train"])
    assignment = st.tuples(key | st.text(max_size=8), TEXTS).map("=".join) | TEXTS

    def check(assignments: list[str]) -> None:
        survives(compose(assignments=assignments))
        search_options(assignments)

    fuzz(st.lists(assignment, min_size=1, max_size=3), check, cost=4)


def test_assignments_of_the_search(fuzz: Any) -> None:
    names = [key for key in KEYS if key.startswith("search.")]
    assignment = st.tuples(st.sampled_from(names), TEXTS).map("=".join)
    fuzz(assignment.map(lambda one: [one]), search_options, cost=2)
