"""Pages of the planner: bars with their bands, drawn without a script."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from railyard.work.study.page import document

if TYPE_CHECKING:
    from collections.abc import Sequence


Row = tuple[str, float, float, float, str]
"""Words, low, typical, high, and what is written behind the bar."""

WIDE, LEFT, RIGHT, HIGH = 980.0, 300.0, 210.0, 26.0


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
    return f'<svg style="width:100%" viewBox="0 0 {WIDE:g} {HIGH * rows + 4:g}" role="img">{"".join(parts)}</svg>'


_ROOM = 2.4
"""Width of a chart over its longest bar: stranded parts are labelled behind it."""

_PATHS = {
    "rent": "rent: accelerators for three years",
    "incremental": "incremental: missing parts are bought, and cables that the next topology does not use are removed",
    "forklift": "forklift: every stage replaces the network, except the NICs",
    "ahead": "ahead: the last stage's network is bought at the first",
    "beside": "`beside`: each stage's accelerators under a fabric of their own, a job on each",
}


def growth_page(name: str, found: dict[str, Any]) -> str:
    """One page, offline."""
    stages = [stage["name"] for stage in found["stages"]]
    parts = [
        "<p>Present values at the cost of capital. Growth may end after any stage.</p>",
    ]
    for number, stage in enumerate(found["stages"]):
        parts.append(
            f"<h2>Dollars a million tokens where growth ends after {html.escape(stage['name'])}"
            f" (day {stage['at_days']:g}, {stage['accelerators']:,} accelerators)</h2>"
        )
        rows = []
        for path in found["paths"]:
            price, late = path["usd_per_million_by_future"][number], path["regret_by_future"][number]
            words = f"${price:.3g}, {late:+.1%}" if late else f"${price:.3g}, the cheapest"
            rows.append((path["name"], price, price, price, words))
        parts.append(bars(rows))
    parts.append("<h2>Purchases and stranded parts of each stage</h2>")
    rows = []
    for path in found["paths"]:
        for step in path["steps"]:
            left = []
            if step["stranded_usd"]:
                left.append(f"stranded {usd(step['stranded_usd'])} ({usd(step['written_off_usd'])} on the books)")
            if step["stopped_h"]:
                left.append(f"jobs stop {step['stopped_h']:.3g} h")
            capital = step["capital_usd"]
            words = "; ".join([usd(capital), *left])
            rows.append((f"{path['name']}, {step['stage']}", capital, capital, capital, words))
    parts.append(bars(rows, most=_ROOM * max((row[3] for row in rows), default=1.0)))
    parts.append(
        "<h2>Too much or too little: regret of each size, dollars a year</h2><p>Everything is bought at once. Excess"
        " capacity idles; missing capacity is rented on demand. The largest regret over the demands, one per stage.</p>"
    )
    worst = [(row["built"], row["largest_regret_usd"]) for row in found["provisioning"]]
    parts.append(bars([(built, regret, regret, regret, usd(regret)) for built, regret in worst]))
    parts += [f"<p>{html.escape(_PATHS[path['name']])}</p>" for path in found["paths"]]
    parts += [f"<p>{html.escape(row['name'])} cannot be: {html.escape(row['reason'])}</p>" for row in found["left_out"]]
    parts.append(f"<p>Largest regret over {html.escape(', '.join(stages))} ranks the paths.</p>")
    return document(f"{name}: how it grows", "", (), parts)


def worth_page(found: dict[str, Any]) -> str:
    """One page, offline."""
    hop, tail, year = found["hop_us"], found["tail_0_1_percent"], found["usd_per_year"]
    parts = [
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
        "<p>Spare servers that keep the whole job supplied for that share of the time. Blue: their"
        " dollars a year. Orange: the cluster's cost in the time gained over the previous level.</p>",
        _moved_nines(found["nines"]),
        "<h2>The network's share</h2>",
        bars([_share(words, found["network"][key]) for words, key in SHARES], most=1.0),
        "<h2>Carbon of a year's electricity by grid</h2>",
        bars([_tonnes(row) for row in found["carbon"]["grids"]]),
        f"<p>{html.escape(found['carbon']['source'])}. Absent: {html.escape(found['carbon']['absent'])}.</p>",
    ]
    return document(f"{found['name']}: what a small change is worth", "", (), parts)


SHARES = (("of what is bought", "capex"), ("of the dollars of an hour", "usd"), ("of the joules", "joules"))


def _row(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], usd(band["typical"])


def _share(words: str, band: dict[str, float]) -> Row:
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:.1%}"


def _tonnes(row: dict[str, Any]) -> Row:
    band = row["tonnes_per_year"]
    words = f"{row['grid']} ({row['g_per_kwh']:g} g/kWh, {row['year']})"
    return words, band["low"], band["typical"], band["high"], f"{band['typical']:,.0f} t"


def _moved_nines(rows: Sequence[dict[str, Any]]) -> str:
    sold = [row for row in rows if row["usd_per_year"] is not None]
    top = max((max(row["step_usd_per_year"], row["worth_usd_per_year"]) for row in sold), default=0.0) or 1.0
    room = WIDE - LEFT - RIGHT
    out = []
    for number, row in enumerate(rows):
        y = HIGH * number
        words = f"{100 * row['wanted']:g} % of the time"
        out.append(f'<text x="{LEFT - 8:g}" y="{y + 17:g}" text-anchor="end">{words}</text>')
        if row["usd_per_year"] is None:
            out.append(f'<text x="{LEFT:g}" y="{y + 17:g}">more than 50 % extra servers</text>')
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
