"""Report of a translated document for a review: every segment with its flags and score, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from seqloom.document.document import DocumentResult, TranslatedSegment
from seqloom.document.markup import word_links, words
from seqloom.errors import SeqloomError
from seqloom.strict_json import json_text

_STYLE = (
    "body{font-family:sans-serif;margin:2em;color:#222}table{border-collapse:collapse;width:100%}"
    "td,th{border:1px solid #ccc;padding:.4em;text-align:left;vertical-align:top}"
    ".flag{background:#fde2c8;padding:0 .3em}tr:nth-child(even){background:#f7f7f7}details{color:#555}"
)
_COLUMNS = ("place", "source", "translation", "flags", "confidence", "memory")


def check_report(path: Path) -> None:
    """Raise an error unless the suffix is that of a report."""
    if path.suffix.lower() not in (".html", ".json"):
        raise SeqloomError(f"{path} is not a report.", "end its name in .html or .json")


def report_of(result: DocumentResult, path: Path) -> str:
    """Return a report in the format of the suffix."""
    rows = report_rows(result)
    kept = [
        {"place": one.place, "source": one.source, "reason": one.reason, "translation": one.translation}
        for one in result.kept
    ]
    if path.suffix.lower() == ".json":
        return json_text({"flags": dict(result.flags), "segments": rows, "skipped": kept}, indent=2) + "\n"
    return _page(rows, kept, result)


def report_rows(result: DocumentResult) -> list[dict[str, Any]]:
    """Return a row for each segment: those with most flags first, then those with the lowest confidence."""
    order = sorted(result.segments, key=lambda one: (-len(one.flags), _confidence(one)))
    return [_row(one) for one in order]


def _confidence(one: TranslatedSegment) -> float:
    return 1.0 if one.confidence is None else one.confidence


def _row(one: TranslatedSegment) -> dict[str, Any]:
    source, target = one.segment.source, one.text
    of_source, of_target = words(source), words(target)
    links = zip(of_target, word_links(source, target, one.hypothesis), strict=True)
    return {
        "place": one.place,
        "source": source,
        "translation": target,
        "flags": list(one.flags),
        "score": one.hypothesis.score,
        "confidence": one.confidence,
        "alignment": [
            [source[slice(*of_source[link])], target[slice(*word)]] for word, link in links if link is not None
        ],
        "memory": None if one.match is None else one.match._asdict(),
    }


def _page(rows: Iterable[Mapping[str, Any]], kept: Iterable[Mapping[str, str]], result: DocumentResult) -> str:
    flags = ", ".join(f"{escape(flag)}: {count:,}" for flag, count in result.flags.most_common()) or "none"
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    body = "\n".join(map(_html_row, rows))
    skipped = "\n".join(
        f"<tr>{''.join(f'<td>{escape(one[name])}</td>' for name in ('place', 'source', 'reason'))}</tr>"
        for one in kept
    )
    return (
        f'<!doctype html>\n<meta charset="utf-8"><title>Translation report</title><style>{_STYLE}</style>\n'
        f"<h1>Translation report</h1>\n<p>{len(result.segments):,} segments; flags: {flags}</p>\n"
        f"<table><tr>{head}</tr>\n{body}\n</table>\n<h2>Skipped</h2>\n<table>\n{skipped}\n</table>\n"
    )


def _html_row(row: Mapping[str, Any]) -> str:
    flags = " ".join(f'<span class="flag">{escape(flag)}</span>' for flag in row["flags"])
    pairs = ", ".join(f"{escape(source)} → {escape(target)}" for source, target in row["alignment"])
    alignment = f"<details><summary>alignment</summary>{pairs}</details>" if pairs else ""
    memory = row["memory"]
    similar = f"{memory['similarity']:.0f} %: {escape(memory['target'])}" if memory else ""
    confidence = "" if row["confidence"] is None else f"{100 * row['confidence']:.0f} %"
    cells = (
        escape(row["place"]),
        escape(row["source"]),
        f"{escape(row['translation'])}{alignment}",
        flags,
        confidence,
        similar,
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
