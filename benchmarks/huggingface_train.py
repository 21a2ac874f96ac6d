"""Train with Hugging Face's Seq2SeqTrainer for a given time; write metrics in the format of seqloom.

    PEER_PYTHON huggingface_train.py METRICS SECONDS --config CONFIG

Training ends SECONDS after the first update. The trainer does not support batches by tokens, so a batch has a
fixed number of sentences of similar length. Tokens are the labels that are not ignored: the end of a sentence
counts, padding does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from recorder import Recorder
from transformers import (  # type: ignore[import-not-found]
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

_IGNORED = -100  # label that the loss ignores


class Pairs(torch.utils.data.Dataset[dict[str, list[int]]]):
    """Source and target ids, including the end of sentence."""

    def __init__(self, source: str, target: str, vocabulary: str, end: int) -> None:
        pieces = {piece: number for number, piece in enumerate(_lines(vocabulary))}
        sides = [
            [[*(pieces[piece] for piece in line.split() if piece in pieces), end] for line in _lines(file)]
            for file in (source, target)
        ]
        self.rows = [{"input_ids": x, "labels": y} for x, y in zip(*sides, strict=True)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, list[int]]:
        return self.rows[place]


class Counting(Seq2SeqTrainer):  # type: ignore[misc]
    """A trainer that records every update."""

    recorder: Recorder

    def training_step(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> torch.Tensor:
        tokens = int((inputs["labels"] != _IGNORED).sum())
        loss: torch.Tensor = super().training_step(model, inputs, *rest, **options)
        self.recorder.update(self.state.global_step + 1, tokens)
        return loss


def _lines(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").rstrip("\n").split("\n")


def main() -> None:
    metrics, seconds, config_file = sys.argv[1], float(sys.argv[2]), sys.argv[4]
    config = yaml.safe_load(Path(config_file).read_text(encoding="utf-8"))
    model = MarianMTModel(MarianConfig(**config["model"]))
    end, pad = model.config.eos_token_id, model.config.pad_token_id

    def collate(rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        ids = _padded([row["input_ids"] for row in rows], pad)
        labels = _padded([row["labels"] for row in rows], _IGNORED)
        # Needed because the model does not receive the labels when label smoothing is used.
        decoder_input = model.prepare_decoder_input_ids_from_labels(labels)
        return {
            "input_ids": ids,
            "attention_mask": (ids != pad).long(),
            "labels": labels,
            "decoder_input_ids": decoder_input,
        }

    trainer = Counting(
        model=model,
        args=Seq2SeqTrainingArguments(**config["training"]),
        train_dataset=Pairs(**config["data"], end=end),
        data_collator=collate,
    )
    trainer.recorder = Recorder(metrics, seconds)
    trainer.train()


def _padded(rows: list[list[int]], filler: int) -> torch.Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


if __name__ == "__main__":
    main()
