"""Requests and responses of the own API; the OpenAPI document comes from the same models."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from seqloom.decode.config import SamplingConfig
from seqloom.document.sentences import Split


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(_one_or_many, json_schema_input_type=str | list[str])]
Phrases = list[Annotated[str, Field(min_length=1, max_length=1000)]]


class Asked(BaseModel):
    """Fields of a request; an unknown one is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: Annotated[str | None, Field(description="name of the model")] = None
    source: Annotated[str | None, Field(description="source language, in place of the model's name")] = None
    target: Annotated[str | None, Field(description="target language")] = None
    timeout_ms: Annotated[int | None, Field(gt=0, le=3_600_000, description="longest time to wait")] = None

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if (self.source is None) != (self.target is None):
            raise ValueError("source and target must be given together")
        if self.model is not None and self.source is not None:
            raise ValueError("give either model, or source and target")
        return self


class TranslateRequest(Asked):
    """Request of /v1/translate."""

    texts: Annotated[Texts, Field(min_length=1, description="texts to translate")]
    beam: Annotated[int | None, Field(ge=1, description="beam size; 1 is greedy; default: that of the run")] = (
        None
    )
    nbest: Annotated[int, Field(ge=1, description="outputs per text")] = 1
    sampling: Annotated[SamplingConfig | None, Field(description="sample instead of searching")] = None
    prefix: Annotated[Texts, Field(description="beginning of the output, of all texts or of each")] = []
    require: Annotated[
        Phrases | list[Phrases], Field(description="phrases of the output, of all texts or of each")
    ] = []
    forbid: Annotated[Phrases, Field(max_length=100, description="words that no output contains")] = []
    glossary: Annotated[
        dict[str, Texts],
        Field(max_length=1000, description="terms and their translations, any of which is right"),
    ] = {}
    split: Annotated[
        Split | None, Field(description="segments; default: sentences for languages, else lines")
    ] = None
    format: Annotated[str, Field(description="format of the texts")] = "text"
    alignment: Annotated[bool, Field(description="return attention weights")] = False
    scores: Annotated[bool, Field(description="return tokens with their log-probabilities")] = False
    max_length: Annotated[int | None, Field(ge=1, le=100_000, description="maximum tokens per segment")] = None
    stream: Annotated[bool, Field(description="send outputs as server-sent events")] = False

    @model_validator(mode="after")
    def _options_agree(self) -> Self:
        if self.sampling is not None and (self.beam is not None or self.nbest > 1):
            raise ValueError("sampling has no beam and no nbest; use sampling.samples")
        if self.sampling is not None and (self.alignment or self.require or self.glossary):
            raise ValueError("sampling has no alignment, required phrases and glossary")
        if self.beam is not None and self.nbest > self.beam:
            raise ValueError("nbest exceeds beam")
        for name in ("prefix", "require"):
            given = getattr(self, name)
            each = len(given) > 1 if name == "prefix" else bool(given) and isinstance(given[0], list)
            if each and len(given) != len(self.texts):
                raise ValueError(f"{name} must be given once, or once per text")
        return self

    def constraints(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the prefix and the required phrases of each text; empty if there are none."""
        if not self.prefix and not self.require:
            return []
        count = len(self.texts)
        prefixes = self.prefix * count if len(self.prefix) == 1 else self.prefix or [""] * count
        phrases: list[tuple[str, ...]] = [
            tuple(one) if isinstance(one, list) else tuple(p for p in self.require if isinstance(p, str))
            for one in (self.require if self.require and isinstance(self.require[0], list) else [None] * count)
        ]
        return list(zip(prefixes, phrases, strict=True))


class TextPair(BaseModel):
    """Source and target to score."""

    model_config = ConfigDict(extra="forbid")

    source: str
    target: str


class ScoreRequest(Asked):
    """Request of /v1/score."""

    pairs: Annotated[list[TextPair], Field(min_length=1)]


class Alternative(BaseModel):
    """Another output of a text."""

    text: str
    score: float | None
    log_prob: float | None


class SegmentResult(BaseModel):
    """Sentence or line of a text, with its place there and in the output."""

    source: str
    source_start: int | None
    source_end: int | None
    text: str
    start: int | None
    end: int | None
    score: float | None
    log_prob: float | None
    flags: list[str]
    tokens: list[str] | None = None
    log_probs: list[float | None] | None = None
    source_tokens: list[str] | None = None
    alignment: list[list[float]] | None = None


class TextResult(BaseModel):
    """Output of a text."""

    text: str
    score: float | None
    log_prob: float | None
    flags: list[str]
    alternatives: list[Alternative]
    segments: list[SegmentResult]


class Usage(BaseModel):
    """Tokens of a request."""

    source_tokens: int
    target_tokens: int


class Timing(BaseModel):
    """Time of a request in milliseconds."""

    total_ms: float


class TranslateResponse(BaseModel):
    """Response of /v1/translate."""

    id: str
    model: str
    checkpoint: str
    engine: str
    outputs: list[TextResult]
    usage: Usage
    timing: Timing
    reproduce: str


class ScoreResult(BaseModel):
    """Score of a pair: log P(target | source), and its mean per token."""

    score: float | None
    log_prob: float | None
    tokens: list[str]
    log_probs: list[float | None]


class ScoreResponse(BaseModel):
    """Response of /v1/score."""

    id: str
    model: str
    checkpoint: str
    outputs: list[ScoreResult]
    usage: Usage
    timing: Timing


class ErrorDetail(BaseModel):
    """Content of an error."""

    message: str
    type: str
    param: str | None
    code: str


class ObjectError(BaseModel):
    """Error."""

    error: ErrorDetail
