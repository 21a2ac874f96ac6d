"""The own API: /v1/translate with everything that the models can do, and /v1/score."""

from __future__ import annotations

import math
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from seqloom.document.document import DocumentResult, TranslatedSegment
from seqloom.document.formats import FORMATS
from seqloom.document.glossary import Glossary, Term
from seqloom.document.segments import Segment
from seqloom.document.translation import DocumentOptions
from seqloom.serve.bodies import check_text, read_model
from seqloom.serve.context import Context, Route, info_of, unless_gone
from seqloom.serve.errors import bad_request, json_response
from seqloom.serve.events import Send, event_response
from seqloom.serve.jobs import DecodingTask, Item, PartialOutput
from seqloom.serve.models import Served
from seqloom.serve.options import document_options
from seqloom.serve.own_models import Asked, ScoreRequest, TranslateRequest
from seqloom.serve.reproduce import translate_command
from seqloom.serve.translation import Callbacks, Caller, TranslatedText, run_items, translate_texts
from seqloom.types import Hypothesis

_Place = tuple[int | None, int | None]


def routes(context: Context) -> list[Route]:
    """Return the routes."""
    api = OwnApi(context)
    return [
        Route("/v1/translate", {"POST": api.translate}, "object"),
        Route("/v1/score", {"POST": api.score}, "object"),
    ]


class OwnApi:
    """Handlers of the routes."""

    def __init__(self, context: Context) -> None:
        self._context, self._limits = context, context.limits

    async def translate(self, request: Request) -> Response:
        """Translate texts with all options of the command line."""
        asked = await read_model(request, TranslateRequest, self._limits)
        caller = self._caller(request, asked)
        self._check(asked)
        model = self._context.use(request, self._model(asked), len(asked.texts))
        _check_capabilities(asked, model)
        work = _Translation(asked, model, caller, info_of(request).id)
        if asked.stream:
            return await event_response(work.stream)
        return json_response(await unless_gone(request, work.run()))

    async def score(self, request: Request) -> Response:
        """Return the probabilities of given targets."""
        asked = await read_model(request, ScoreRequest, self._limits)
        caller = self._caller(request, asked)
        if len(asked.pairs) > self._limits.texts:
            raise bad_request(f"The limit is {self._limits.texts:,} pairs.", "pairs", "too_many_texts")
        for pair in asked.pairs:
            check_text(pair.source, self._limits, "pairs")
            check_text(pair.target, self._limits, "pairs")
        model = self._context.use(request, self._model(asked), len(asked.pairs))
        items = [
            Item(pair.source, model.tokens(pair.source) + model.target_tokens(pair.target), target=pair.target)
            for pair in asked.pairs
        ]
        outputs = await unless_gone(request, run_items(model, items, DecodingTask(kind="score"), caller))
        found = [output.hypotheses[0] for output in outputs]
        return json_response(
            {
                "id": info_of(request).id,
                "model": model.name,
                "checkpoint": model.info.checkpoint,
                "outputs": [
                    {
                        "score": one.score,
                        "log_prob": one.log_prob,
                        "tokens": one.tokens,
                        "log_probs": one.token_log_probs,
                    }
                    for one in found
                ],
                "usage": {
                    "source_tokens": sum(model.tokens(pair.source) for pair in asked.pairs),
                    "target_tokens": sum(len(one.tokens) for one in found),
                },
                "timing": _timing(caller),
            }
        )

    def _caller(self, request: Request, asked: Asked) -> Caller:
        caller = self._context.admit(request)
        if asked.timeout_ms is None:
            return caller
        return Caller(caller.client, min(caller.seconds, asked.timeout_ms / 1000), caller.started)

    def _model(self, asked: Asked) -> Served:
        if asked.model is not None:
            return self._context.models.named(asked.model)
        if asked.source is not None and asked.target is not None:
            return self._context.models.of_pair(asked.source, asked.target)
        return self._context.models.only()

    def _check(self, asked: TranslateRequest) -> None:
        """Raise if a value exceeds a limit of the server."""
        limits = self._limits
        if len(asked.texts) > limits.texts:
            raise bad_request(f"The limit is {limits.texts:,} texts.", "texts", "too_many_texts")
        samples = asked.sampling.samples if asked.sampling else 1
        for name, value in (("beam", asked.beam or 1), ("nbest", asked.nbest), ("sampling.samples", samples)):
            if value > limits.beam:
                raise bad_request(f"{name} is {value}; the limit is {limits.beam}.", name, "too_large")
        if asked.format not in FORMATS:
            raise bad_request(f"The formats are {', '.join(FORMATS)}.", "format", "unsupported_format")
        for text in asked.texts:
            check_text(text, limits, "texts")
        phrases = [phrase for one in asked.constraints() for phrase in (one[0], *one[1])]
        terms = [form for source, targets in asked.glossary.items() for form in (source, *targets)]
        for text in (*phrases, *asked.forbid, *terms):
            check_text(text, limits, "texts")
        if not all(term.strip() for term in terms):
            raise bad_request("A term of the glossary is empty.", "glossary")


def _check_capabilities(asked: TranslateRequest, model: Served) -> None:
    """Raise if the model cannot do what is asked."""
    if model.info.kind != "translate":
        raise bad_request(f"{model.name} is a language model: use /v1/completions.", "model", "unsupported")
    needs = {
        "nbest": asked.nbest > 1,
        "alignment": asked.alignment,
        "prefix": any(asked.prefix),
        "require": bool(asked.require),
        "glossary": bool(asked.glossary),
        "sampling": asked.sampling is not None,
        "scores": asked.scores,
    }
    capability = {"require": "required", "glossary": "required", "scores": "token_scores"}
    for name, needed in needs.items():
        if needed and capability.get(name, name) not in model.info.capabilities:
            raise bad_request(f"The model {model.name} does not support {name}.", name, "unsupported")


