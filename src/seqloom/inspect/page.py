"""Self-contained web pages: a document and the modules that draw it, in one file that works offline."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from seqloom.strict_json import json_text

FOLDER = Path(__file__).parent / "web"
# Documents that web/page.js draws, and the modules, each after those that it imports.
VIEWS = frozenset(
    {"translation", "attention", "search", "hmm", "stacks", "gates", "curves", "verdict", "compare"}
    | {"influence", "layers", "intervention", "embeddings", "positions"}
)
_CHARTS = ("lit-html", "text", "parts", "heatmap", "charts")
_DRAWINGS = (
    "translation",
    "intervention",
    "attention",
    "influence",
    "layers",
    "verdict",
    "search",
    "curves",
    "statistical",
    "gates",
    "compare",
    "embeddings",
)
_MODULES = (*_CHARTS, *_DRAWINGS, "page")
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[\w-]+\.js";\n', re.MULTILINE)
_EXPORTS = re.compile(r"export\{([^}]*)\};?\s*$")


def self_contained(document: Mapping[str, Any], title: str = "", state: Mapping[str, Any] | None = None) -> str:
    """Return an HTML page that shows a document; `state` is what was chosen in it."""
    shown = title or str(document["view"])
    return self_contained_pages([{"document": document, "state": state or {}}], shown)


def self_contained_pages(pages: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return an HTML page that shows several documents, one at a time.

    Each has a `document` and a `state`, and may have a `heading`, a `paragraph`, the `source`, and `more`
    documents.
    """
    saved, shown = {"title": title, "pages": pages}, title
    data = json_text(saved).replace("<", "\\u003c")  # no </script> in it
    script = f'{_bundle()}\nshowSaved(document.getElementById("page"), {data});\n'
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    policy = f"default-src 'none'; img-src data:; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(shown)}</title>
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<script type="module">{script}</script>
</body>
</html>
"""


def in_notebook(page: str) -> str:
    """Return a page as a frame for the output of a notebook, which it cannot reach."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" title="seqloom" '
        'width="100%" height="640" style="border: 0"></iframe>'
    )


def _bundle() -> str:
    """Return all modules as one: their names at the top level are unique, so that imports can be left out."""
    return "".join(
        _without_imports(name, (FOLDER / f"{name}.js").read_text(encoding="utf-8")) for name in _MODULES
    )


def _without_imports(name: str, code: str) -> str:
    if (found := _EXPORTS.search(code)) is None:
        return _IMPORT.sub("", code).replace("\nexport ", "\n")
    pairs = [part.strip().split(" as ") for part in found[1].split(",")]
    names = [(local, public) for local, public in pairs if public in ("html", "nothing", "render", "svg")]
    result = ", ".join(f"{public}: {local}" for local, public in names)
    outer = ", ".join(public for _, public in names)
    return f"const {{ {outer} }} = (() => {{\n{code[: found.start()]}\nreturn {{ {result} }};\n}})();\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
