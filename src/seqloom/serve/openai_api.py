"""Completions in the form of OpenAI: of language models, and of translators with the source as prompt."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from seqloom.decode.config import SamplingConfig
from seqloom.serve.bodies import check_text, read_model
from seqloom.serve.context import Context, Route, info_of, unless_gone
from seqloom.serve.errors import bad_request, json_response
from seqloom.serve.events import Send, event_response
from seqloom.serve.jobs import DecodingTask, Item, PartialOutput
from seqloom.serve.models import Served
from seqloom.serve.options import document_options
from seqloom.serve.own_models import Texts
from seqloom.serve.translation import Callbacks, Caller, run_items, translate_texts
from seqloom.types import Hypothesis

_MAX_TOKENS = 16  # default of OpenAI, for language models
_MOST_STOPS = 4


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool = False


class CompletionRequest(BaseModel):
    """Request of /v1/completions. Fields without an effect here must have their default."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: str
    prompt: Annotated[Texts, Field(min_length=1)]
    max_tokens: Annotated[int | None, Field(ge=1, le=100_000)] = None
    temperature: Annotated[
        float | None, Field(ge=0, le=2, description="0 is greedy; default: 1, or search")
    ] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    n: Annotated[int | None, Field(ge=1)] = None
    best_of: int | None = None
    seed: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    stop: Texts | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: Annotated[int | None, Field(ge=0, le=5, description="returns those of the chosen tokens")] = None
    echo: bool | None = None
    user: str | None = None
    suffix: None = None
    logit_bias: Annotated[dict[str, float] | None, Field(max_length=0)] = None
    presence_penalty: Annotated[float | None, Field(ge=0, le=0)] = None
    frequency_penalty: Annotated[float | None, Field(ge=0, le=0)] = None

    @property
    def count(self) -> int:
        """Number of outputs per prompt."""
        return self.n or 1

    def sampling(self, default: float | None) -> SamplingConfig | None:
        """Return the options of sampling; None for a search."""
        temperature = default if self.temperature is None else self.temperature
        if temperature is None and self.top_p is None:
            return None
        values: dict[str, object] = {"samples": self.count, "seed": 1 if self.seed is None else self.seed}
        values |= {"temperature": 1.0 if temperature is None else temperature, "top_p": self.top_p or 1.0}
        return SamplingConfig.model_validate(values)


class _Choice(NamedTuple):
    """An output without its prompt, with its tokens."""

    prompt: str
    text: str
    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    is_finished: bool

    def stopped(self, stops: Sequence[str]) -> _Choice:
        """Return the output up to the first of the stop sequences."""
        places = [place for stop in stops if stop and (place := self.text.find(stop)) >= 0]
        if not places:
            return self
        text = self.text[: min(places)]
        kept = sum(offset < len(text) for offset in _offsets(self.text, self.tokens))
        return _Choice(self.prompt, text, self.tokens[:kept], self.log_probs[:kept], True)


def routes(context: Context) -> list[Route]:
    """Return the routes."""
    api = OpenAiApi(context)
    return [
        Route("/v1/completions", {"POST": api.completions}, "object"),
        Route("/v1/models", {"GET": api.models}, "object"),
        Route("/v1/models/{name}", {"GET": api.model}, "object"),
    ]


