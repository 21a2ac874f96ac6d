"""Export: the documents of several views, or of the steps of a lesson, in one page that works offline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.inspect.page import self_contained_pages
from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import Document, document
from seqloom.outputs import write_output
from seqloom.studio.lesson import Lesson, lesson_document
from seqloom.studio.runs import StudioRun, StudioRuns

_VIEW_NAMES = {
    "translate": "Translate",
    "attention": "Attention",
    "search": "Search",
    "hmm": "Hidden states",
    "stacks": "Stacks",
    "gates": "Gates",
    "influence": "Influence",
    "layers": "Layers",
    "embeddings": "Embeddings",
    "positions": "Positions",
    "compare": "Two models",
    "curves": "A run",
}
# Key of the state → field of the document.
_TRANSLATION = {
    "prefix": "prefix_tokens",
    "beam": "beam",
    "nbest": "nbest",
    "penalty": "length_penalty",
    "temperature": "temperature",
    "seed": "seed",
}


class _LocalRun(StudioRun):
    """A run whose documents are computed in this process."""

    def __init__(self, viewed: ViewedRun) -> None:
        self.viewed = viewed

    async def document(self, view: str, fields: Mapping[str, Any], client: str) -> str:
        return json.dumps(document(self.viewed, view, fields))


def export_page(
    folders: Sequence[Path], out: Path, *, lesson: Lesson | None, text: str | None, device: str
) -> None:
    """Write the default views of the runs, or the steps of a lesson, as one HTML file."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise SeqloomError(f"Unknown format of a page: {out}.", "use a name that ends with .html")
    runs = StudioRuns(folders)
    viewed = {name: ViewedRun(run.folder, device=device) for name, run in runs.by_name.items()}
    runs.by_name = {name: _LocalRun(one) for name, one in viewed.items()}
    if lesson is not None:
        found = asyncio.run(lesson_document(lesson, runs))
        title, pages = found["title"], [_page(viewed, one["state"], one) for one in found["steps"]]
    else:
        title = ", ".join(viewed)
        pages = [page for name in viewed for page in _default_pages(viewed, name, text)]
    if not pages:
        raise SeqloomError("There is nothing to export: the runs have no view.", "train them first")
    write_output(out, self_contained_pages(pages, title))


def _default_pages(viewed: Mapping[str, ViewedRun], name: str, text: str | None) -> list[dict[str, Any]]:
    model = document(viewed[name], "model", {})
    text = text or model["example"]
    views = ["translate" if view == "translation" else view for view in model["views"]]
    if not text and {*views} - {"curves", "embeddings", "positions"}:
        raise SeqloomError(f"The data of {name} is gone, so there is no text to show.", "give one with --text")
    return [
        _page(viewed, {"view": view, "run": name, "text": text}, {"heading": f"{name}: {_VIEW_NAMES[view]}"})
        for view in views
    ]


def _page(
    viewed: Mapping[str, ViewedRun], state: Mapping[str, Any], words: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one page: its heading and paragraph, the main document, and those that it needs besides."""
    view, run = state["view"], viewed[state["run"]]
    fields = {key: state[key] for key in ("text", "checkpoint") if key in state}
    more: dict[str, Document] = {}
    if view in ("curves", "positions"):
        main = document(run, view, {})
    elif view == "embeddings":
        main = document(run, view, _some(state, {"side": "side", "token": "token", "checkpoint": "checkpoint"}))
    elif view == "compare":
        main = _compared([run, viewed[state["other"]]], {**fields, **_some(state, {"beam": "beam"})})
    elif view == "translate":
        words_of = {
            key: [one.strip() for one in state.get(key, "").split(";")] for key in ("require", "forbid")
        }
        given = {key: [one for one in many if one] for key, many in words_of.items()}
        main = document(run, "translation", {**fields, **_some(state, _TRANSLATION), **given})
    else:
        named = {"search": {"beam": "beam"}, "stacks": {"beam": "beam"}, "attention": {"kind": "kind"}}
        given = _some(state, named.get(view, {}))
        main = document(run, view, {**fields, **given})
        if view == "search" and state.get("candidate"):
            more["verdict"] = document(run, "verdict", {**fields, **given, "target": state["candidate"]})
        if view == "attention" and (state.get("off") or state.get("pins")):
            changes = _some(state, {"off": "off", "pins": "pins"})
            more["intervention"] = document(run, "intervention", {**fields, **changes})
    heading, paragraph = words["heading"], words.get("paragraph", "")
    source = state.get("text", "") if view not in ("curves", "embeddings", "positions") else ""
    shown = {"heading": heading, "paragraph": paragraph, "source": source}
    return {**shown, "document": main, "more": more, "state": dict(state)}


def _some(state: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {field: state[key] for key, field in names.items() if key in state}


def _compared(runs: Sequence[ViewedRun], fields: Mapping[str, Any]) -> Document:
    """Return the outputs of two runs, each scored by the other, and continued by it from where they part."""
    outputs = [document(run, "translation", fields) for run in runs]
    texts = [one["hypotheses"][0]["text"] for one in outputs]
    base = {key: value for key, value in fields.items() if key in ("text", "checkpoint")}
    scores = [document(runs[1 - i], "score", {**base, "target": texts[i]}) for i in (0, 1)]
    continued = []
    if texts[0] != texts[1]:
        words = [text.split(" ") for text in texts]
        same = next((i for i, pair in enumerate(zip(*words, strict=False)) if len(set(pair)) > 1), None)
        end = (min(map(len, words)) if same is None else same) + 1
        prefixes = [" ".join(one[:end]) for one in words]
        continued = [document(runs[1 - i], "translation", {**fields, "prefix": prefixes[i]}) for i in (0, 1)]
    return {
        "view": "compare",
        "version": 1,
        "names": [run.name for run in runs],
        "documents": [*outputs, *scores],
        "continued": continued,
    }
