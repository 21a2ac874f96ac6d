"""Translation of texts by a served model: documents become items, and outputs become documents again.

As in `document.translation`, all segments are translated without constraints first; those whose output lost a
placeholder or a term are translated again with these required.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from seqloom.document.document import Document, DocumentResult
from seqloom.document.segments import Segment
from seqloom.document.translation import DocumentOptions, Needed
from seqloom.errors import SeqloomError
from seqloom.serve.errors import ApiError, bad_request, timed_out, unavailable
from seqloom.serve.jobs import DecodingTask, Item, Output, PartialOutput, Unavailable
from seqloom.serve.models import Served
from seqloom.types import Hypothesis

_IN_THREAD = 2000  # characters; more are parsed in a thread, so that the event loop stays free


@dataclass(frozen=True, slots=True)
class Caller:
    """Who waits for the outputs, and how long."""

    client: str
    seconds: float
    started: float

    @classmethod
    def new(cls, client: str, seconds: float) -> Caller:
        """Return the caller of a request that begins now."""
        return cls(client, seconds, time.monotonic())

    @property
    def left(self) -> float:
        """Seconds until the request times out."""
        return max(0.001, self.seconds - self.elapsed)

    @property
    def elapsed(self) -> float:
        """Seconds since the request began."""
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """Translations of a text, best first, each with its segments."""

    results: tuple[DocumentResult, ...]
    items: tuple[Item, ...]  # one per segment, with what its output had to contain
    engines: frozenset[str]

    @property
    def best(self) -> DocumentResult:
        """Best translation."""
        return self.results[0]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Receivers of outputs of a streaming request."""

    on_partial: Callable[[PartialOutput], None] | None = None
    on_segment: Callable[[int, int, Segment, Hypothesis], None] | None = None  # text, segment in it


async def run_items(
    model: Served,
    items: Sequence[Item],
    task: DecodingTask,
    caller: Caller,
    *,
    on_partial: Callable[[PartialOutput], None] | None = None,
    on_output: Callable[[int, Output], None] | None = None,
) -> list[Output]:
    """Return the outputs of the items; raise ApiError if there are none."""
    try:
        outputs = await model.scheduler.run(
            items,
            task,
            client=caller.client,
            seconds=caller.left,
            on_partial=on_partial,
            on_output=on_output,
        )
    except Unavailable as error:
        raise unavailable(error) from error
    except TimeoutError as error:
        raise timed_out(caller.seconds) from error
    for output in outputs:
        if output.is_internal:
            raise ApiError(500, "The model failed on this input.", "model_error")
        if output.error:
            raise bad_request(output.error, code="impossible")
        if not output.hypotheses:
            raise bad_request("The model has no output for these options.", code="impossible")
    return outputs


async def translate_texts(
    model: Served,
    texts: Sequence[str],
    options: DocumentOptions,
    task: DecodingTask,
    caller: Caller,
    *,
    constraints: Sequence[tuple[str, tuple[str, ...]]] = (),
    callbacks: Callbacks | None = None,
) -> list[TranslatedText]:
    """Return the translations of texts.

    `constraints` are the prefix and the required phrases of each text, which must be one segment then.
    """
    prepare = _Prepared.of
    if sum(map(len, texts)) > _IN_THREAD:
        prepared = await asyncio.to_thread(prepare, model, texts, options, constraints)
    else:
        prepared = prepare(model, texts, options, constraints)
    callbacks = callbacks or Callbacks()
    if callbacks.on_partial is not None and len(prepared.items) == 1:
        task = task.model_copy(update={"stream": True})
    outputs = await _run_prepared(model, prepared, task, caller, callbacks)
    items, outputs = await _forced(model, prepared, outputs, options, task, caller)
    if model.on_translated is not None:
        model.on_translated(task, items, outputs)
    return prepared.assemble(items, outputs, options)


