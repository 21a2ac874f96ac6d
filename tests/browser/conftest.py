"""A studio with recorded runs, and pages in Debian's chromium that report every fault."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.golden import GOLDEN
from support.studio import StudioServer, running_studio

CHROMIUM = shutil.which("chromium") or "chromium"
QUIET = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
OpenPage = Callable[..., Page]
expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Iterator[StudioServer]:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("transformer", "lstm", "hmm", "phrase"):
        shutil.copytree(GOLDEN / "fixtures" / name, folder / name, symlinks=True)
    shutil.copytree(GOLDEN / "fixtures" / "lstm", folder / "<img src=x onerror=alert(1)>")
    runs = ["transformer", "lstm", "hmm", "phrase", "<img src=x onerror=alert(1)>"]
    with running_studio([folder / name for name in runs]) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser, studio: StudioServer) -> Iterator[OpenPage]:
    """Open the studio in a state; no console message, failed request or request to another host is allowed."""
    faults: list[str] = []
    contexts = []

    def open_it(state: str = "", *, width: int = 1440, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
        page.on("request", lambda r: None if _is_ours(r.url, studio) else faults.append(r.url))
        page.goto(studio.address + state)
        page.wait_for_selector("#source, .charts, .plane")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert faults == []


def _is_ours(address: str, studio: StudioServer) -> bool:
    return address.startswith((f"http://127.0.0.1:{studio.port}/", "data:", "blob:"))
