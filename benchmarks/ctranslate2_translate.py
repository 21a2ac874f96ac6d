"""Translate text with CTranslate2 as its documentation recommends, using the tokenizer of the run.

    PYTHON ctranslate2_translate.py TASK.json RESULT.json

With `max_batch_size`, translate_batch sorts the lines by length and splits them into batches for its workers
(`inter_threads`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stopwatch import Translate, run


def load(options: dict[str, Any]) -> Translate:
    import ctranslate2

    from seqloom.export.ctranslate2.convert import token_names
    from seqloom.text.pair import TokenizerPair

    folder = Path(options["folder"])
    translator = ctranslate2.Translator(
        str(folder), inter_threads=options["workers"], intra_threads=options["threads"]
    )
    tokenizers = TokenizerPair.load(folder / "tokenizer")
    source, target = tokenizers.source, tokenizers.target
    names, ids = token_names(source), {name: id for id, name in enumerate(token_names(target))}

    def translate(lines: list[str], beam: int) -> list[str]:
        results = translator.translate_batch(
            [[names[id] for id in source.encode(line)] for line in lines],
            max_batch_size=options["batch"],
            beam_size=beam,
            length_penalty=options["length_penalty"],
        )
        return [target.decode([ids[name] for name in result.hypotheses[0]]) for result in results]

    return translate


if __name__ == "__main__":
    run(load)