async def _run_prepared(
    model: Served, prepared: _Prepared, task: DecodingTask, caller: Caller, callbacks: Callbacks
) -> list[Output]:
    """Return the outputs of all items; with an alignment for inline markup, which moves with its words."""
    can_align = task.sampling is None and "alignment" in model.info.capabilities
    report = prepared.reporter(callbacks.on_segment) if callbacks.on_segment and not task.stream else None
    groups: dict[bool, list[int]] = {}
    for i, is_tagged in enumerate(prepared.tagged):
        groups.setdefault(task.alignment or (is_tagged and can_align), []).append(i)

    async def run(alignment: bool, places: list[int]) -> list[Output]:
        def on_output(position: int, output: Output) -> None:
            assert report is not None
            report(places[position], output)

        return await run_items(
            model,
            [prepared.items[i] for i in places],
            task.model_copy(update={"alignment": alignment}),
            caller,
            on_partial=callbacks.on_partial if task.stream else None,
            on_output=on_output if report else None,
        )

    found = await asyncio.gather(*(run(*group) for group in groups.items()))
    outputs = {
        i: output
        for places, own in zip(groups.values(), found, strict=True)
        for i, output in zip(places, own, strict=True)
    }
    return [outputs[i] for i in range(len(prepared.items))]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Documents with an item for each of their segments, in order."""

    documents: list[Document]
    items: list[Item]
    needed: list[Needed]
    tagged: list[bool]  # whether the segment of an item has inline markup

    @classmethod
    def of(
        cls,
        model: Served,
        texts: Sequence[str],
        options: DocumentOptions,
        constraints: Sequence[tuple[str, tuple[str, ...]]],
    ) -> _Prepared:
        try:
            documents = [options.parse(text) for text in texts]
        except SeqloomError as error:
            raise bad_request(error.message) from error
        finder, items, needed, tagged = options.finder, list[Item](), list[Needed](), list[bool]()
        for number, document in enumerate(documents):
            prefix, required = constraints[number] if constraints else ("", ())
            if (prefix or required) and len(document.segments) != 1:
                raise bad_request("A text with a prefix or required phrases must be one segment.", "texts")
            for segment in document.segments:
                source, key = segment.source, len(items) + 1
                items.append(Item(source, model.tokens(source), prefix, required, key=key))
                needed.append(Needed.of(source, finder, options.glossary))
                tagged.append(segment.has_tags)
        return cls(documents, items, needed, tagged)

    def reporter(
        self, on_segment: Callable[[int, int, Segment, Hypothesis], None]
    ) -> Callable[[int, Output], None]:
        """Return a function that reports the output of an item as that of its segment."""
        places = [
            (number, i, segment)
            for number, document in enumerate(self.documents)
            for i, segment in enumerate(document.segments)
        ]

        def report(position: int, output: Output) -> None:
            if output.hypotheses:
                on_segment(*places[position], output.hypotheses[0])

        return report

    def assemble(
        self, items: Sequence[Item], outputs: Sequence[Output], options: DocumentOptions
    ) -> list[TranslatedText]:
        """Return the documents with their outputs, flagged if they lack a placeholder or a term."""
        finder, translated, start = options.finder, list[TranslatedText](), 0
        for document in self.documents:
            places = range(start, start := start + len(document.segments))
            count = min((len(outputs[i].hypotheses) for i in places), default=1)
            results = []
            for rank in range(count):
                chosen = [outputs[i].hypotheses[rank] for i in places]
                faults = [
                    self.needed[i].faults(one.text, finder) for i, one in zip(places, chosen, strict=True)
                ]
                flagged = [
                    replace(one, flags=(*one.flags, *own)) for one, own in zip(chosen, faults, strict=True)
                ]
                results.append(document.assemble(flagged))
            engines = frozenset(outputs[i].engine for i in places)
            translated.append(TranslatedText(tuple(results), tuple(items[i] for i in places), engines))
        return translated


async def _forced(
    model: Served,
    prepared: _Prepared,
    outputs: list[Output],
    options: DocumentOptions,
    task: DecodingTask,
    caller: Caller,
) -> tuple[list[Item], list[Output]]:
    """Translate segments again whose output lost placeholders or terms, with these required."""
    items, outputs, finder = list(prepared.items), list(outputs), options.finder
    if task.sampling is not None or "required" not in model.info.capabilities:
        return items, outputs
    again: list[tuple[int, Item]] = []
    for i, (item, needed) in enumerate(zip(items, prepared.needed, strict=True)):
        if needed.missing(outputs[i].hypotheses[0].text, finder):
            required = needed.request(item.source, model.can_generate).required
            if required:
                again.append((i, replace(item, required=(*item.required, *required))))
    if not again:
        return items, outputs
    has_tags = any(prepared.tagged[i] for i, _ in again) and "alignment" in model.info.capabilities
    plain = task.model_copy(update={"stream": False, "alignment": task.alignment or has_tags})
    forced = await _outputs_or_none(model, [item for _, item in again], plain, caller)
    for (i, item), output in zip(again, forced, strict=True):
        old = prepared.needed[i].missing(outputs[i].hypotheses[0].text, finder)
        if output.hypotheses and prepared.needed[i].missing(output.hypotheses[0].text, finder) < old:
            items[i], outputs[i] = item, output
    return items, outputs


async def _outputs_or_none(
    model: Served, items: list[Item], task: DecodingTask, caller: Caller
) -> list[Output]:
    """Return the outputs; items that have none under their constraints keep an empty one."""
    try:
        return await model.scheduler.run(items, task, client=caller.client, seconds=caller.left)
    except Unavailable as error:
        raise unavailable(error) from error
    except TimeoutError as error:
        raise timed_out(caller.seconds) from error
