"""Translation of documents: segments with placeholders and terms that their outputs must contain.

All segments are translated without constraints first, in batches. Only those whose output lost a placeholder or
a term are translated again, by a search for outputs that contain them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, islice
from typing import Literal, NamedTuple

from seqloom.decode.pipeline import Progress
from seqloom.decode.translator import Translator
from seqloom.document.document import Document, DocumentResult
from seqloom.document.glossary import Glossary, Term
from seqloom.document.memory import Match, TranslationMemory
from seqloom.document.placeholders import ALWAYS, Kind, PlaceholderFinder
from seqloom.document.segments import Segment
from seqloom.document.sentences import LengthLimit, Split
from seqloom.types import Hypothesis, Request

DocumentFlag = Literal["split", "markup", "placeholder", "term"]
MEANING: dict[DocumentFlag, str] = {
    "split": "the segment is a part of a sentence that is too long for the model",
    "markup": "the segment is translated without its inline markup, which could not be placed",
    "placeholder": "placeholders of the source are missing, or the output has others",
    "term": "a term of the glossary is missing",
}


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How a document is read and divided, and what its translation must contain."""

    format: str = "text"
    language: str = ""  # source language, for its abbreviations
    target_language: str = ""
    split: Split = "sentences"
    limit: LengthLimit | None = None
    placeholders: frozenset[Kind] = frozenset(ALWAYS)
    glossary: Glossary = field(default_factory=lambda: Glossary(()))
    memory: TranslationMemory = field(default_factory=TranslationMemory)
    overwrite: bool = False  # whether existing translations are replaced
    alignment: bool = False  # whether all outputs have an alignment, not only those with inline markup

    @property
    def finder(self) -> PlaceholderFinder:
        """Finder of the placeholders."""
        return _finder(self.placeholders)

    def parse(self, text: str | bytes, name: str = "the document") -> Document:
        """Return the segments of a text, or of the content of a file."""
        return Document.parse(
            text,
            self.format,
            name=name,
            language=self.language,
            target_language=self.target_language,
            split=self.split,
            limit=self.limit,
            placeholders=self.finder,
            overwrite=self.overwrite,
            is_known=self.memory.__contains__,
        )


_finder = cache(PlaceholderFinder)


class Needed(NamedTuple):
    """Placeholders and terms of a segment."""

    placeholders: Counter[str]
    terms: tuple[Term, ...]

    @classmethod
    def of(cls, source: str, finder: PlaceholderFinder, glossary: Glossary) -> Needed:
        """Return what the output for a source must contain."""
        return cls(finder.count(source), tuple(glossary.find(source)))

    def missed_terms(self, output: str) -> list[Term]:
        """Return the terms that an output does not contain."""
        return [term for term in self.terms if not term.used_in(output)]

    def faults(self, output: str, finder: PlaceholderFinder) -> list[DocumentFlag]:
        """Return the flags of an output: lost, added or repeated placeholders, and missing terms."""
        found: list[DocumentFlag] = ["placeholder"] if finder.count(output) != self.placeholders else []
        return [*found, "term"] if self.missed_terms(output) else found

    def missing(self, output: str, finder: PlaceholderFinder) -> int:
        """Return the number of lost placeholders and missing terms."""
        return (self.placeholders - finder.count(output)).total() + len(self.missed_terms(output))

    def request(self, source: str, can_generate: Callable[[str], bool]) -> Request:
        """Return a request for an output with everything that the model can generate.

        A placeholder inside another one, such as `%(name)s` in a tag, is required once more.
        """
        texts = [text for text in self.placeholders.elements() if can_generate(text)]
        distinct = dict.fromkeys(texts)
        texts += [one for one in distinct for other in texts if other != one for _ in range(other.count(one))]
        terms = [tuple(form for form in term.forms if can_generate(form)) for term in self.terms]
        return Request(source, required=(*texts, *filter(None, terms)))


def translate_document(
    translator: Translator,
    text: str | bytes,
    options: DocumentOptions | None = None,
    *,
    on_progress: Progress | None = None,
) -> DocumentResult:
    """Return the translation of a text, or of the content of a file, with its layout unchanged.

    Outputs that lose placeholders or terms although they are required, or that cannot be forced because the
    translator does not support required words, have a flag.
    """
    chosen = options or DocumentOptions()
    return translate_documents(translator, [chosen.parse(text)], chosen, on_progress=on_progress)[0]


