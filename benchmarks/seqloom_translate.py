"""Translate text with seqloom, loaded as by `seqloom translate` with default options.

PYTHON seqloom_translate.py TASK.json RESULT.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stopwatch import Translate, run


def load(options: dict[str, Any]) -> Translate:
    from seqloom.decode.select import load_translator

    translator = load_translator(
        Path(options["folder"]),
        options["engine"],
        checkpoint=options.get("checkpoint"),
        search=options.get("search"),
        scores=False,
    )
    if translator.engine != options["expected"]:
        raise SystemExit(f"{options['folder']}: --engine {options['engine']} selected {translator.engine}")

    def translate(lines: list[str], beam: int) -> list[str]:
        return [best[0].text for best in translator.translate(lines, beam=beam)]

    return translate


if __name__ == "__main__":
    run(load)
