"""A lesson in a browser: arrow keys, presentation, and a page that restores it."""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from support.commands import start_process
from support.golden import GOLDEN
from support.studio import running_studio

LESSON = """
title: "<img src=x> lesson"
runs: {model: search}
steps:
  - {heading: First, paragraph: "One.\\nTwo.", state: {view: translate, run: model, text: the cat .}}
  - {heading: Second, paragraph: Three., state: {view: search, run: model, text: the old cat ., beam: 2}}
"""


def test_an_exported_lesson_needs_no_server(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "lesson.yaml").write_text(LESSON, encoding="utf-8")
    out = tmp_path / "out.html"
    run = GOLDEN / "fixtures" / "transformer"
    lesson = str(tmp_path / "lesson.yaml")
    assert start_process("studio", run, "--lesson", lesson, "--export", str(out)).wait(60) == 0
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(out.as_uri())
    expect(page.locator(".saved-heading")).to_have_text("First")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tree")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("main img").count() == 0 and Axe().run(page).violations_count == 0
    context.close()
    assert faults == []


def test_a_lesson_is_followed_by_keys(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "lesson.yaml").write_text(LESSON, encoding="utf-8")
    run = GOLDEN / "fixtures" / "transformer"
    with running_studio([run], "--lesson", str(tmp_path / "lesson.yaml")) as studio:
        page = browser.new_context().new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(studio.address)
        heading = page.locator(".lesson h1")
        expect(heading).to_have_text("First")
        page.wait_for_selector(".output.best")
        page.keyboard.press("ArrowRight")
        expect(heading).to_have_text("Second")
        page.wait_for_selector("text=Search with beam 2")
        page.keyboard.press("p")
        expect(page.locator("header.top")).to_have_count(0)
        page.wait_for_selector("main[aria-busy=false]")
        assert Axe().run(page).violations_count == 0
        page.set_viewport_size({"width": 390, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        again = page.context.new_page()
        again.goto(page.url)  # the cookie is shared
        expect(again.locator(".lesson h1")).to_have_text("Second")
        page.keyboard.press("PageUp")
        expect(heading).to_have_text("First")
        assert page.input_value("#source") == "the cat ."
        page.focus("#source")
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        expect(heading).to_have_text("First")
        assert page.locator(".lesson img").count() == 0 and faults == []
        page.context.close()
