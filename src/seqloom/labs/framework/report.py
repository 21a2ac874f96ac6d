"""Book of the labs: one HTML file that works offline, with a page per claim."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from seqloom import __version__
from seqloom.inspect.picture import rendered
from seqloom.labs.framework.choice import run_command
from seqloom.labs.framework.discovery import labs
from seqloom.labs.framework.formula import formula_svg
from seqloom.labs.framework.lab import Lab, NumberTable, Verdict
from seqloom.labs.framework.results import LabResult

NOT_RUN = "not run"
_CLASSES = {
    Verdict.HOLDS.value: "holds",
    Verdict.IN_PART.value: "part",
    Verdict.NOT_HERE.value: "not",
    NOT_RUN: "none",
}

_STYLE = """
:root { color-scheme: light; font: 17px/1.55 system-ui, sans-serif; color: #1c2733; }
body { margin: 0 auto; padding: 2rem 1.5rem 6rem; max-width: 62rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .6rem; }
h2 { font-size: 1.35rem; line-height: 1.3; margin: 0 0 .3rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .2rem; }
p { margin: .2rem 0 .6rem; }
section { border-top: 1px solid #d9dde2; margin-top: 3.5rem; padding-top: 2rem; break-before: page; }
.note, .top { color: #4a5663; font-size: .9rem; }
.equation { overflow-x: auto; margin: 1rem 0; }
.figure { width: 100%; height: auto; border: 1px solid #e6e9ed; border-radius: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { text-align: right; padding: .25rem .8rem; border-bottom: 1px solid #e6e9ed; vertical-align: top; }
th:first-child, td:first-child, .contents td, .contents th { text-align: left; }
td { font-variant-numeric: tabular-nums; }
code { font: .88em ui-monospace, monospace; background: #f2f4f7; border-radius: 4px; padding: .1rem .35rem; }
ul { padding-left: 1.2rem; }
.verdict { border-radius: 6px; padding: .1rem .6rem; font-weight: 600; white-space: nowrap; }
.holds { background: #d9f2e6; color: #00543b; }
.part { background: #fdf0cf; color: #6b4a00; }
.not { background: #fbdfd2; color: #7d3000; }
.none { background: #eceff2; color: #4a5663; }
.exercise { background: #f6f8fa; border-radius: 6px; padding: .8rem 1.1rem; margin-top: 1.4rem; }
.exercise h3 { margin-top: 0; }
summary { cursor: pointer; color: #0b5cad; }
a { color: #0b5cad; }
@media print { details > *:not(summary) { display: none; } .top { display: none; } }
"""


def report(results: Mapping[str, LabResult], *, on_page: Callable[[int], None] = lambda pages: None) -> str:
    """Return the book of all labs; those without a result have a page with the command that runs them.

    `on_page` is called after every page: drawing takes about a second.
    """
    pages = []
    for number, (name, lab) in enumerate(labs().items(), 1):
        pages.append(_page(number, lab, results.get(name)))
        on_page(1)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Labs: claims as experiments</title>
<style>{_STYLE}</style>
<h1 id="top">Labs: claims as experiments</h1>
<p>Each page tests one claim of lecture notes about sequence models. Read the claim and the criterion, guess the
verdict, then look at the figure. Run the experiment on your machine, change a setting, solve the exercise.</p>
<div class="scroll">{_contents(results)}</div>
<p class="note">{escape(_summary(results))}</p>
{"".join(pages)}</html>
"""


def verdict_of(result: LabResult | None) -> str:
    """Return the verdict of a result, or that there is none."""
    return result.judgement.verdict.value if result else NOT_RUN


def _summary(results: Mapping[str, LabResult]) -> str:
    dates = sorted(result.finished[:10] for result in results.values())
    when = f", {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    return f"{len(results)} of {len(labs())} labs have a result{when}. seqloom {__version__}."


def _contents(results: Mapping[str, LabResult]) -> str:
    rows = [
        f'<tr><td>{number}</td><td><a href="#{name}">{escape(lab.claim)}</a></td>'
        f"<td>{escape(str(lab.note))}</td><td>{_badge(verdict_of(results.get(name)))}</td></tr>"
        for number, (name, lab) in enumerate(labs().items(), 1)
    ]
    head = "<tr><th></th><th>claim</th><th>notes</th><th>verdict</th></tr>"
    return f'<table class="contents">{head}{"".join(rows)}</table>'


def _badge(verdict: str) -> str:
    return f'<span class="verdict {_CLASSES[verdict]}">{verdict}</span>'


def _page(number: int, lab: Lab[Any, Any], result: LabResult | None) -> str:
    variations = "".join(
        f"<li>{_code(run_command(lab, one.settings))}<br>{escape(one.question)}</li>" for one in lab.variations
    )
    equation = _picture(formula_svg(lab.equation), lab.equation)
    return f"""
<section id="{lab.name}">
<h2>{number}. {escape(lab.claim)}</h2>
<p class="note">{escape(str(lab.note))} · lab <code>{lab.name}</code></p>
<div class="equation">{equation}</div>
<h3>Method</h3><p>{escape(lab.method)}</p>
<h3>Criterion</h3><p>{escape(lab.criterion[0].upper() + lab.criterion[1:])}</p>
{_outcome(lab, result)}
<h3>Run it yourself</h3><p>{_code(run_command(lab))} · about {lab.seconds:g} s of processor time</p>
{_measured(lab)}
<h3>Change this and look again</h3><ul>{variations}</ul>
<div class="exercise"><h3>Exercise</h3><p>{escape(lab.exercise.question)}</p>
<details><summary>Solution</summary><p>{escape(lab.exercise.solution)}</p></details></div>
<p class="top"><a href="#top">Contents</a></p>
</section>
"""


def _measured(lab: Lab[Any, Any]) -> str:
    """Return the command behind stored numbers; empty for labs that measure."""
    if not lab.measured_by:
        return ""
    return f"<p>The numbers are stored. This command measures them again: {_code(lab.measured_by)}</p>"


def _outcome(lab: Lab[Any, Any], result: LabResult | None) -> str:
    """Return verdict, figure, numbers and explanation; nothing is given away if there is no result yet."""
    if result is None:
        return f"<h3>Verdict</h3><p>{_badge(NOT_RUN)}</p>"
    figure = _picture(rendered(lab.plot(result.numbers).plot(style="slide"), "svg"), lab.claim, "figure")
    settings = f"{settings_text(result)}; {result.seconds:.1f} s of processor time, {result.finished[:10]}."
    return f"""<h3>Verdict</h3>
<p>{_badge(verdict_of(result))} {escape(result.judgement.reason)}</p>
{figure}
<h3>Numbers</h3><div class="scroll">{_table(lab.table(result.numbers))}</div>
<p class="note">{escape(settings)}</p>
<h3>Explanation</h3><p>{escape(lab.explanation)}</p>"""


def settings_text(result: LabResult) -> str:
    """Return the settings that differ from the quick mode."""
    default = result.lab.settings()
    changed = [
        f"{name}={value}"
        for name, value in result.settings.model_dump(mode="json").items()
        if getattr(result.settings, name) != getattr(default, name)
    ]
    return f"Settings: {', '.join(changed)}" if changed else "Quick mode"


def _table(table: NumberTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in table.rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _picture(svg: bytes, description: str, kind: str = "") -> str:
    """Return a picture as part of the page; as an image, its ids cannot clash with those of others."""
    data = b64encode(svg).decode("ascii")
    name = f' class="{kind}"' if kind else ""
    return f'<img{name} alt="{escape(description)}" src="data:image/svg+xml;base64,{data}">'


def _code(command: str) -> str:
    return f"<code>{escape(command)}</code>"