class _Translation:
    """A request of /v1/translate."""

    def __init__(self, asked: TranslateRequest, model: Served, caller: Caller, id: str) -> None:
        self._asked, self._model, self._caller, self._id = asked, model, caller, id
        beam = asked.beam
        if asked.nbest > 1 and beam is None:
            beam = max(model.info.beam, asked.nbest)
        self._task = DecodingTask(
            beam=beam,
            nbest=asked.nbest,
            forbid=tuple(asked.forbid),
            alignment=asked.alignment,
            scores=True,
            sampling=asked.sampling,
            max_length=asked.max_length,
        )

    def _options(self) -> DocumentOptions:
        asked = self._asked
        terms = [Term((source,), tuple(targets)) for source, targets in asked.glossary.items()]
        split = asked.split or ("none" if asked.constraints() else None)
        return document_options(self._model, format=asked.format, split=split, glossary=Glossary(terms))

    async def _translate(self, callbacks: Callbacks | None = None) -> list[TranslatedText]:
        return await translate_texts(
            self._model,
            self._asked.texts,
            self._options(),
            self._task,
            self._caller,
            constraints=self._asked.constraints(),
            callbacks=callbacks,
        )

    async def run(self) -> dict[str, object]:
        """Return the response."""
        return self._response(await self._translate())

    async def stream(self, send: Send) -> None:
        """Send the output so far of a single segment, or each segment of several, and then the response."""
        is_first = True

        def observe_first() -> None:
            nonlocal is_first
            if is_first:
                self._model.metrics.first_token_seconds.observe(self._caller.elapsed)
            is_first = False

        def on_partial(partial: PartialOutput) -> None:
            observe_first()
            send(
                {
                    "type": "partial",
                    "text": partial.text,
                    "tokens": partial.tokens,
                    "provisional": partial.provisional,
                }
            )

        def on_segment(text: int, number: int, segment: Segment, hypothesis: Hypothesis) -> None:
            observe_first()
            send(
                {
                    "type": "segment",
                    "index": text,
                    "segment": number,
                    "source": segment.source,
                    "text": hypothesis.text,
                }
            )

        texts = await self._translate(Callbacks(on_partial, on_segment))
        send({"type": "result", **self._response(texts)})

    def _response(self, texts: Sequence[TranslatedText]) -> dict[str, object]:
        model, items = self._model, [item for text in texts for item in text.items]
        found = [one.hypothesis for text in texts for one in text.best.segments]
        target_tokens = (len(one.tokens) or model.target_tokens(one.text) for one in found)
        return {
            "id": self._id,
            "model": model.name,
            "checkpoint": model.info.checkpoint,
            "engine": "+".join(sorted(frozenset[str]().union(*(text.engines for text in texts)))),
            "outputs": [self._text(*pair) for pair in zip(self._asked.texts, texts, strict=True)],
            "usage": {"source_tokens": sum(one.tokens for one in items), "target_tokens": sum(target_tokens)},
            "timing": _timing(self._caller),
            "reproduce": translate_command(model.spec, self._task, items),
        }

    def _text(self, original: str, text: TranslatedText) -> dict[str, object]:
        segments = text.best.segments
        sources = _places(original, [one.segment.raw for one in segments])
        outputs = _places(text.best.text, [one.text for one in segments])
        alternatives = [{"text": one.text, **_scores(one)} for one in text.results[1:]]
        return {
            "text": text.best.text,
            **_scores(text.best),
            "flags": sorted(text.best.flags),
            "alternatives": alternatives,
            "segments": [
                self._segment(one, *places) for one, *places in zip(segments, sources, outputs, strict=True)
            ],
        }

    def _segment(self, one: TranslatedSegment, source: _Place, output: _Place) -> dict[str, object]:
        hypothesis, asked = one.hypothesis, self._asked
        values: dict[str, object] = {
            "source": one.segment.source,
            "source_start": source[0],
            "source_end": source[1],
            "text": one.text,
            "start": output[0],
            "end": output[1],
            "score": hypothesis.score,
            "log_prob": hypothesis.log_prob,
            "flags": one.flags,
        }
        if asked.scores or asked.alignment:
            values |= {"tokens": hypothesis.tokens, "log_probs": hypothesis.token_log_probs}
        if asked.alignment:
            values |= {"source_tokens": hypothesis.source_tokens, "alignment": hypothesis.alignment}
        return values


def _scores(result: DocumentResult) -> dict[str, float | None]:
    """Return the scores of a text: the mean score and the total log-probability of its segments."""
    found = [one.hypothesis for one in result.segments]
    if not found:
        return {"score": None, "log_prob": None}
    return {
        "score": math.fsum(one.score for one in found) / len(found),
        "log_prob": math.fsum(one.log_prob for one in found),
    }


def _places(text: str, parts: Sequence[str]) -> list[_Place]:
    """Return the start and end of each part in a text; None where markup divides it."""
    places, position = list[_Place](), 0
    for part in parts:
        start = text.find(part, position)
        if start < 0:
            places.append((None, None))
            continue
        position = start + len(part)
        places.append((start, position))
    return places


def _timing(caller: Caller) -> dict[str, float]:
    return {"total_ms": round(1000 * caller.elapsed, 2)}
