"""The card of a run in a notebook: one piece of HTML without scripts, light and dark, a few kilobytes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from railyard.face.api import operated, served, wide, words
from railyard.measure import numbers

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.variants import StepVariant

MOST_VARIANTS = 24
MOST_PARTS = 8

_STYLE = """
.railyard{--ink:#1d2330;--soft:#667085;--line:#d9dde5;--bar:#3b6fd4;--wait:#d4803b;font:13px/1.45 system-ui,sans-serif;
color:var(--ink);max-width:960px}
@media (prefers-color-scheme:dark){.railyard{--ink:#e6e9ef;--soft:#98a2b3;--line:#3a4150;--bar:#6f9bf0;--wait:#e59d5c}}
.railyard table{border-collapse:collapse;width:100%}.railyard th,.railyard td{padding:4px 10px;text-align:right;
border-bottom:1px solid var(--line);background:none}.railyard th:first-child,.railyard td:first-child{text-align:left}
.railyard th{font-weight:600;color:var(--soft)}
.railyard .track{display:inline-flex;width:120px;height:8px;background:var(--line)}
.railyard .track i{background:var(--bar)}.railyard .track b{background:var(--wait)}.railyard p{margin:6px 0}
.railyard summary{cursor:pointer;color:var(--soft)}.railyard h4{margin:0 0 4px;font-size:15px}
"""


def card(result: Result, report: Path | None) -> str:
    """The card."""
    if served.is_served(result):
        return _served(result, report)
    if operated.are_operated(result):
        return _sheet(result, next(operated.sheets(result)), operated.why(result), report)
    if wide.are_wide(result):
        return _sheet(result, next(wide.sheets(result)), wide.why(result), report)
    variants = result.steps[:MOST_VARIANTS]
    rows = "".join(_row(variant) for variant in variants)
    hidden = len(result.steps) - len(variants)
    more = f"<p>and {hidden} more: <code>run.table('variants')</code></p>" if hidden else ""
    place = f"<p>report: <code>{escape(str(report))}</code></p>" if report is not None else ""
    head = _head("variant", "network tax", "", "GPU utilization", "step", "tokens/s per GPU", "$/Mtoken")
    title = f"<h4>{escape(result.name)}</h4><p>{escape(words.why(result))}</p>"
    body = f"<table>{head}{rows}</table>{more}{_parts(words.best_variant(result))}{place}"
    return f"<div class='railyard'><style>{_STYLE}</style>{title}{body}</div>"


def _served(result: Result, report: Path | None) -> str:
    """The card of a serving run: every variant's figures, and what first tokens wait for."""
    variants = result.served[:MOST_VARIANTS]
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in served.row(variant)) + "</tr>" for variant in variants
    )
    place = f"<p>report: <code>{escape(str(report))}</code></p>" if report is not None else ""
    title = f"<h4>{escape(result.name)}</h4><p>{escape(served.why(result))}</p>"
    head = _head(*(escape(title) for title in served.HEADINGS))
    return f"<div class='railyard'><style>{_STYLE}</style>{title}<table>{head}{rows}</table>{place}</div>"


def _sheet(result: Result, sheet: operated.Sheet, sentence: str, report: Path | None) -> str:
    """The card of a cluster in time, or of clients and sites: every variant's figures."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in sheet.rows[:MOST_VARIANTS]
    )
    place = f"<p>report: <code>{escape(str(report))}</code></p>" if report is not None else ""
    title = f"<h4>{escape(result.name)}</h4><p>{escape(sentence)}</p>"
    head = _head(*(escape(title) for title in sheet.headings))
    return f"<div class='railyard'><style>{_STYLE}</style>{title}<table>{head}{rows}</table>{place}</div>"


def _head(*titles: str) -> str:
    return "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"


def _row(variant: StepVariant) -> str:
    lost, kept = variant.tax.tokens_lost, variant.tax.rest.get("compute", 0.0)
    title = escape(f"computing {numbers.percent(kept)}, lost to the scale-out network {numbers.percent(lost)}")
    blue, orange = f"<i style='width:{100 * kept:.1f}%'></i>", f"<b style='width:{100 * lost:.1f}%'></b>"
    bar = f"<span class='track' title='{title}'>{blue}{orange}</span>"
    cells = [
        escape(variant.name),
        numbers.percent(lost),
        bar,
        numbers.percent(variant.utilization.gpu),
        numbers.seconds(variant.step.seconds),
        numbers.short(variant.utilization.tokens_per_s_per_gpu),
        numbers.short(None if variant.cpmt is None else variant.cpmt.typical),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _parts(variant: StepVariant) -> str:
    parts = sorted(variant.time, key=lambda part: -part.seconds)[:MOST_PARTS]
    rows = "".join(
        f"<tr><td>{escape(part.cause)}</td><td>{escape(part.group)}</td><td>{escape(part.phase)}</td>"
        f"<td>{numbers.seconds(part.seconds)}</td><td>{numbers.percent(part.share)}</td></tr>"
        for part in parts
    )
    head = _head("cause", "group", "phase", "time", "share")
    summary = f"<summary>where the step of {escape(variant.name)} goes</summary>"
    return f"<details>{summary}<table>{head}{rows}</table></details>"
