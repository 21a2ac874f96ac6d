"""Scores of the report as bars and as a table, with failures and findings."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from seqloom.compare.results import FailedRun, Row
from seqloom.evaluate.metrics import Score

COLORS = 8  # in page.css


def color(number: int) -> str:
    """Return the class of the colour of a model."""
    return f"s{number % COLORS}"


def signed(value: float) -> str:
    """Return a difference with its sign."""
    return f"{value:+.1f}".replace("-", "−")


def bars(rows: Sequence[Row]) -> str:
    """Return a bar per model, in the order of the models, with the change from the one above."""
    first = rows[0].scores[0]
    most = max([1e-9, *(max(row.scores[0].value, row.scores[0].high or 0.0) for row in rows)])
    parts = [
        _bar(number, row, most, rows[number - 1].scores[0] if number else None)
        for number, row in enumerate(rows)
    ]
    better = "higher is better" if first.higher_is_better else "lower is better"
    note = (
        f"{first.label} on the test part ({better}), its 95 % bootstrap interval, and the change from the "
        "model above."
    )
    return f"<div class=bars>{''.join(parts)}</div><p class=note>{escape(note)}</p>"


def _bar(number: int, row: Row, most: float, before: Score | None) -> str:
    score = row.scores[0]
    low, high = (score.value if end is None else end for end in (score.low, score.high))
    gain = "" if before is None else f"<span class=gain>{signed(score.value - before.value)}</span>"
    best = " <span class=best>best</span>" if row.difference is None else ""
    whisker = f"left:{100 * low / most:.2f}%;width:{100 * (high - low) / most:.2f}%"
    return (
        f'<div class="bar {color(number)}"><div class=name>{escape(row.label)}{best}</div>'
        f'<div class=track><div class=fill style="width:{100 * score.value / most:.2f}%"></div>'
        f'<div class=whisker style="{whisker}"></div></div>'
        f"<div class=value>{score.value:.1f}{gain}</div><div class=what>{escape(row.summary)}</div></div>"
    )


def numbers_table(rows: Sequence[Row]) -> str:
    """Return all numbers of the models."""
    scores = [score.label for score in rows[0].scores]
    columns = ("to the best", "p", "parameters", "training", "updates", "tokens/s", "memory", "sentences/s")
    head = "".join(f"<th>{escape(name)}</th>" for name in ("model", *scores, *columns))
    body = "".join(f"<tr{' class=top' if row.difference is None else ''}>{_cells(row)}</tr>" for row in rows)
    foot = "".join(f"<li>{escape(note)}</li>" for note in _notes(rows))
    return (
        f"<div class=scroll><table class=numbers><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
        f"<ul class=note>{foot}</ul>"
    )


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = [
        f"To the best: difference in {rows[0].scores[0].label} from the best model, with its 95 % interval and "
        "its p-value (paired bootstrap, 1,000 samples).",
        "Training: minutes, including validation. Tokens/s: target tokens per second. Memory: peak of the "
        "training process. Sentences/s: translating the test part with torch.",
    ]
    if any(row.fitted for row in rows):
        notes.append("Parameters of a counted model: all numbers that it stores.")
    if len(rows[0].seeds) > 1:
        notes.append(
            "Scores are means over the seeds; in brackets those of the single seeds. Figures and sentences are "
            "of the first seed."
        )
    return notes


def _cells(row: Row) -> str:
    seeds = f" ({', '.join(f'{value:.1f}' for value in row.by_seed)})" if len(row.by_seed) > 1 else ""
    scores = [
        f"{score.value:.1f}{'' if number else seeds}{_interval(score.low, score.high)}"
        for number, score in enumerate(row.scores)
    ]
    difference, p = "best", ""
    if one := row.difference:
        difference = f"{signed(one.delta)}<small>{signed(one.low)} – {signed(one.high)}</small>"
        p = f"{one.p_value:.3f}"
    speed = "–" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
    updates = "–" if row.steps is None else f"{row.steps:,}"
    cells = [
        *(*scores, difference, p, f"{row.parameters:,}", f"{row.minutes:.1f} min", updates, speed),
        *(f"{row.memory_mb:,.0f} MB", f"{row.sentences_per_second:,.1f}"),
    ]
    return f"<th>{escape(row.label)}</th>" + "".join(f"<td>{cell}</td>" for cell in cells)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"<small>{low:.1f} – {high:.1f}</small>"


def failures(failed: Sequence[FailedRun]) -> str:
    """Return the systems without a result, with the reason and the diagnosis."""
    return "".join(
        f"<div class=failure><b>{escape(run.name)} failed.</b> {escape(run.message)}"
        f"{f' Hint: {escape(run.hint)}.' if run.hint else ''}{_list(run.findings)}</div>"
        for run in failed
    )


def findings(rows: Sequence[Row]) -> str:
    """Return what the doctor found in runs that have a result."""
    parts = [f"<dt>{escape(row.label)}</dt><dd>{_list(row.findings)}</dd>" for row in rows if row.findings]
    summary = "<summary>Findings of <code>seqloom doctor</code></summary>"
    return f"<details>{summary}<dl>{''.join(parts)}</dl></details>" if parts else ""


def _list(found: Sequence[dict[str, str]]) -> str:
    items = (f"{one['problem']} Evidence: {one['evidence']}. Advice: {one['advice']}." for one in found)
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if found else ""
