"""The card of a run in a notebook: one piece of HTML without scripts, light and dark, a few kilobytes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from railyard.work.study.presentation import MOST_VARIANTS, comparison, html_head, presentation_of

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.work.study.presentation import Sheet

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
    shown = presentation_of(result)
    place = f"<p>report: <code>{escape(str(report))}</code></p>" if report is not None else ""
    title = f"<h4>{escape(result.name)}</h4><p>{escape(shown.conclusion(result))}</p>"
    body = _table(comparison(result)) if shown.html is None else shown.html(result)
    return f"<div class='railyard'><style>{_STYLE}</style>{title}{body}{place}</div>"


def _table(sheet: Sheet) -> str:
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in sheet.rows[:MOST_VARIANTS]
    )
    return f"<table>{html_head(*map(escape, sheet.headings))}{rows}</table>"
