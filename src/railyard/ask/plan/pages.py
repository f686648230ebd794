"""Pages of the planner: bars with their bands, drawn without a script."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


Row = tuple[str, float, float, float, str]
"""Words, low, typical, high, and what is written behind the bar."""

STYLE = """body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:1000px;padding:0 1rem;color:#1b1f24}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{color:#556;margin:.2rem 0}
svg text{font:12px system-ui,sans-serif;fill:#333}"""
WIDE, LEFT, RIGHT, HIGH = 980.0, 300.0, 210.0, 26.0


def document(title: str, parts: Sequence[str]) -> str:
    """One page, offline."""
    name = html.escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    body = "".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>\n'


def usd(value: float) -> str:
    """Dollars in three digits."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    for scale, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= scale:
            return f"{sign}${size / scale:.3g}{letter}"
    return f"{sign}${size:.3g}"


def bars(rows: Sequence[Row], most: float | None = None) -> str:
    """Bars of typical values with lines from low to high."""
    top = most or max((max(abs(row[1]), abs(row[3])) for row in rows), default=0.0) or 1.0
    least = min(0.0, *(row[1] for row in rows)) if rows else 0.0
    room = WIDE - LEFT - RIGHT

    def at(value: float) -> float:
        return LEFT + (value - least) / (top - least) * room

    out = []
    for number, (words, low, typical, high, text) in enumerate(rows):
        y = HIGH * number
        left, right = sorted((at(0.0), at(typical)))
        out.append(f'<text x="{LEFT - 8:g}" y="{y + 17:g}" text-anchor="end">{html.escape(words)}</text>')
        out.append(f'<rect x="{left:.1f}" y="{y + 5:g}" width="{right - left:.1f}" height="15" fill="#1f6feb"/>')
        out.append(f'<path d="M{at(low):.1f} {y + 12.5:g}H{at(high):.1f}" stroke="#1b1f24" stroke-width="2"/>')
        out.append(f'<text x="{max(at(high), right) + 8:.1f}" y="{y + 17:g}">{html.escape(text)}</text>')
    return svg(out, len(rows))


def svg(parts: Sequence[str], rows: int) -> str:
    """Parts of a picture of so many rows."""
    return f'<svg width="100%" viewBox="0 0 {WIDE:g} {HIGH * rows + 4:g}" role="img">{"".join(parts)}</svg>'
