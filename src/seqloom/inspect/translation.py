"""Outputs of a model for one text, with the probability of every token; and the alternatives of a token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from seqloom.decode.config import SamplingConfig, SearchConfig
from seqloom.decode.torch_translator import TorchTranslator
from seqloom.decode.translator import Translator
from seqloom.errors import SeqloomError
from seqloom.inspect.labels import END
from seqloom.inspect.viewed_run import ViewedRun, check_length
from seqloom.settings import Settings
from seqloom.types import BOS, EOS, PAD, Hypothesis, Request

VERSION = 1  # of both documents
_DIGITS = 6


class TranslationOptions(Settings):
    """A text, and what is asked of its outputs."""

    text: str = Field("", description="source text")
    prefix_tokens: tuple[str, ...] = Field((), description="tokens that the output begins with")
    prefix: str = Field("", description="text that the output begins with, after these tokens")
    beam: int | None = Field(None, ge=1, le=100, description="beam size; None = that of the run")
    nbest: int = Field(5, ge=1, le=100, description="number of outputs, at most `beam`")
    length_penalty: float | None = Field(None, ge=0, le=10, description="exponent of the length")
    temperature: float | None = Field(
        None, ge=0, le=100, description="sample at this temperature instead of searching"
    )
    seed: int = Field(1, ge=0, description="seed of the samples")
    require: tuple[str, ...] = Field((), description="words that every output contains")
    forbid: tuple[str, ...] = Field((), description="words that no output contains")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")

    def search(self, default: SearchConfig) -> dict[str, Any]:
        """Return the search options that differ from those of a run."""
        beam = default.beam if self.beam is None else self.beam
        given: dict[str, Any] = {"beam": beam, "nbest": min(self.nbest, beam)}
        if self.length_penalty is not None:
            given["length_penalty"] = self.length_penalty
        if self.require:
            given["require"] = (*default.require, *self.require)
        if self.forbid:
            given["forbid"] = (*default.forbid, *self.forbid)
        return given


def translation(viewed: ViewedRun, options: TranslationOptions) -> dict[str, Any]:
    """Return the n best outputs of a text, or samples, with the log-probability of every token."""
    translator = viewed.translator(options.checkpoint)
    check_length(translator, options.text)
    translator = translator.with_search(options.search(translator.search))
    prefix = forced_tokens(translator, options)
    request = Request(options.text, prefix)
    if options.temperature is None:
        found = translator.translate(request)
    else:
        samples = 1 if options.temperature == 0 else options.nbest
        sampling = {"samples": samples, "seed": options.seed, "temperature": options.temperature}
        found = translator.sample(request, SamplingConfig.checked(sampling, "sampling"))
    source = [] if not found[0].source_tokens else [*found[0].source_tokens, END]
    return {
        "view": "translation",
        "version": VERSION,
        "source": options.text,
        "source_tokens": source,
        "prefix_tokens": list(prefix),
        "engine": translator.engine,
        "strategy": "search" if options.temperature is None else "sampling",
        "beam": translator.search.beam,
        "hypotheses": [hypothesis_data(one) for one in found],
    }


def forced_tokens(translator: Translator, options: TranslationOptions) -> tuple[str, ...]:
    """Return the tokens with which the output must begin."""
    tokens = options.prefix_tokens
    if not options.prefix:
        return tokens
    if not isinstance(translator, TorchTranslator):
        raise SeqloomError(f"{translator.description} does not support prefixes.", translator.alternative)
    (one,) = translator.encode([Request(options.text, options.prefix)], translator.search)
    return (*tokens, *translator.tokenizers.target.pieces(one.prefix))


def hypothesis_data(one: Hypothesis) -> dict[str, Any]:
    """Return an output with the log-probability of every token."""
    ends = [END] * (len(one.token_log_probs) - len(one.tokens)) if one.token_log_probs else []
    return {
        "text": one.text,
        "score": rounded(one.score),
        "log_prob": rounded(one.log_prob),
        "tokens": [*one.tokens, *ends],
        "log_probs": [rounded(value) for value in one.token_log_probs],
        "finished": one.finished,
        "flags": list(one.flags),
    }


def rounded(value: float) -> float | None:
    """Return a number with six decimals; None if it is not finite, which JSON cannot hold."""
    return round(value, _DIGITS) if math.isfinite(value) else None


class AlternativesOptions(Settings):
    """A place in an output: what comes before, and how many alternatives to list."""

    text: str = Field("", description="source text")
    prefix_tokens: tuple[str, ...] = Field((), description="tokens of the output before the place")
    token: str | None = Field(None, description="token to list with its rank, whatever its rank is")
    count: int = Field(20, ge=1, le=100, description="number of alternatives")
    continued: int = Field(5, ge=0, le=20, description="number of alternatives that are continued")
    checkpoint: str | None = Field(None, description="name of the checkpoint; None = the best one")


@torch.inference_mode()
def alternatives(viewed: ViewedRun, options: AlternativesOptions) -> dict[str, Any]:
    """Return the most probable tokens at one place of an output, with the continuation of the first ones."""
    translator = viewed.torch_translator(options.checkpoint)
    check_length(translator, options.text)
    log_probs = _next_log_probs(translator, options)
    order = log_probs.argsort(descending=True, stable=True).tolist()
    shown = [id for id in order[: options.count] if log_probs[id] > -math.inf]
    if options.token is not None:
        (own,) = [EOS] if options.token == END else translator.tokenizers.target.ids_of((options.token,))
        shown += [own] if own not in shown else []
    rank = {id: number for number, id in enumerate(order, 1)}
    continued = _continuations(translator, options, [id for id in shown if rank[id] <= options.continued])
    rows = []
    for id in shown:
        rows.append(
            {
                "token": _piece(translator, id),
                "rank": rank[id],
                "log_prob": rounded(float(log_probs[id])),
                "probability": rounded(float(log_probs[id].exp())),
                **continued.get(id, {}),
            }
        )
    return {
        "view": "alternatives",
        "version": VERSION,
        "source": options.text,
        "prefix_tokens": list(options.prefix_tokens),
        "entropy": rounded(float(-(log_probs.exp() * log_probs.clamp_min(-1e9)).sum())),
        "alternatives": rows,
    }


def _next_log_probs(translator: TorchTranslator, options: AlternativesOptions) -> Tensor:
    """Return log P (V,) of the token after the prefix, without PAD and BOS, as the search sees it."""
    request = Request(options.text, options.prefix_tokens)
    if not options.text.strip():
        raise SeqloomError("The text is empty.", "give a text to translate")
    problem = translator.problem(request, translator.search)
    memory, state = problem.model.start(problem.sentence)
    prefix = translator.tokenizers.target.ids_of(options.prefix_tokens)
    for id in (BOS, *prefix):
        last = problem.sentence.source_lengths.new_tensor([id])
        log_probs, state, _ = problem.model.step(memory, state, last)
    row = log_probs[0].double()
    row[[PAD, BOS]] = -math.inf
    return row.cpu()


def _continuations(
    translator: TorchTranslator, options: AlternativesOptions, ids: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Return the output that follows each token, by the search of the run."""
    one_output = translator.with_search({"nbest": 1})
    followed = [id for id in ids if id != EOS]
    prefixes = [(*options.prefix_tokens, _piece(translator, id)) for id in followed]
    outputs = one_output.translate([Request(options.text, prefix) for prefix in prefixes]) if followed else []
    return {
        id: {"continuation": many[0].text, "total": rounded(many[0].log_prob)}
        for id, many in zip(followed, outputs, strict=True)
    }


def _piece(translator: TorchTranslator, id: int) -> str:
    return END if id == EOS else translator.tokenizers.target.pieces([id])[0]