def translate_documents(
    translator: Translator,
    documents: Sequence[Document],
    options: DocumentOptions,
    *,
    on_progress: Progress | None = None,
) -> list[DocumentResult]:
    """Return the translations of documents that are already parsed; their segments share batches."""
    if options.glossary.terms:
        translator.check(translator.search, {"required"})
    segments = [segment for document in documents for segment in document.segments]
    found = [options.memory.find(segment.source) for segment in segments]
    known = [_from_memory(segment, match) for segment, match in zip(segments, found, strict=True)]
    unknown = [segment for segment, hypothesis in zip(segments, known, strict=True) if hypothesis is None]
    translated = iter(_translate(translator, unknown, options, on_progress))
    outputs = iter([next(translated) if hypothesis is None else hypothesis for hypothesis in known])
    matches = iter(found)
    return [
        document.assemble(list(islice(outputs, count)), list(islice(matches, count)))
        for document in documents
        for count in [len(document.segments)]
    ]


def _from_memory(segment: Segment, match: Match | None) -> Hypothesis | None:
    """Return the translation of an equal text; None if there is none, or if the segment has inline markup."""
    if match is None or match.similarity < 100 or segment.has_tags:
        return None
    return Hypothesis(match.target, 0.0)


def translate_html(
    translator: Translator,
    text: str,
    options: DocumentOptions | None = None,
    *,
    on_progress: Progress | None = None,
) -> DocumentResult:
    """Return the translation of a page or a fragment of HTML, with its tags unchanged."""
    chosen = replace(options or DocumentOptions(), format="html")
    return translate_document(translator, text, chosen, on_progress=on_progress)


def _translate(
    translator: Translator,
    segments: Sequence[Segment],
    options: DocumentOptions,
    on_progress: Progress | None,
) -> list[Hypothesis]:
    """Return the output of each segment, flagged if it lacks a placeholder or a term."""
    finder = options.finder
    sources = [segment.source for segment in segments]
    aligned = [options.alignment or segment.has_tags for segment in segments]
    needed = [Needed.of(source, finder, options.glossary) for source in sources]
    outputs = _best(translator, [Request(source) for source in sources], aligned, on_progress)
    if "required" in translator.capabilities:
        faulty = [i for i, one in enumerate(needed) if one.missing(outputs[i].text, finder)]
        requests = [needed[i].request(sources[i], translator.can_generate) for i in faulty]
        again = [(i, request) for i, request in zip(faulty, requests, strict=True) if request.required]
        forced = _best(translator, [request for _, request in again], [aligned[i] for i, _ in again], None)
        for (i, _), hypothesis in zip(again, forced, strict=True):
            if needed[i].missing(hypothesis.text, finder) < needed[i].missing(outputs[i].text, finder):
                outputs[i] = hypothesis
    return [
        replace(output, flags=(*output.flags, *own.faults(output.text, finder)))
        for output, own in zip(outputs, needed, strict=True)
    ]


def _best(
    translator: Translator,
    requests: Sequence[Request],
    aligned: Sequence[bool],
    on_progress: Progress | None,
) -> list[Hypothesis]:
    """Return the best output of each request, with an alignment where asked for and supported."""
    can_align = "alignment" in translator.capabilities
    found: dict[int, Hypothesis] = {}
    for alignment in (False, True):
        chosen = [i for i, wanted in enumerate(aligned) if (wanted and can_align) == alignment]
        if not chosen:
            continue
        own = [requests[i] for i in chosen]
        outputs = translator.translate(own, alignment=alignment, on_progress=on_progress)
        found |= {i: hypotheses[0] for i, hypotheses in zip(chosen, outputs, strict=True)}
    return [found[i] for i in range(len(requests))]


class TermUse(NamedTuple):
    """How often a term of the glossary was needed, and how often the output used it."""

    term: Term
    used: int
    missed: int


def term_report(results: Iterable[DocumentResult], glossary: Glossary) -> list[TermUse]:
    """Return the terms that occurred in the sources, the most missed ones first."""
    used, missed = Counter[Term](), Counter[Term]()
    for one in chain.from_iterable(result.segments for result in results):
        for term in glossary.find(one.segment.source):
            (used if term.used_in(one.text) else missed)[term] += 1
    found = [TermUse(term, used[term], missed[term]) for term in glossary.terms if used[term] or missed[term]]
    return sorted(found, key=lambda use: -use.missed)
