"""One meaning per class name: no two modules of the package define a class of the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import seqloom


def test_every_class_name_has_one_definition() -> None:
    package, places = Path(seqloom.__file__).parent, defaultdict[str, list[str]](list)
    for module in package.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module.relative_to(package)}:{node.lineno}")
    assert "Batch" in places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
