"""Writes a decision memo as Markdown, as HTML without scripts, or as a PDF: one A4 page."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.kit.files import write_bytes, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fpdf import FPDF

    from railyard.work.study.memo import DecisionMemo, LossChart

COLOURS = ("#c4161c", "#d55e00", "#e0a100", "#7a56c2", "#b8387a", "#3b6fd4", "#4d8f5b", "#667085")
"""Colours of the parts of a bar, the largest part first; all parts beyond the list get the last."""
SECTIONS = ("What would change this", "How far to believe it", "Assumptions")
_BAR = 40
"""Characters of the longest bar in Markdown."""


def lists(memo: DecisionMemo) -> Sequence[tuple[str, Sequence[str]]]:
    """Titles and lines of the lists that are not empty."""
    return [row for row in zip(SECTIONS, (memo.changes, memo.confidence, memo.assumptions), strict=True) if row[1]]


def _colour(number: int) -> str:
    return COLOURS[min(number, len(COLOURS) - 1)]


def as_markdown(memo: DecisionMemo) -> str:
    """The memo as Markdown; bars are blocks of text."""
    lines = [f"# {memo.title}", "", *([memo.subject, ""] if memo.subject else []), memo.recommendation, ""]
    lines += [f"**{memo.purchase}**", ""] if memo.purchase else []
    lines += ["| | | |", "|---|---|---|"]
    lines += [f"| {one.name} | **{one.value}** | {one.band} |" for one in memo.figures]
    if memo.table:
        heading, *rows = (f"| {' | '.join(row)} |" for row in memo.table)
        lines += ["", heading, "|---" + "|---:" * (len(memo.table[0]) - 1) + "|", *rows]
    lines += ["", f"**{memo.chart.title}**", "", "```text", *_text_bars(memo.chart), "```", ""]
    for title, items in lists(memo):
        lines += [f"## {title}", "", *(f"- {item}" for item in items), ""]
    return "\n".join([*lines, memo.origin, ""])


def _text_bars(chart: LossChart) -> list[str]:
    wide = max(map(len, chart.bars), default=0)
    lines = []
    for name, bar in chart.bars.items():
        total = sum(bar.values())
        parts = ", ".join(f"{part} {chart.amount(bar[part])}" for part in chart.parts if bar.get(part, 0.0) > 0.0)
        blocks = "█" * round(_BAR * total / chart.top)
        lines.append(f"{name:<{wide}}  {chart.amount(total):>7}  {blocks}  {parts}".rstrip())
    if chart.bound is not None:
        lines.append(f"{'':<{wide}}  {chart.amount(chart.bound):>7}  bound: {chart.bound_name}")
    return lines


_STYLE = """
:root{--ink:#1d2330;--soft:#667085;--line:#d9dde5;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--line:#3a4150;--paper:#14171d}}
@media print{:root{--ink:#000;--soft:#444;--line:#bbb;--paper:#fff}}
@page{size:A4;margin:16mm}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:46rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.3rem;margin:0 0 .4rem}h2{font-size:1rem;margin:1rem 0 .2rem}.said{font-size:1.15rem;margin:0 0 1rem}
.figures{display:grid;grid-template-columns:repeat(3,1fr);gap:.6rem}.figures div{border:1px solid var(--line);
border-radius:6px;padding:.5rem .7rem}.figures b{display:block;font-size:1.25rem}small{color:var(--soft)}
table{border-collapse:collapse;margin:.8rem 0;width:100%}th,td{text-align:right;padding:.15rem .5rem;
border-bottom:1px solid var(--line)}th{color:var(--soft);font-weight:normal}
th:first-child,td:first-child{text-align:left}
.bar{display:grid;grid-template-columns:14rem 1fr 4.5rem;gap:.6rem;align-items:center;margin:.2rem 0}
.bar>span:first-child{overflow-wrap:anywhere}.track{position:relative;display:flex;height:1rem;background:var(--line)}
.track i{display:block;height:100%}.track u{position:absolute;top:-3px;bottom:-3px;width:2px;background:var(--ink)}
.key{display:flex;flex-wrap:wrap;gap:.2rem .9rem;color:var(--soft);font-size:.85rem}.key i{display:inline-block;
width:.7rem;height:.7rem;margin-right:.3rem}ul{margin:.2rem 0;padding-left:1.2rem}
footer{color:var(--soft);font-size:.8rem;margin-top:1rem}
@media (max-width:480px){.figures{grid-template-columns:1fr}.bar{grid-template-columns:6rem 1fr 4rem}}
"""


def as_html(memo: DecisionMemo) -> str:
    """The memo as one HTML document, light and dark, without scripts; it prints on one A4 page."""
    figures = "".join(
        f"<div><small>{escape(one.name)}</small><b>{escape(one.value)}</b><small>{escape(one.band)}</small></div>"
        for one in memo.figures
    )
    subject = f"<p>{escape(memo.subject)}</p>" if memo.subject else ""
    bought = f"<p><b>{escape(memo.purchase)}</b></p>" if memo.purchase else ""
    sections = "".join(
        f"<h2>{escape(title)}</h2><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        for title, items in lists(memo)
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(memo.title)}</title><style>{_STYLE}</style></head><body><h1>{escape(memo.title)}</h1>{subject}"
        f"<p class='said'>{escape(memo.recommendation)}</p>{bought}<div class='figures'>{figures}</div>"
        f"{_html_table(memo.table)}"
        f"<h2>{escape(memo.chart.title)}</h2>{_html_bars(memo.chart)}{sections}<footer>{escape(memo.origin)}</footer>"
        "</body></html>\n"
    )


def _html_table(table: Sequence[Sequence[str]]) -> str:
    rows = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"
        for tag, row in zip(["th", *["td"] * len(table)], table, strict=False)
    )
    return f"<table>{rows}</table>" if rows else ""


def _html_bars(chart: LossChart) -> str:
    mark = "" if chart.bound is None else f"<u style='left:{100 * chart.bound / chart.top:.2f}%'></u>"
    rows = ""
    for name, bar in chart.bars.items():
        parts = "".join(
            f"<i style='width:{100 * bar[part] / chart.top:.2f}%;background:{_colour(number)}'"
            f" title='{escape(part)} {escape(chart.amount(bar[part]))}'></i>"
            for number, part in enumerate(chart.parts)
            if bar.get(part, 0.0) > 0.0
        )
        total = escape(chart.amount(sum(bar.values())))
        rows += (
            f"<div class='bar'><span>{escape(name)}</span><span class='track'>{parts}{mark}</span><b>{total}</b></div>"
        )
    keys = "".join(
        f"<span><i style='background:{_colour(number)}'></i>{escape(part)}</span>"
        for number, part in enumerate(chart.parts)
    )
    bound = "" if chart.bound is None else f"<span>line: {escape(chart.bound_name)}</span>"
    return f"{rows}<div class='key'>{keys}{bound}</div>"


_MARGIN_MM, _FOOT_MM, _GAP_MM = 16, 18, 2
_TOTAL_MM = 16
"""Width of the sum behind a bar."""
_LINE = 0.48
"""Height of a line in mm, of a font of one point."""
_SCALES = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Sizes that are tried until the memo fits on the page."""


def as_pdf(memo: DecisionMemo) -> bytes:
    """The memo as a PDF of one A4 page, in smaller type where it is long.

    Raises:
        InputError: The extra `pdf` is not installed.
    """
    try:
        page = _fitted(memo)
    except ImportError:
        raise InputError(
            "a PDF needs the package fpdf2", hint="`pip install 'railyard[pdf]'`, or write .html or .md"
        ) from None
    page.set_y(-_MARGIN_MM)
    _write(page, memo.origin, 7)
    return bytes(page.output())


def _fitted(memo: DecisionMemo) -> FPDF:
    """The page in the largest type in which it has room for its foot."""
    from fpdf import FPDF

    for scale in _SCALES:
        page = FPDF(unit=scale * 72 / 25.4, format=(210 / scale, 297 / scale))
        _pdf_page(page, memo)
        if page.get_y() <= page.h - _FOOT_MM:
            break
    return page


def _pdf_page(page: FPDF, memo: DecisionMemo) -> None:
    page.set_margin(_MARGIN_MM)
    page.set_auto_page_break(auto=False)
    page.set_title(_latin(memo.title))
    page.set_creation_date(datetime.fromtimestamp(0, UTC))  # the same memo gives the same bytes
    page.add_page()
    _write(page, memo.title, 15, bold=True)
    if memo.subject:
        _write(page, memo.subject, 9)
    _write(page, memo.recommendation, 12)
    if memo.purchase:
        page.ln(1)
        _write(page, memo.purchase, 10, bold=True)
    page.ln(_GAP_MM)
    _pdf_figures(page, memo)
    if memo.table:
        page.ln(_GAP_MM)
        _pdf_table(page, memo.table)
    page.ln(3)
    _write(page, memo.chart.title, 11, bold=True)
    _pdf_bars(page, memo.chart)
    for title, items in lists(memo):
        page.ln(_GAP_MM)
        _write(page, title, 11, bold=True)
        for item in items:
            _write(page, f"- {item}", 9)


def _font(page: FPDF, size: float, *, bold: bool = False) -> None:
    """A font of so many points on an unscaled page."""
    page.set_font("helvetica", style="B" if bold else "", size=size * page.k * 25.4 / 72)


def _write(page: FPDF, text: str, size: float, *, bold: bool = False) -> None:
    _font(page, size, bold=bold)
    page.multi_cell(0, size * _LINE, _latin(text), align="L", new_x="LMARGIN", new_y="NEXT")


def _latin(text: str) -> str:
    """Text in the characters of the built-in fonts."""
    return text.encode("latin-1", "replace").decode("latin-1")


def _pdf_figures(page: FPDF, memo: DecisionMemo) -> None:
    top, width = page.get_y(), page.epw / len(memo.figures)
    page.set_draw_color(200)
    for number, one in enumerate(memo.figures):
        left = page.l_margin + number * width
        page.rect(left, top, width - 3, 22)
        for text, size, down in ((one.name, 8, 1.5), (one.value, 14, 6), (one.band, 8, 13)):
            page.set_xy(left + 1, top + down)
            _font(page, size, bold=text == one.value)
            page.multi_cell(width - 5, 4, _latin(text), align="L")
    page.set_xy(page.l_margin, top + 23)


def _pdf_table(page: FPDF, table: Sequence[Sequence[str]]) -> None:
    """Columns as wide as their cells, the first as wide as the rest of the page."""
    _font(page, 9, bold=True)
    widths = [
        max(page.get_string_width(_latin(cell)) for cell in column) + 5 for column in list(zip(*table, strict=True))[1:]
    ]
    widths.insert(0, page.epw - sum(widths))
    page.set_draw_color(200)
    for number, row in enumerate(table):
        _font(page, 9, bold=number == 0)
        top = page.get_y()
        page.multi_cell(widths[0], 4.4, _latin(row[0]), align="L", new_x="RIGHT", new_y="NEXT")
        bottom, left = page.get_y(), page.l_margin + widths[0]
        for cell, width in zip(row[1:], widths[1:], strict=True):
            page.set_xy(left, top)
            page.cell(width, 4.4, _latin(cell), align="R")
            left += width
        page.line(page.l_margin, bottom, page.l_margin + page.epw, bottom)
        page.set_xy(page.l_margin, bottom + 0.3)


def _pdf_bars(page: FPDF, chart: LossChart) -> None:
    _font(page, 9)
    widest = max((page.get_string_width(_latin(name)) for name in chart.bars), default=0.0) + 4
    label = min(widest, 0.4 * page.epw)
    wide = page.epw - label - _TOTAL_MM
    first = page.get_y()
    for name, bar in chart.bars.items():
        top, left = page.get_y(), page.l_margin + label
        page.multi_cell(label, 4.4, _latin(name), align="L", new_x="LMARGIN", new_y="NEXT")
        bottom = page.get_y()
        for number, part in enumerate(chart.parts):
            length = wide * bar.get(part, 0.0) / chart.top
            page.set_fill_color(_colour(number))
            page.rect(left, top + 0.6, length, 3.4, style="F")
            left += length
        page.set_xy(page.l_margin + label + wide, top)
        page.cell(_TOTAL_MM, 4.4, _latin(chart.amount(sum(bar.values()))), align="R")
        page.set_xy(page.l_margin, bottom + 0.4)
    if chart.bound is not None:
        at = page.l_margin + label + wide * chart.bound / chart.top
        page.set_draw_color(0)
        page.line(at, first - 0.5, at, page.get_y() + 0.5)
    _font(page, 8)
    for number, part in enumerate(chart.parts):
        width = page.get_string_width(_latin(part)) + 8
        if page.get_x() + width > page.l_margin + page.epw:
            page.ln(4.5)
        page.set_fill_color(_colour(number))
        page.rect(page.get_x() + 1, page.get_y() + 1.4, 2.4, 2.4, style="F")
        page.set_x(page.get_x() + 4)
        page.cell(width - 4, 5, _latin(part))
    page.ln(4.5)
    if chart.bound is not None:
        page.cell(0, 5, _latin(f"black line: {chart.bound_name}"))
        page.ln(4.5)


FORMATS: Mapping[str, Callable[[DecisionMemo], str | bytes]] = {".md": as_markdown, ".html": as_html, ".pdf": as_pdf}
"""How a memo is written, by the ending of its file."""


def write_memo(memo: DecisionMemo, path: Path) -> None:
    """Writes the memo in the format of the file's ending; the file appears whole or not at all.

    Raises:
        InputError: There is no such format, or the file cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InputError(
            "a memo has no such format", key="--out", found=path.suffix or path.name, allowed=list(FORMATS)
        )
    found = FORMATS[path.suffix](memo)
    if isinstance(found, bytes):
        write_bytes(path, found)
    else:
        write_text(path, found)
