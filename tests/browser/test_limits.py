"""A run that is being trained, words of a megabyte, and the keyboard alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from playwright.sync_api import Browser, expect

from support.golden import GOLDEN
from support.studio import StudioServer, running_studio

from .conftest import OpenPage
from .test_studio import opened


def test_the_curves_follow_a_run_that_is_trained(browser: Browser, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "fixtures" / "transformer", tmp_path / "run", symlinks=True)
    with running_studio([tmp_path / "run"], "--follow") as studio:
        context = browser.new_context()
        page = context.new_page()
        page.goto(studio.address)
        page.wait_for_selector(".chart")
        page.wait_for_selector("main[aria-busy=false]")
        for step in (151, 152):
            line = {"kind": "train", "step": step, "loss": 0.5, "seconds": 60.0}
            with (tmp_path / "run" / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            expect(page.locator(".verdict")).to_contain_text(f"step {step}")
        context.close()


def test_a_word_of_a_megabyte_is_text(open_page: OpenPage) -> None:
    page = opened(open_page, "translate")
    page.fill("#source", "<b>" + "x" * 1_000_000)
    page.wait_for_selector("main[aria-busy=false] .output")
    for view, ready in (("attention", ".heatmap"), ("search", ".tree")):
        page.click(f".tabs a[href*='view={view}']")
        page.wait_for_selector(ready)
        page.wait_for_selector("main[aria-busy=false]")
        assert page.locator("main b").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_every_action_works_by_keyboard(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "translate")

    def reach(selector: str) -> None:
        """Press Tab until an element that matches has the focus."""
        for _ in range(150):
            page.keyboard.press("Tab")
            if page.evaluate("one => document.activeElement.matches(one)", selector):
                return
        raise AssertionError(selector)

    reach("[data-place='0-1']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".alternatives .pick")
    reach(".pick")
    page.keyboard.press("Enter")
    page.wait_for_selector(".change")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Control+z")
    expect(page.locator(".token.forced")).to_have_count(0)
    reach(".tabs a[href*='view=attention']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".heatmap")
    reach(".heatmap")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".mark")).to_have_count(2)
    reach(".thumb:nth-child(3)")
    page.keyboard.press("Enter")
    expect(page.locator(".thumb[aria-pressed=true]")).to_have_count(1)
    reach(".tabs a[href*='view=search']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".tree")
    reach("[name=candidate]")
    page.keyboard.type("le chat .")
    page.keyboard.press("Enter")
    page.wait_for_selector(".race")
    reach(".tree")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".node.on")).to_have_count(1)
    reach("[aria-expanded=false]")
    page.keyboard.press("Enter")
    reach(".menu > button")
    page.keyboard.press("Enter")
    reach(".menu [role=group] button")
    page.keyboard.press("Escape")
    expect(page.locator(".menu [role=group]")).to_have_count(0)
