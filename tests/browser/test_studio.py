"""The studio as people use it, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from support.studio import StudioServer

from .conftest import OpenPage

TEXT = "the old cat hides the dog ."
STATE = "#view={view}&run={run}&text=the+old+cat+hides+the+dog+."
VIEWS = {
    "translate": ("transformer", ".output"),
    "attention": ("transformer", ".heatmap"),
    "search": ("transformer", ".tree"),
    "influence": ("transformer", ".heatmap"),
    "layers": ("transformer", ".lens"),
    "embeddings": ("transformer", ".plane"),
    "positions": ("transformer", ".heatmap"),
    "gates": ("lstm", ".heatmap"),
    "hmm": ("hmm", ".trellis"),
    "stacks": ("phrase", ".phrases"),
    "curves": ("transformer", ".chart"),
}


def opened(open_page: OpenPage, view: str, **options: object) -> Page:
    run, selector = VIEWS[view]
    page = open_page(STATE.format(view=view, run=run), **options)
    page.wait_for_selector(selector)
    page.wait_for_selector("main[aria-busy=false]")
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_accessible_and_fits_a_phone(open_page: OpenPage, view: str) -> None:
    for width, dark in ((1440, False), (390, True)):
        page = opened(open_page, view, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


def test_a_token_is_replaced_and_restored(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "translate")
    assert "token=" not in page.url
    page.fill("#source", "the old cat hides the tree .")
    fields = {"run": "transformer", "text": "the old cat hides the tree ."}
    document = studio.request("/api/translation", fields).json()
    first = page.locator(".output.best .text")
    expect(first).to_have_text(document["hypotheses"][0]["text"])
    page.click("[data-place='0-1']")
    page.wait_for_selector(".alternatives tbody tr")
    before = document["hypotheses"][0]["tokens"][:1]
    listed = studio.request("/api/alternatives", {**fields, "prefix_tokens": before}).json()["alternatives"]
    shown = page.locator(".alternatives tbody tr").nth(2).locator(".number").all_inner_texts()
    assert shown[:2] == ["3", f"{listed[2]['probability']:.4f}"]
    page.click(".alternatives .pick >> nth=2")
    page.wait_for_selector(".change")
    prefix = [*before, listed[2]["token"]]
    forced = studio.request("/api/translation", {**fields, "prefix_tokens": prefix}).json()["hypotheses"][0]
    expect(first).to_have_text(forced["text"])
    assert f"→ {forced['log_prob']:.2f}".replace("-", "−") in page.inner_text(".change")
    address = page.url
    page.keyboard.press("Control+z")
    expect(first).to_have_text(document["hypotheses"][0]["text"])
    page.click("text=Redo")
    expect(first).to_have_text(forced["text"])
    again = open_page(address.partition("/#")[2] and "#" + address.partition("#")[2])
    expect(again.locator(".output.best .text")).to_have_text(forced["text"])
    page.click("[data-place='0-2']")
    page.fill(".typed input", "rouge")
    page.keyboard.press("Enter")
    expect(page.locator(".output.best .token.forced")).to_have_count(3)


def test_heads_and_words_are_shown(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "attention")
    document = studio.request("/api/attention", {"run": "transformer", "text": TEXT}).json()
    page.locator(".thumb").nth(2).click()
    expect(page.locator(".thumb[aria-pressed=true]")).to_have_count(1)
    page.click("text=Show as table")
    heads = len(document["weights"][0])
    rows = document["weights"][1 // heads][1 % heads]
    cells = page.locator(".figure tbody tr").first.locator("td").all_inner_texts()
    assert [float(cell) for cell in cells] == pytest.approx(rows[0], abs=1e-4)
    page.locator(".heatmap").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert f"{rows[1][1]:.4f}" in page.inner_text(".side .status")
    page.click("text=Lines")
    page.wait_for_selector("svg.lines line")
    page.click("text=Encoder")
    page.wait_for_selector("text=Attention of each source token to the source")


def test_the_search_is_explored(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "search")
    document = studio.request("/api/search", {"run": "transformer", "text": TEXT}).json()
    expect(page.locator(".node:not(.start)")).to_have_count(len(document["nodes"]) - 1)
    page.locator("input[type=range]").nth(1).fill("2")
    expect(page.locator(".node:not(.start)")).to_have_count(
        sum(1 <= node["length"] <= 2 for node in document["nodes"])
    )
    page.locator(".tree").focus()
    page.keyboard.press("ArrowRight")
    best = next(node for node in document["nodes"] if node["winner"] and node["length"] == 1)
    assert f"{best['total']:.3f}".replace("-", "−") in page.inner_text(".studio .status")
    page.locator("input[type=range]").nth(0).fill("2")
    page.wait_for_selector("text=Search with beam 2")


def test_two_models_are_compared(open_page: OpenPage, studio: StudioServer) -> None:
    page = open_page(STATE.format(view="compare", run="transformer") + "&other=lstm")
    page.wait_for_selector(".pair")
    page.wait_for_selector("main[aria-busy=false]")
    outputs = [
        studio.request("/api/translation", {"run": run, "text": TEXT}).json()["hypotheses"][0]["text"]
        for run in ("transformer", "lstm")
    ]
    assert page.locator(".pair .text").all_inner_texts() == outputs
    score = studio.request("/api/score", {"run": "lstm", "text": TEXT, "target": outputs[0]}).json()
    expect(page.locator(".pair .numbers").first).to_contain_text(f"{score['log_prob']:.2f}".replace("-", "−"))


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'`${}", "a\u202eb"]
)
def test_markup_is_text(open_page: OpenPage, text: str) -> None:
    page = open_page("#view=translate&run=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    page.fill("#source", text)
    page.wait_for_selector(".output")
    for tab in ("Attention", "Search"):
        page.click(f".tabs >> text={tab}")
        page.wait_for_selector(".picture svg")
    assert page.locator("#page img, #page script").count() == 0


def test_an_error_is_shown_and_the_page_recovers(browser: Browser, studio: StudioServer) -> None:
    page = browser.new_page()
    page.goto(studio.address + STATE.format(view="translate", run="transformer"))
    page.wait_for_selector(".output")
    page.click("summary")
    page.fill("text=Forbidden words (a; b)", "chat")
    page.keyboard.press("Tab")
    page.wait_for_selector("main[aria-busy=false] .output")
    page.fill("text=Required words (a; b)", "snowman")
    page.keyboard.press("Tab")
    expect(page.locator("[role=alert]")).to_contain_text("not in the target vocabulary")
    page.fill("text=Required words (a; b)", "rouge")
    page.keyboard.press("Tab")
    expect(page.locator(".output.best .text")).to_contain_text("rouge")
    page.close()


def test_a_saved_page_works_without_a_network(open_page: OpenPage, browser: Browser, tmp_path: Path) -> None:
    page = opened(open_page, "attention")
    files = {}
    for name in ("Save as HTML", "Save picture as SVG", "Save picture as PNG"):
        page.click("text=Share")
        with page.expect_download() as caught:
            page.click(f"text={name}")
        files[name] = tmp_path / caught.value.suggested_filename
        caught.value.save_as(files[name])
    assert files["Save picture as PNG"].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files["Save picture as SVG"].read_bytes()
    context = browser.new_context(offline=True)
    saved = context.new_page()
    faults: list[str] = []
    saved.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    saved.on("pageerror", lambda error: faults.append(str(error)))
    saved.goto(files["Save as HTML"].as_uri())
    saved.wait_for_selector(".heatmap")
    saved.locator(".thumb").nth(1).click()
    expect(saved.locator(".thumb[aria-pressed=true]")).to_have_count(1)
    context.close()
    assert faults == []


def test_the_copied_command_prints_the_document(open_page: OpenPage) -> None:
    page = opened(open_page, "search")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Share")
    page.click("text=Copy as command")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("seqloom inspect search ") and copied.endswith(f"'{TEXT}' --json")
    page.click("text=Share")
    page.click("text=Copy as Python")
    assert json.dumps(TEXT) in page.evaluate("navigator.clipboard.readText()")


def test_the_copied_command_has_the_forced_target(open_page: OpenPage, studio: StudioServer) -> None:
    fields = {"run": "transformer", "text": TEXT}
    free = studio.request("/api/translation", fields).json()["hypotheses"][0]
    prefix = free["tokens"][:1]
    forced = studio.request("/api/translation", {**fields, "prefix_tokens": prefix}).json()["hypotheses"][0]
    state = STATE.format(view="attention", run="transformer") + f"&prefix={json.dumps(prefix)}"
    page = open_page(state)
    page.wait_for_selector(".heatmap")
    page.wait_for_selector("main[aria-busy=false]")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("text=Share")
    page.click("text=Copy as command")
    assert f"--target '{forced['text']}'" in page.evaluate("navigator.clipboard.readText()")


def test_a_translation_of_the_user_is_judged(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "search")
    page.fill("[name=candidate]", "le chat vieux cache le chien .")
    page.keyboard.press("Enter")
    page.wait_for_selector(".race")
    fields = {"run": "transformer", "text": TEXT, "target": "le chat vieux cache le chien ."}
    document = studio.request("/api/verdict", fields).json()
    assert document["verdict"] == "model" and document["reason"] == "pruned"
    card = page.inner_text("section[aria-label=Verdict]")
    assert "The model prefers its output" in card and f"token {document['lost_at']}" in card
    assert f"keeps it to its end: {document['smallest_beam']}" in card
    assert Axe().run(page).violations_count == 0
    page.click("text=Clear")
    expect(page.locator(".race")).to_have_count(0)


def test_a_head_is_switched_off_and_a_token_pinned(open_page: OpenPage, studio: StudioServer) -> None:
    page = opened(open_page, "attention")
    page.locator(".thumb").nth(2).focus()
    page.keyboard.press("Enter")
    page.click("text=Switch head")
    page.wait_for_selector(".pair")
    off = page.evaluate("JSON.parse(new URLSearchParams(location.hash.slice(1)).get('off'))")
    page.select_option("[name=place]", "0")
    page.select_option("[name=to]", "2")
    page.click("button:text-is('Pin')")
    expect(page.locator(".change")).to_contain_text("place 1 attends to")
    fields = {"run": "transformer", "text": TEXT, "off": off, "pins": [[0, 2]]}
    document = studio.request("/api/intervention", fields).json()
    texts = page.locator(".pair .text").all_inner_texts()
    assert texts == [document["free"]["text"], document["changed"]["text"]]
    page.wait_for_selector("main[aria-busy=false]")
    assert Axe().run(page).violations_count == 0
    page.click("text=Undo all")
    expect(page.locator(".pair")).to_have_count(0)