class OpenAiApi:
    """Handlers of the routes."""

    def __init__(self, context: Context) -> None:
        self._context, self._limits = context, context.limits

    async def models(self, request: Request) -> Response:
        """List the models."""
        self._context.access.client(request)
        ready = [one for one in self._context.models.all.values() if one.tokenizers is not None]
        return json_response({"object": "list", "data": [_described(one) for one in ready]})

    async def model(self, request: Request) -> Response:
        """Describe a model."""
        self._context.access.client(request)
        return json_response(_described(self._context.models.named(request.path_params["name"])))

    async def completions(self, request: Request) -> Response:
        """Continue or translate prompts."""
        asked = await read_model(request, CompletionRequest, self._limits)
        caller = self._context.admit(request)
        self._check(asked)
        model = self._context.use(request, self._context.models.named(asked.model), len(asked.prompt))
        work = _Completion(asked, model, caller, f"cmpl-{info_of(request).id}")
        if asked.stream:
            return await event_response(work.stream)
        return json_response(await unless_gone(request, work.run()))

    def _check(self, asked: CompletionRequest) -> None:
        limits = self._limits
        if len(asked.prompt) > limits.texts:
            raise bad_request(f"The limit is {limits.texts:,} prompts.", "prompt", "too_many_texts")
        if asked.count > limits.beam:
            raise bad_request(f"n is {asked.count}; the limit is {limits.beam}.", "n", "too_large")
        if asked.best_of not in (None, asked.count):
            raise bad_request("best_of must equal n.", "best_of", "unsupported")
        if len(asked.stop or ()) > _MOST_STOPS:
            raise bad_request(f"At most {_MOST_STOPS} stop sequences.", "stop", "too_large")
        if asked.temperature == 0 and asked.count > 1:
            raise bad_request("With temperature 0, all outputs are equal: set n to 1.", "n")
        for text in (*asked.prompt, *(asked.stop or ())):
            check_text(text, limits, "prompt")


def _described(model: Served) -> dict[str, object]:
    info = model.info
    return {
        "id": model.name,
        "object": "model",
        "created": info.created,
        "owned_by": "seqloom",
        "kind": info.kind,
        "architecture": info.architecture,
        "engine": info.engine,
        "checkpoint": info.checkpoint,
        "languages": list(model.languages or ()),
        "capabilities": list(info.capabilities),
    }


