"""Pages in one HTML file: verdict, figures, drawings, and tables that sort; light, dark and on paper."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from railyard.measure.result.section import KeyFigure

STYLE = """
:root{color-scheme:light dark;--ink:#1d2330;--soft:#5b6472;--line:#d9dde5;--back:#fbfbfa;--paper:#fff;--bar:#0b6bcb}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa4af;--line:#31373e;--back:#14171a;--paper:#1c2024;
--bar:#62aef0}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:1080px;margin:0 auto;
padding:24px;overflow-wrap:break-word}
h1{font-size:26px;line-height:1.2;margin:0 0 16px}h2{font-size:18px;margin:0;display:inline}p{color:var(--soft)}
h3{font-size:14px;margin:18px 0 6px}
section{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:20px 24px;margin:16px 0}
.verdict{font-size:20px;line-height:1.35;font-weight:600;color:var(--ink);max-width:62ch;margin:0 0 16px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px}
.figures div{border:1px solid var(--line);border-radius:8px;padding:10px 14px}.figures b{display:block;font-size:19px}
small{color:var(--soft)}summary{cursor:pointer;list-style:none}summary h2::after{content:"+";float:right}
details[open]>summary{margin-bottom:10px}details[open]>summary h2::after{content:"\\2212"}
summary::-webkit-details-marker{display:none}
.scroll{overflow:auto;max-height:90vh}table{border-collapse:collapse;font-size:14px;width:100%}
td,th{padding:4px 10px 4px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{color:var(--soft);cursor:pointer}th[aria-sort=descending]::after{content:" \\2193"}
th[aria-sort=ascending]::after{content:" \\2191"}td.number,th.number{text-align:right;white-space:nowrap}
.bars{display:grid;grid-template-columns:minmax(90px,max-content) 1fr minmax(150px,max-content);gap:6px 12px;
font-size:14px;align-items:center}
.track{position:relative;height:16px}.track i,.track u{position:absolute;top:0;height:16px;border-radius:3px}
.track i{background:var(--bar)}
.track *{print-color-adjust:exact;-webkit-print-color-adjust:exact}.track u{top:7px;height:2px;background:var(--ink)}
svg{background:#fff;border-radius:6px;max-width:none}
svg text{font:12px system-ui,sans-serif;fill:#333}
@media (max-width:640px){body{padding:12px}section{padding:16px}
.bars{grid-template-columns:1fr auto;grid-auto-flow:dense}.bars .track{grid-column:1/-1;height:10px}
.track i{height:10px}.track u{top:4px}}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--back:#fff;--paper:#fff}body{font-size:10pt;max-width:none;
padding:0}.scroll{overflow:visible;max-height:none}details::details-content{content-visibility:visible;display:block}
summary h2::after{content:none!important}svg{max-width:100%;height:auto}tr{break-inside:avoid}
table{font-size:8pt}td.number,th.number{white-space:normal}}
@page{margin:14mm 12mm}
"""

SORTING = r"""
const known={k:1e3,M:1e6,B:1e9},key=cell=>{const text=cell.innerText.trim();
const found=/^(-?)\$?([\d,]*\.?\d+)\s?([kMB]?)(?![\w-])/.exec(text);
return found?(found[1]?-1:1)*found[2].replaceAll(",","")*(known[found[3]]??1):text};
const order=(a,b)=>typeof a!==typeof b?(typeof a==="number"?-1:1):typeof a==="number"?a-b:a.localeCompare(b);
for(const head of document.querySelectorAll("th")){head.tabIndex=0;
head.onkeydown=event=>event.key==="Enter"&&head.click();
head.onclick=()=>{const falling=head.ariaSort!=="descending",[first,...rows]=head.closest("table").rows;
for(const one of first.cells)one.ariaSort=null;head.ariaSort=falling?"descending":"ascending";
const of=row=>key(row.cells[head.cellIndex]);
first.parentNode.append(...rows.sort((a,b)=>(falling?-1:1)*order(of(a),of(b))))}}
"""
"""Sorts a table by the column whose heading is clicked: numbers with their letters, words by the alphabet."""


def document(title: str, verdict: str, figures: Iterable[KeyFigure], parts: Sequence[str]) -> str:
    """One page, offline.

    Args:
        title: Name of the page.
        verdict: The answer in one sentence; empty if it has none.
        figures: At the head of the page.
        parts: HTML, as of `folding`.
    """
    boxes = "".join(
        f"<div><small>{escape(one.name)}</small><b>{escape(one.value)}</b><small>{escape(one.band)}</small></div>"
        for one in figures
    )
    said = f'<p class="verdict">{escape(verdict.replace("`", ""))}</p>' if verdict else ""
    head = f'<section>{said}<div class="figures">{boxes}</div></section>' if said or boxes else ""
    style = f"<title>{escape(title)}</title><style>{STYLE}</style>"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">{style}</head>'
        f"<body><h1>{escape(title)}</h1>{head}{''.join(parts)}<script>{SORTING}</script></body></html>\n"
    )


def folding(title: str, body: str, *, folded: bool = False) -> str:
    """A part of a page under a heading that folds it; `body` is HTML."""
    opened = "" if folded else " open"
    return f"<section><details{opened}><summary><h2>{escape(title)}</h2></summary>{body}</details></section>"


def html_table(headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()) -> str:
    """A table of text that scrolls on a narrow screen; columns `right` are right-aligned, None is an empty cell."""

    def row(kind: str, cells: Sequence[object]) -> str:
        look = [' class="number"' if at in right else "" for at in range(len(cells))]
        each = (f"<{kind}{one}>{_cell(cell)}</{kind}>" for one, cell in zip(look, cells, strict=True))
        return f"<tr>{''.join(each)}</tr>"

    return (
        f'<div class="scroll"><table>{row("th", headings)}{"".join(row("td", cells) for cells in rows)}</table></div>'
    )


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.10g}" if isinstance(value, float) else escape(str(value))
