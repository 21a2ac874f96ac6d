"""`seqloom translate` for documents."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from seqloom.cli.output import print_flag_counts, print_json
from seqloom.errors import SeqloomError, require_known

if TYPE_CHECKING:  # imported where used: `seqloom --help` stays quick
    from seqloom.decode.translator import Translator
    from seqloom.document import DocumentOptions, DocumentResult, LengthLimit
    from seqloom.languages import LanguagePair

_ONLY_DOCUMENTS = ("overwrite", "glossary", "memory", "report_file", "protect", "split")
_FOR_DOCUMENTS = (
    *("run", "file", "beam", "json_", "format", "checkpoint", "device", "engine", "set_", "threads", "out"),
    *("ensemble", "ensemble_space", "languages", *_ONLY_DOCUMENTS),
)
_DEFAULTS = {"processes": 1}  # of options that are not None or False
_OF_LINES = "paragraphs"  # name of the format `text`, which means lines for `seqloom translate`
_PROTECTED = ("number", "capitals")
_ALSO_DATA = ("po", "xliff")  # formats whose sources can also be read as lines


def document_format(file: str, format: str, out: Path | None) -> str | None:
    """Return the format of a document; None if the input is lines or a table.

    A file with the suffix of a document is one if the output goes to a file.
    """
    from seqloom.document.formats import FORMATS, format_of

    if format == _OF_LINES:
        return "text"
    if format in FORMATS and format != "text":
        return format if out or format not in _ALSO_DATA else None
    return format_of(file) if format == "auto" and out else None


def check_no_document_options(given: Mapping[str, Any]) -> None:
    """Raise an error if the input is not a document and an option is for documents."""
    for name in _ONLY_DOCUMENTS:
        if _is_given(name, given[name]):
            raise SeqloomError(
                f"--{name.removesuffix('_file')} needs a document.",
                "name its output with --out, and its --format unless the suffix determines it",
            )


def _is_given(name: str, value: object) -> bool:
    return value is not None and value is not False and value != _DEFAULTS.get(name)


def translate_file(
    format: str, given: Mapping[str, Any], search: Mapping[str, Any], strategy_settings: Mapping[str, Any]
) -> None:
    """Translate a document to a file; `given` are the options of the command."""
    from seqloom.document import DocumentOptions, Glossary, TranslationMemory, translate_documents
    from seqloom.document.placeholders import ALWAYS, Kind
    from seqloom.document.report import check_report, report_of
    from seqloom.document.safe_xml import read_bytes
    from seqloom.document.sentences import Split
    from seqloom.outputs import check_can_write, write_output
    from seqloom.progress import counter

    out: Path | None = given["out"]
    _check_options(given, strategy_settings)
    require_known("way to split text", given["split"] or "sentences", get_args(Split))
    report: Path | None = given["report_file"]
    if report:
        check_report(report)
        check_can_write(report)
    for kind in given["protect"] or ():
        require_known("kind of text to protect", kind, _PROTECTED)
    if out is None:
        raise SeqloomError("A document is written to a file.", "name it with --out")
    data = sys.stdin.buffer.read() if given["file"] == "-" else read_bytes(given["file"])
    languages = _languages(given["run"], given["languages"])
    protected = cast("list[Kind]", given["protect"] or [])
    options = DocumentOptions(
        format=format,
        language=languages.source if languages else "",
        target_language=languages.target if languages else "",
        split=cast("Split", given["split"] or "sentences"),
        limit=_length_limit(given["run"]),
        placeholders=frozenset([*ALWAYS, *protected]),
        overwrite=given["overwrite"],
        alignment=report is not None,
        memory=TranslationMemory.read(given["memory"], languages) if given["memory"] else TranslationMemory(),
        glossary=Glossary.read(given["glossary"], languages) if given["glossary"] else Glossary(()),
    )
    document = options.parse(data, given["file"])
    translator = _load(given, search, aligned=document.needs_alignment or options.alignment)
    with counter("translated", len(document.segments)) as advance:
        result = translate_documents(translator, [document], options, on_progress=advance)[0]
    write_output(out, result.to_bytes())
    if report:
        write_output(report, report_of(result, report))
    _print(result, options, as_json=given["json_"])


def _check_options(given: Mapping[str, Any], strategy_settings: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in _FOR_DOCUMENTS and _is_given(name, value):
            flag = name.rstrip("_").replace("_", "-")
            raise SeqloomError(f"--{flag} does not work with documents.", f"leave --{flag} out")
    if strategy_settings:
        raise SeqloomError("Documents are translated by beam search.", "leave --set strategy.* out")


def _languages(run: Path, text: str | None) -> LanguagePair | None:
    """Return the given languages, or those of the run."""
    from seqloom.export.ctranslate2.export import is_export
    from seqloom.languages import LanguagePair
    from seqloom.run.directory import Run

    if text is not None:
        return LanguagePair.parse(text)
    return None if is_export(run) else Run.open(run).config().data.languages


def _length_limit(run: Path) -> LengthLimit | None:
    """Return the limit of the training data of a run; None if it is not known."""
    from seqloom.document import LengthLimit
    from seqloom.export.ctranslate2.export import is_export
    from seqloom.run.directory import Run

    if is_export(run):
        return None
    opened = Run.open(run)
    tokenizer = opened.tokenizers().text("source")
    return LengthLimit(opened.config().data.max_length, lambda text: len(tokenizer.encode(text)))


def _load(given: Mapping[str, Any], search: Mapping[str, Any], *, aligned: bool) -> Translator:
    from seqloom.decode.select import load_translator

    beam = {} if given["beam"] is None else {"beam": given["beam"]}
    return load_translator(
        given["run"],
        "torch" if aligned and given["engine"] == "auto" else given["engine"],
        ensemble=given["ensemble"] or (),
        space=given["ensemble_space"],
        checkpoint=given["checkpoint"],
        device=given["device"],
        threads=given["threads"],
        search={**search, **beam, "nbest": 1},
        scores=True,
    )


def _print(result: DocumentResult, options: DocumentOptions, *, as_json: bool) -> None:
    """Print what was translated, skipped and flagged."""
    from seqloom.document.translation import MEANING, term_report

    kept = Counter(one.reason for one in result.kept)
    terms = term_report([result], options.glossary)
    memory = sum(one.is_from_memory for one in result.segments)
    similar = sum(one.match is not None for one in result.segments) - memory
    if as_json:
        of_terms = [{"term": use.term.sources[0], "used": use.used, "missed": use.missed} for use in terms]
        summary = {
            "segments": len(result.segments),
            "from_memory": memory,
            "similar": similar,
            "skipped": kept,
            "flags": result.flags,
            "terms": of_terms,
        }
        print_json(summary)
        return
    total = len(result.segments)
    skipped = ", ".join(f"{count:,} {reason}" for reason, count in kept.most_common())
    print(f"translated {total:,} segments{skipped and f'; skipped: {skipped}'}", file=sys.stderr)
    if memory or similar:
        print(f"memory: {memory:,} equal and {similar:,} similar segments", file=sys.stderr)
    print_flag_counts(result.flags, total)
    for flag, meaning in MEANING.items():
        if count := result.flags.get(flag):
            print(f"review: {count:,} of {total:,} segments ({flag}: {meaning})", file=sys.stderr)
    for use in terms:
        print(f"term: {use.term.sources[0]}: used {use.used:,}, missed {use.missed:,}", file=sys.stderr)
