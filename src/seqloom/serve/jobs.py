"""Types that the scheduler and the worker process share. All of them have a form in JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from seqloom.decode.config import SamplingConfig
from seqloom.settings import Settings
from seqloom.types import Hypothesis

Kind = Literal["translate", "generate", "score", "view"]
_HYPOTHESIS = tuple(field.name for field in fields(Hypothesis))


class ModelSpec(NamedTuple):
    """A model to serve: its name, and how to load it."""

    name: str
    folders: tuple[str, ...]  # several: an ensemble
    engine: str = "auto"  # "views": documents of inspect for the studio
    device: str = "auto"
    threads: int | None = None
    checkpoint: str | None = None
    imports: tuple[str, ...] = ()  # the user's Python files that define models

    def command(self) -> str:
        """Return the arguments of `seqloom translate` that load this model."""
        first, *others = map(shlex.quote, self.folders)
        parts = [first, *(f"--ensemble {folder}" for folder in others), f"--engine {self.engine}"]
        if self.checkpoint:
            parts.append(f"--checkpoint {self.checkpoint}")
        return " ".join(parts)


class ModelInfo(Settings):
    """Description of a loaded model, which the worker sends when it is ready."""

    kind: Kind  # what the model does: translate or generate (continue a text)
    architecture: str
    engine: str
    checkpoint: str
    created: int  # time of the checkpoint in seconds since 1970
    languages: tuple[str, ...] = ()  # source and target language, if the run records them
    capabilities: tuple[str, ...]
    beam: int  # default beam of the run
    longest: int  # maximum length of a segment in source tokens
    tokenizers: str  # folder of the tokenizers
    seconds_per_token: float  # measured when the model was warmed


class DecodingTask(Settings):
    """Options of a request. Items with equal tasks are decoded in one batch."""

    kind: Kind = "translate"
    beam: int | None = None  # hypotheses kept per sentence; None = that of the run
    nbest: int = 1
    forbid: tuple[str, ...] = ()
    alignment: bool = False
    scores: bool = False  # return tokens and their log-probabilities
    sampling: SamplingConfig | None = None  # sample instead of searching
    max_length: int | None = None  # maximum number of tokens per output
    stream: bool = False  # report every step; the item is a batch by itself

    def rows(self, default_beam: int) -> int:
        """Return the number of hypotheses per item."""
        if self.sampling is not None:
            return self.sampling.samples
        return 1 if self.kind in ("score", "view") else self.beam or default_beam


@dataclass(frozen=True, slots=True)
class Item:
    """One sentence to translate or score, or one prompt."""

    source: str
    tokens: int = 1  # length of the source, for batches of similar length
    prefix: str = ""
    required: tuple[str | tuple[str, ...], ...] = ()  # phrases; a tuple: any of these
    target: str | None = None  # text to score
    key: int | None = None  # distinguishes equal lines when sampling

    def as_json(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if name == "source" or value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Item:
        """Return the item of `as_json`."""
        phrases = (tuple(one) if isinstance(one, list) else one for one in values.get("required", ()))
        return cls(**{**values, "required": tuple(phrases)})


@dataclass(frozen=True, slots=True)
class Output:
    """Hypotheses of an item, best first, or the reason why there are none."""

    hypotheses: tuple[Hypothesis, ...] = ()
    engine: str = ""
    error: str = ""
    is_internal: bool = False  # whether the error is a fault of the server, not of the request
    hint: str = ""
    document: str = ""  # JSON text of a view

    def as_json(self) -> dict[str, Any]:
        """Return the output without empty fields."""
        hypotheses = [
            {name: value for name in _HYPOTHESIS if (value := getattr(one, name)) not in ((), "")}
            for one in self.hypotheses
        ]
        values = {
            "error": self.error,
            "is_internal": self.is_internal,
            "hint": self.hint,
            "document": self.document,
        }
        return {"hypotheses": hypotheses, "engine": self.engine} | {k: v for k, v in values.items() if v}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Output:
        """Return the output of `as_json`."""
        found = tuple(_hypothesis(one) for one in values["hypotheses"])
        others = {name: value for name, value in values.items() if name not in ("hypotheses", "engine")}
        return cls(found, values["engine"], **others)


def _hypothesis(values: Mapping[str, Any]) -> Hypothesis:
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    if "alignment" in lists:
        lists["alignment"] = tuple(map(tuple, lists["alignment"]))
    return Hypothesis(**{"text": "", **values, **lists})


@dataclass(frozen=True, slots=True)
class PartialOutput:
    """Output of a streaming item so far."""

    text: str
    tokens: tuple[str, ...]
    provisional: bool  # whether a later step may replace it: the best open hypothesis of a beam


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Outputs of a batch, and the time that the worker took."""

    outputs: list[Output]
    seconds: float
    source_tokens: int = 0
    target_tokens: int = 0


class Cancelled(Exception):
    """Nobody waits for the batch any more."""


Reason = Literal["queue_full", "deadline", "worker", "draining"]


class Unavailable(Exception):
    """The work cannot be done now; `retry_after` seconds later it may."""

    def __init__(self, reason: Reason, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.reason, self.message, self.retry_after = reason, message, retry_after
