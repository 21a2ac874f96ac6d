"""Translate ids with Hugging Face's generate, in batches of similar length.

    PEER_PYTHON huggingface_generate.py TASK.json RESULT.json

`early_stopping` ends a beam search when the number of finished hypotheses equals the beam size, as in seqloom's
search.stop=count; it is the fastest rule of generate. By default, generate continues while an open hypothesis
can still win by its heuristic. In a model trained without our special symbols, our id n has the id n - `shift`,
and its own special symbols follow the pieces.
"""

from __future__ import annotations

from typing import Any

from stopwatch import Translate, run


def load(options: dict[str, Any]) -> Translate:
    import torch
    from transformers import AutoModelForSeq2SeqLM  # type: ignore[import-not-found]

    model = AutoModelForSeq2SeqLM.from_pretrained(options["folder"]).eval()
    pad, end, size = model.config.pad_token_id, model.config.eos_token_id, options["batch"]
    shift = options.get("shift", 0)
    pieces = model.config.vocab_size - shift  # higher ids are special symbols

    def generate(sources: list[list[int]], beam: int) -> list[list[int]]:
        longest = max(map(len, sources))
        ids = torch.tensor([ids + [pad] * (longest - len(ids)) for ids in sources])
        mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in sources])
        search = {name: options[name] for name in ("early_stopping", "length_penalty")} if beam > 1 else {}
        found = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            num_beams=beam,
            max_new_tokens=int(options["max_length_factor"] * longest) + options["max_length_extra"],
            **search,
        )
        rows: list[list[int]] = found[:, 1:].tolist()  # without the start symbol
        return [row[: row.index(end)] if end in row else row for row in rows]

    def translate(lines: list[str], beam: int) -> list[str]:
        sources = [[*(id - shift for id in map(int, line.split()) if id >= shift), end] for line in lines]
        order = sorted(range(len(lines)), key=lambda i: -len(sources[i]))
        outputs = [""] * len(lines)
        for first in range(0, len(order), size):
            group = order[first : first + size]
            for i, ids in zip(group, generate([sources[i] for i in group], beam), strict=True):
                outputs[i] = " ".join(str(id + shift) for id in ids if id < pieces)
        return outputs

    return translate


if __name__ == "__main__":
    run(load)
