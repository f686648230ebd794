"""The page of `railyard plan worth`: bars with their bands, drawn without a script."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.drawing import HIGH, LEFT, RIGHT, WIDE, bars, document, svg, usd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.plan.drawing import Row


def page(found: dict[str, Any]) -> str:
    """One page, offline.

    Args:
        found: As `to_json` gives it.
    """
    hop, tail, year = found["hop_us"], found["tail_0_1_percent"], found["usd_per_year"]
    name = html.escape(found["name"])
    parts = [
        f"<h1>{name}: what a little more is worth</h1>",
        f"<p>The cluster costs {usd(year['typical'])} a year ({usd(year['low'])} to {usd(year['high'])}). Bars are"
        " typical values, lines reach from the low to the high end of prices and draws.</p>",
        "<h2>Dollars a year</h2>",
        bars(
            [
                _row("1 us more in every switch", hop["usd_per_year"]),
                _row("0.1 % more of the slowest of 1,000", tail["usd_per_year"]),
            ]
        ),
        "<h2>The price of each nine, and what it gives</h2>",
        "<p>Spare servers with which the whole job has its servers for such a share of the time; blue: their dollars a"
        " year, orange: what the cluster costs in the time that is won over the level before.</p>",
        _nines(found["nines"]),
        "<h2>The network's share</h2>",
        bars([_share(words, found["network"][key]) for words, key in SHARES], most=1.0),
        "<h2>Carbon of a year's electricity by grid</h2>",
        bars([_tonnes(row) for row in found["carbon"]["grids"]]),
        f"<p>{html.escape(found['carbon']['source'])}. Absent: {html.escape(found['carbon']['absent'])}.</p>",
    ]
    return document(f"{found['name']}: worth", parts)


SHARES = (("of what is bought", "capex"), ("of the dollars of an hour", "usd"), ("of the joules", "joules"))


def _row(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], usd(band["typical"])


def _share(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:.1%}"


def _tonnes(row: dict[str, Any]) -> Row:
    band = row["tonnes_per_year"]
    words = f"{row['grid']} ({row['g_per_kwh']:g} g/kWh, {row['year']})"
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:,.0f} t"


def _nines(rows: Sequence[dict[str, Any]]) -> str:
    sold = [row for row in rows if row["usd_per_year"] is not None]
    top = max((max(row["step_usd_per_year"], row["worth_usd_per_year"]) for row in sold), default=0.0) or 1.0
    room = WIDE - LEFT - RIGHT
    out = []
    for number, row in enumerate(rows):
        y = HIGH * number
        words = f"{100 * row['wanted']:g} % of the time"
        out.append(f'<text x="{LEFT - 8:g}" y="{y + 17:g}" text-anchor="end">{words}</text>')
        if row["usd_per_year"] is None:
            out.append(f'<text x="{LEFT:g}" y="{y + 17:g}">more than half as many servers again</text>')
            continue
        pair = (row["step_usd_per_year"], row["worth_usd_per_year"])
        for line, (value, colour) in enumerate(zip(pair, ("#1f6feb", "#d9730d"), strict=True)):
            wide = max(value, 0.0) / top * room
            out.append(f'<rect x="{LEFT:g}" y="{y + 3 + 10 * line:g}" width="{wide:.1f}" height="9" fill="{colour}"/>')
        spares = row["spares"][1]
        text = f"{spares} spare{'s' if spares != 1 else ''}; {usd(pair[0])} for {usd(pair[1])}"
        end = LEFT + max(*pair, 0.0) / top * room
        out.append(f'<text x="{end + 8:.1f}" y="{y + 17:g}">{text}</text>')
    return svg(out, len(rows))
