"""Report of a comparison as one self-contained HTML page, which works offline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from seqloom.compare.page_charts import buckets, curves
from seqloom.compare.page_examples import examples
from seqloom.compare.page_tables import bars, failures, findings, numbers_table, signed
from seqloom.compare.results import Results, Row

_LEVEL = 0.05  # of significance


def report_page(results: Results, command: str) -> str:
    """Return the page; `command` reproduces the comparison."""
    setup = results.setup
    title = f"Models compared on {_data_name(results)}"
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{style}</style></head><body><main>",
        f"<header><h1>{escape(title)}</h1>{_conclusion(results)}{_facts(results)}</header>",
        _section("Scores", _scores(results)),
    ]
    if results.rows:
        parts.append(_section("Learning curves", curves(results.rows)))
        parts.append(_section("Where the models differ", buckets(results.rows)))
        parts.append(_section(f"{len(results.examples)} test sentences", examples(results)))
    parts.append(_section("Settings", _settings(results, command)))
    origin = f"seqloom {setup.machine['seqloom']}, {setup.created[:10]}"
    return "\n".join([*parts, f"<footer>{escape(origin)}</footer>", "</main></body></html>\n"])


def _data_name(results: Results) -> str:
    """Return the names of the data files, without their folders."""
    settings = results.setup.settings
    files = settings.pairs or tuple(filter(None, (settings.source, settings.target)))
    return ", ".join(Path(file).name for file in files)


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _conclusion(results: Results) -> str:
    """Return the best model and its lead in one or two sentences."""
    best = results.best
    if best is None:
        return "<p class=lead>No model has a result.</p>"
    score = best.scores[0]
    span = "" if score.low is None else f" [{score.low:.1f}, {score.high:.1f}]"
    text = f"<b>{escape(best.label)}</b> has the best {escape(score.label)}: {score.value:.1f}{span}."
    sign = 1 if score.higher_is_better else -1
    others = sorted(
        (row for row in results.rows if row.difference), key=lambda row: -sign * row.scores[0].value
    )
    if others and (difference := others[0].difference):
        verdict = "significant" if difference.p_value <= _LEVEL else "not significant"
        text += (
            f" Second is {escape(others[0].label)} with {others[0].scores[0].value:.1f} "
            f"(difference {signed(difference.delta)}, p = {difference.p_value:.3f}, {verdict})."
        )
    return f"<p class=lead>{text}</p>"


def _facts(results: Results) -> str:
    sizes, machine, settings = results.setup.sizes, results.setup.machine, results.setup.settings
    facts = {
        "data": f"{sizes.train:,} training, {sizes.valid:,} validation and {sizes.test:,} test pairs, the same "
        "for all models",
        "budget": f"{settings.budget} for every model that is trained by gradient"
        + ("; models that are counted take the time they need" if _has_fitted(results) else ""),
        "machine": f"{machine['cpu']}, {machine['processors']} processors, torch {machine['torch']}",
    }
    if settings.set:
        facts["options"] = " ".join(settings.set)
    rows = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in facts.items())
    return f"<dl class=facts>{rows}</dl>"


def _has_fitted(results: Results) -> bool:
    return any(system.fitted for system in results.setup.systems)


def _scores(results: Results) -> str:
    """Return the scores as bars and as a table, and the systems that failed."""
    failed = failures(results.failed)
    if results.missing:
        failed += f"<p class=failure>Not run yet: {escape(', '.join(results.missing))}.</p>"
    if not results.rows:
        return failed
    return bars(results.rows) + numbers_table(results.rows) + failed + findings(results.rows)


def _settings(results: Results, command: str) -> str:
    """Return the command, the options of each model, and the signatures of the metrics."""
    rows = results.rows
    signatures = [f"<code>{escape(score.signature)}</code>" for score in rows[0].scores] if rows else []
    ends = [f"{escape(row.label)}: {escape('; '.join(dict.fromkeys(row.ended)))}" for row in rows]
    items = "".join(f"<li>{item}</li>" for item in (*ends, *signatures))
    return (
        f"<p>This command reproduces the comparison:</p><pre>{escape(command)}</pre>{_options(rows)}"
        "<details><summary>Why training ended, and signatures of the metrics</summary>"
        f"<ul>{items}</ul></details>"
    )


def _options(rows: Sequence[Row]) -> str:
    """Return a table of the options of all models."""
    names = list(dict.fromkeys(name for row in rows for name in row.options if name != "model.name"))
    head = "".join(f"<th>{escape(row.label)}</th>" for row in rows)
    lines = []
    for name in names:
        values = [row.options.get(name) for row in rows]
        cells = "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in values)
        lines.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return (
        "<details><summary>Options of the models</summary><div class=scroll><table class=options>"
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>"
    )
