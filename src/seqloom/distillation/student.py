"""Configuration and training of a student that shares the tokenizers of its teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.models.transformer import TransformerSettings
from seqloom.run.config import Config, assigned, compose
from seqloom.run.directory import Run
from seqloom.run.train import continue_run, create_and_train
from seqloom.training.checkpoint import TrainState

# Most of the decoding time is spent in the decoder, which runs once per output token: a deep encoder and a
# decoder of one layer keep the quality at a fraction of the time (Kasai et al. 2021, arXiv:2006.10369).
_DEEP_ENCODER: Mapping[str, Any] = {"layers": 6, "decoder_layers": 1}
_FIXED = ("text.", "data.", "train.init_from")  # options that follow from the teacher and the distilled pairs


@dataclass(frozen=True)
class StudentOptions:
    """Options of the student; None: the default."""

    name: str | None = None
    size: str | None = None
    minutes: float | None = None
    best_by: str = "bleu"  # metric that selects the best checkpoint, unless `assignments` set another one
    assignments: Sequence[str] = ()
    device: str = "auto"
    threads: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the options that the student depends on."""
        return {name: value for name, value in asdict(self).items() if name not in ("device", "threads")}


def student_config(teacher: Config, pairs: Path, valid: Path, options: StudentOptions) -> Config:
    """Return the configuration of a student for these pairs, with the text options of its teacher.

    The default architecture is a Transformer with 6 encoder layers and 1 decoder layer. Its other options are
    those of the teacher if the teacher is a Transformer. A metric selects the best checkpoint: the loss on
    references is high for a student whose distribution is as narrow as the outputs of its teacher.
    """
    keys = [key for key, _ in assigned(options.assignments)]
    for key in keys:
        if key.startswith(_FIXED):
            raise SeqloomError(
                f"{key} cannot be set: a student uses the tokenizers of its teacher, the distilled pairs, and "
                "new weights.",
                "set options of the sections model, train and search",
            )
    values = {
        "model": _model(teacher, options),
        "text": teacher.text.model_dump(mode="json"),
        "search": teacher.search.model_copy(update={"shortlist": False, "nbest": 1}).model_dump(mode="json"),
        "data": teacher.data.model_dump(mode="json", include={"max_length", "max_frames", "long"}),
        "data.train": [str(pairs)],
        "data.valid": [str(valid)],
        "train.max_minutes": options.minutes,
        "train.device": options.device,
        "train.threads": options.threads,
    }
    if not {"train.metrics", "train.best_by"} & {*keys}:
        values |= {"train.metrics": [options.best_by], "train.best_by": options.best_by}
    return compose(values=values, assignments=options.assignments)


def _model(teacher: Config, options: StudentOptions) -> dict[str, Any]:
    if options.name is not None or options.size is not None:
        given = {"name": options.name or "transformer", "size": options.size}
        shape = {} if options.name else _DEEP_ENCODER
        return {name: value for name, value in {**given, **shape}.items() if value is not None}
    inherited = teacher.model.model_dump(mode="json") if isinstance(teacher.model, TransformerSettings) else {}
    return {"name": "transformer", **inherited, **_DEEP_ENCODER}


def train_student(config: Config, teacher: Run, folder: Path) -> TrainState:
    """Train a student in a new run directory, or continue the training of an existing one."""
    if folder.exists():
        return continue_run(Run.open(folder))
    return create_and_train(config, folder, tokenizers=teacher.tokenizers())
