"""Take the screenshots of docs/guides/studio.md.

    seqloom demo --task numbers
    python docs/screenshots.py runs/demo-numbers [--all FOLDER]

`--all` takes every view of the run, at the widths of a desktop and of a phone, light and dark.
Needs playwright and chromium: make .venv/.installed-browser.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

OUT = Path(__file__).parent / "screenshots"
TEXT = "four hundred and sixty-seven thousand, three hundred and twenty-one"
# File → state of the page.
SHOWN: dict[str, dict[str, str]] = {
    "studio-translate": {"view": "translate", "place": "[0,4]"},
    "studio-attention": {"view": "attention", "cell": "", "head": "[1,1]"},
}
_HEIGHT = 900


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with _studio(options.run) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, state in SHOWN.items():
            _take(browser, address, state, OUT / f"{name}.png", width=1440, dark=False)
        if options.all:
            options.all.mkdir(parents=True, exist_ok=True)
            for view in _views(browser, address):
                for width in (1440, 390):
                    for dark in (False, True):
                        file = options.all / f"{view}-{width}-{'dark' if dark else 'light'}.png"
                        _take(browser, address, {"view": view}, file, width=width, dark=dark)
        browser.close()


@contextmanager
def _studio(run: Path) -> Iterator[str]:
    """Start the studio, and yield its address with the token."""
    command = [sys.executable, "-m", "seqloom", "studio", str(run), "--port", "0", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise SystemExit("The studio did not start.")
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def _views(browser: Browser, address: str) -> list[str]:
    """Return the views of the run, as in the address of each tab."""
    page = browser.new_context().new_page()
    page.goto(f"{address}#{urlencode({'text': TEXT})}")
    page.wait_for_selector(".tabs a")
    addresses: list[str] = page.eval_on_selector_all(".tabs a", "all => all.map(one => one.hash)")
    page.context.close()
    return [found[1] for one in addresses if (found := re.search(r"view=(\w+)", one))]


def _take(browser: Browser, address: str, state: dict[str, str], file: Path, *, width: int, dark: bool) -> None:
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": _HEIGHT}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{address}#{urlencode({'text': TEXT, **state})}")
    page.wait_for_selector("main[aria-busy=false] .output, main[aria-busy=false] figure", timeout=60_000)
    if "place" in state:
        page.wait_for_selector(".alternatives .pick")
    if "cell" in state:
        page.hover(".words >> nth=0 >> button >> nth=2")
    page.wait_for_selector("main[aria-busy=false]")
    page.screenshot(path=file, full_page=width != 1440)
    context.close()
    print(json.dumps({"file": str(file), "width": width, "scheme": scheme}))


if __name__ == "__main__":
    main()
