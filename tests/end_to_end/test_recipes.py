"""Every recipe is a valid configuration that trains, measures and translates on a few pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqloom
from seqloom.data.tasks import generate

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_trains(recipe: Path, tmp_path: Path) -> None:
    pairs = [(e.source, e.target) for e in generate("copy", 120, seed=1)]
    source, target = tmp_path / "a.src", tmp_path / "a.tgt"
    source.write_text("".join(f"{left}\n" for left, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{right}\n" for _, right in pairs), encoding="utf-8")
    quick = {"train.max_steps": 2, "train.max_minutes": 5.0, "train.validate_lines": 3, "train.warmup": 1}
    translator = seqloom.train(
        source=source, target=target, out=tmp_path / "run", config=recipe, settings=quick, quiet=True
    )
    assert len(translator.translate(["1 2 3", ""])) == 2


def test_there_are_recipes_with_their_command_and_score() -> None:
    assert len(RECIPES) >= 2
    for recipe in RECIPES:
        header = recipe.read_text(encoding="utf-8").split("\n\n")[0]
        assert "seqloom train" in header and "seqloom evaluate" in header
        assert "Result" in header, f"{recipe.name} has no measured result"
