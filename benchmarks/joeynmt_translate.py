"""Translate pieces with Joey NMT's own prediction, in batches of similar length.

PEER_PYTHON joeynmt_translate.py TASK.json RESULT.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stopwatch import Translate, run


def load(options: dict[str, Any]) -> Translate:
    from joeynmt.config import load_config, parse_global_args  # type: ignore[import-not-found]
    from joeynmt.prediction import predict, prepare  # type: ignore[import-not-found]

    config = load_config(Path(options["config"]))
    for side in ("src", "trg"):
        del config["data"][side]["voc_file"]  # use the vocabulary saved with the model
    config["testing"] = {"load_model": options["file"], "batch_size": options["batch"]}
    args = parse_global_args(config, rank=0, mode="translate")
    model, _, _, data = prepare(args, rank=0, mode="translate")
    symbols = set(model.trg_vocab.specials) - {"<unk>"}

    def predict_batch(lines: list[str], beam: int) -> list[str]:
        data.reset_cache()
        for line in lines:
            data.set_item(line)
        longest = max(len(line.split()) for line in lines) + 1  # including the end of the sentence
        search = args.test._replace(
            beam_size=beam,
            beam_alpha=options["length_penalty"] if beam > 1 else -1,
            max_output_length=int(options["max_length_factor"] * longest) + options["max_length_extra"],
        )
        found = predict(model, data, args.device, args.n_gpu, args=search, autocast=args.autocast)
        return [" ".join(word for word in words if word not in symbols) for words in found[3]]

    def translate(lines: list[str], beam: int) -> list[str]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i].split()))
        outputs = [""] * len(lines)
        for first in range(0, len(order), options["batch"]):
            group = order[first : first + options["batch"]]
            for i, text in zip(group, predict_batch([lines[i] for i in group], beam), strict=True):
                outputs[i] = text
        return outputs

    return translate


if __name__ == "__main__":
    run(load)
