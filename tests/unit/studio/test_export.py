"""Exported pages hold the documents of views, and of the steps of a lesson."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.inspect.viewed_run import ViewedRun
from seqloom.inspect.views import document
from support.commands import Command
from support.golden import GOLDEN

FIXTURES = GOLDEN / "fixtures"
LESSON = """
title: "</script> <b>"
runs: {first: attention, second: search}
steps:
  - {heading: A, paragraph: P, state: {view: compare, run: first, other: second, text: the old cat .}}
  - heading: B
    paragraph: P
    state: {view: search, run: second, text: the cat ., beam: 2, candidate: le arbre .}
  - heading: C
    paragraph: P
    state: {view: translate, run: first, text: the cat ., prefix: [le], forbid: chat}
  - {heading: D, paragraph: P, state: {view: curves, run: first}}
"""


def _saved(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    found = text.partition('showSaved(document.getElementById("page"), ')[2]
    saved: dict[str, Any] = json.JSONDecoder().raw_decode(found)[0]
    return saved


def test_the_default_views_are_exported(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    done = command("studio", FIXTURES / "hmm", "--text", "the cat", "--export", out, "--device", "cpu")
    assert done.code == 0
    pages = _saved(out)["pages"]
    viewed = ViewedRun(FIXTURES / "hmm", device="cpu")
    views = document(viewed, "model", {})["views"]
    assert [page["document"]["view"] for page in pages] == views
    for page in pages:
        fields = {} if page["document"]["view"] == "curves" else {"text": "the cat"}
        assert page["document"] == json.loads(json.dumps(document(viewed, page["document"]["view"], fields)))


def test_a_lesson_is_exported(command: Command, tmp_path: Path) -> None:
    (tmp_path / "lesson.yaml").write_text(LESSON, encoding="utf-8")
    out = tmp_path / "out.html"
    runs = (FIXTURES / "transformer", FIXTURES / "lstm")
    assert command("studio", *runs, "--lesson", tmp_path / "lesson.yaml", "--export", out).code == 0
    compared, searched, forced, curves = _saved(out)["pages"]
    assert compared["document"]["names"] == ["transformer", "lstm"]
    outputs = [one["hypotheses"][0]["text"] for one in compared["document"]["documents"][:2]]
    assert [one["target"] for one in compared["document"]["documents"][2:]] == outputs
    assert len(compared["document"]["continued"]) == (2 if outputs[0] != outputs[1] else 0)
    assert searched["document"]["beam"] == 2 and searched["more"]["verdict"]["target"] == "le arbre ."
    assert forced["document"]["prefix_tokens"] == ["le"] and "chat" not in forced["document"]["hypotheses"][0]
    assert curves["document"]["view"] == "curves"
    assert out.read_text(encoding="utf-8").count("</script>") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--export", "x.png", "--text", "a"], "name that ends with .html"),
        (["--export", "x.html"], "give one with --text"),
        (["--text", "a", "--lesson", "why-attention"], "both give a text"),
    ],
)
def test_wrong_exports_are_errors(command: Command, arguments: list[str], message: str, tmp_path: Path) -> None:
    done = command("studio", FIXTURES / "hmm", "--no-open", *arguments)
    assert done.code == 2 and message in done.err
