"""docs/labs.py: the pages of the labs in the documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from seqloom.labs.framework.choice import settings_of
from seqloom.labs.framework.discovery import labs
from seqloom.labs.framework.results import ResultStore
from seqloom.labs.framework.running import run_lab
from seqloom.labs.mask import LAB as MASK

DOCS = Path(__file__).parents[2] / "docs"


def test_every_lab_has_a_page(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("labs_pages", DOCS / "labs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write_pages(tmp_path, {"mask": run_lab(MASK, settings_of(MASK))})
    assert {page.stem for page in tmp_path.glob("*.md")} == {"index", *labs()}
    assert {picture.name for picture in tmp_path.glob("*.svg")} == {
        "mask.svg",
        *(f"{name}-equation.svg" for name in labs()),
    }
    page = (tmp_path / "mask.md").read_text(encoding="utf-8")
    for part in (
        "**Verdict: holds.**",
        "| 7 (replaced) |",
        "![mask: equation](mask-equation.svg)",
        "<details>",
    ):
        assert part in page
    assert "Verdict" not in (tmp_path / "vanish.md").read_text(encoding="utf-8")
    contents = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert "](mask.md) |" in contents
    assert "as \\|λ\\| to the power" in contents  # a bar would end the cell


def test_the_documentation_has_a_result_of_every_lab() -> None:
    """Results of the quick mode, so that the printed command gives the shown numbers."""
    results = ResultStore(DOCS / "labs" / "results").latest()
    assert set(results) == set(labs())
    for name, result in results.items():
        assert result.settings == settings_of(labs()[name])