class _Completion:
    """A request of /v1/completions."""

    def __init__(self, asked: CompletionRequest, model: Served, caller: Caller, id: str) -> None:
        self._asked, self._model, self._caller, self._id = asked, model, caller, id
        self._is_translator = model.info.kind == "translate"
        self._prompt_tokens = [model.tokens(prompt) for prompt in asked.prompt]
        self._sampling = asked.sampling(None if self._is_translator else 1.0)
        if self._sampling and "sampling" not in model.info.capabilities:
            raise bad_request(
                f"The model {model.name} does not support sampling.", "temperature", "unsupported"
            )

    async def run(self) -> dict[str, object]:
        """Return the response."""
        choices = await self._choices()
        return self._response(
            [self._as_json(i, one) for i, one in enumerate(choices)], usage=self._usage(choices)
        )

    async def _choices(self, callbacks: Callbacks | None = None) -> list[_Choice]:
        find = self._translated if self._is_translator else self._continued
        found = await asyncio.gather(*(find(i, callbacks) for i in range(len(self._asked.prompt))))
        stops = self._asked.stop or []
        return [one.stopped(stops) for many in found for one in many]

    async def _translated(self, number: int, callbacks: Callbacks | None) -> list[_Choice]:
        asked, count = self._asked, self._asked.count
        beam = max(self._model.info.beam, count) if self._sampling is None and count > 1 else None
        task = DecodingTask(
            beam=beam,
            nbest=1 if self._sampling else count,
            scores=asked.logprobs is not None,
            sampling=self._sampling,
            max_length=asked.max_tokens,
        )
        options, prompt = document_options(self._model), asked.prompt[number]
        (found,) = await translate_texts(
            self._model, [prompt], options, task, self._caller, callbacks=callbacks
        )
        return [
            _Choice(
                "",
                one.text,
                tuple(token for part in one.segments for token in part.hypothesis.tokens),
                tuple(value for part in one.segments for value in part.hypothesis.token_log_probs),
                all(part.hypothesis.finished for part in one.segments),
            )
            for one in found.results
        ]

    async def _continued(self, number: int, callbacks: Callbacks | None) -> list[_Choice]:
        prompt, tokens = self._asked.prompt[number], self._prompt_tokens[number]
        longest = min(tokens + (self._asked.max_tokens or _MAX_TOKENS), self._model.info.longest)
        task = DecodingTask(kind="generate", sampling=self._sampling, max_length=max(longest, 1))
        on_partial = callbacks.on_partial if callbacks else None
        if on_partial is not None:
            task = task.model_copy(update={"stream": True})
        items = [Item(prompt, tokens, key=number + 1)]
        (output,) = await run_items(self._model, items, task, self._caller, on_partial=on_partial)
        start = self._given(prompt)
        return [self._choice(start, one) for one in output.hypotheses]

    def _given(self, prompt: str) -> str:
        """Return the prompt as the model repeats it in its output."""
        assert self._model.tokenizers is not None
        target = self._model.tokenizers.target
        kept = prompt if target.settings.kind == "char" else prompt.rstrip()
        return target.decode(target.encode(kept))

    def _choice(self, start: str, one: Hypothesis) -> _Choice:
        text = one.text.removeprefix(start)
        return _Choice(start, text, one.tokens, one.token_log_probs, one.finished)

    async def stream(self, send: Send) -> None:
        """Send pieces of text as they are final, then the reason of the end."""
        asked, sent = self._asked, ""
        is_alone = len(asked.prompt) == 1 and asked.count == 1 and not asked.stop and not asked.echo
        start = "" if self._is_translator else self._given(asked.prompt[0])

        def on_partial(partial: PartialOutput) -> None:
            nonlocal sent
            text = partial.text.removeprefix(start)
            is_prompt = not partial.text.startswith(start)  # the model is still reading it
            if partial.provisional or is_prompt or not text.startswith(sent) or text == sent:
                return
            if not sent:
                self._model.metrics.first_token_seconds.observe(self._caller.elapsed)
            send(self._chunk(0, text[len(sent) :], None))
            sent = text

        choices = await self._choices(Callbacks(on_partial) if is_alone else None)
        for i, one in enumerate(choices):
            values = self._as_json(i, one)
            values["text"] = str(values["text"]).removeprefix(sent)
            send(self._response([values]))
        if asked.stream_options and asked.stream_options.include_usage:
            send(self._response([], usage=self._usage(choices)))

    def _chunk(self, index: int, text: str, reason: str | None) -> dict[str, object]:
        return self._response([{"index": index, "text": text, "logprobs": None, "finish_reason": reason}])

    def _as_json(self, index: int, one: _Choice) -> dict[str, object]:
        text = one.prompt + one.text if self._asked.echo else one.text
        return {
            "index": index,
            "text": text,
            "logprobs": None if self._asked.logprobs is None else _logprobs(one, self._asked.logprobs),
            "finish_reason": "stop" if one.is_finished else "length",
        }

    def _response(
        self, choices: list[dict[str, object]], usage: dict[str, int] | None = None
    ) -> dict[str, object]:
        values: dict[str, object] = {
            "id": self._id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._model.name,
            "choices": choices,
        }
        return values if usage is None else values | {"usage": usage}

    def _usage(self, choices: Sequence[_Choice]) -> dict[str, int]:
        prompt = sum(self._prompt_tokens)
        completion = sum(len(one.tokens) or self._model.target_tokens(one.text) for one in choices)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _offsets(text: str, tokens: Sequence[str]) -> list[int]:
    """Return about where each token begins in the text."""
    offsets, position = [], 0
    for token in tokens:
        place = text.find(token.strip("▁ "), position)
        position = position if place < 0 else place
        offsets.append(position)
        position += len(token.strip("▁ ")) if place >= 0 else 0
    return offsets


def _logprobs(one: _Choice, count: int) -> dict[str, object]:
    """Return log-probabilities of the chosen tokens; the end of the text is not a token here."""
    values = [value if math.isfinite(value) else None for value in one.log_probs[: len(one.tokens)]]
    top = [{token: value} for token, value in zip(one.tokens, values, strict=False)]
    return {
        "tokens": one.tokens,
        "token_logprobs": values,
        "top_logprobs": top if count else None,
        "text_offset": _offsets(one.text, one.tokens),
    }
