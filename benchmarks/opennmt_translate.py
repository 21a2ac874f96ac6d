"""Translate ids or pieces with OpenNMT-py's inference engine, which `onmt_translate` uses.

    PEER_PYTHON opennmt_translate.py TASK.json RESULT.json

The engine sorts the lines by length. Its words are our pieces if it was trained on them, otherwise our ids,
except for the four special symbols; the source then ends with the end symbol, as in seqloom. By default, its
beam search ends when the best hypothesis is finished, which is earlier than in seqloom.
"""

from __future__ import annotations

import os
from argparse import Namespace
from functools import cache
from typing import Any

from stopwatch import Translate, run

SPECIAL = ("<blank>", "<s>", "</s>", "<unk>")  # PAD, BOS, EOS, UNK


def load(options: dict[str, Any]) -> Translate:
    import torch
    from onmt.bin.translate import _get_parser  # type: ignore[import-not-found]
    from onmt.inference_engine import InferenceEnginePY  # type: ignore[import-not-found]
    from onmt.utils.parse import ArgumentParser  # type: ignore[import-not-found]

    torch.serialization.add_safe_globals(
        [Namespace]
    )  # its checkpoints contain one, which torch refuses by default
    pieces = options.get("pieces", False)
    to_word = {} if pieces else {str(id): word for id, word in enumerate(SPECIAL)}
    end = () if pieces else (SPECIAL[2],)
    to_id = {word: id for id, word in to_word.items()}

    @cache
    def engine(beam: int) -> Any:
        values = {
            "model": options["file"],
            "src": os.devnull,  # required, but lines are passed to infer_list
            "output": os.devnull,
            "batch_size": options["batch"],
            "batch_type": options["batch_type"],
            "beam_size": beam,
            "length_penalty": "avg",
            "alpha": options["length_penalty"],
            "max_length": options["max_length"],
            "max_length_ratio": options["max_length_factor"],
        }
        opt = _get_parser().parse_args(
            [part for name, value in values.items() for part in (f"-{name}", str(value))]
        )
        ArgumentParser.validate_translate_opts(opt)
        ArgumentParser._get_all_transform_translate(opt)
        ArgumentParser._validate_transforms_opts(opt)
        ArgumentParser.validate_translate_opts_dynamic(opt)
        return InferenceEnginePY(opt)

    def translate(lines: list[str], beam: int) -> list[str]:
        words = [" ".join([*(to_word.get(id, id) for id in line.split()), *end]) for line in lines]
        _, predictions = engine(beam).infer_list(words)
        return [" ".join(to_id.get(word, word) for word in best[0].split()) for best in predictions]

    return translate


if __name__ == "__main__":
    run(load)
