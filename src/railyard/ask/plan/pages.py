"""Pages of the planner: verdict, key figures, bars with their bands, and tables."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.work.study.page import document, folding, html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Row = tuple[str, float, float, float, str]
"""Words, low, typical, high, and what is written behind the bar."""


def usd(value: float) -> str:
    """Dollars in three digits."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    for scale, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size >= scale:
            return f"{sign}${size / scale:.3g}{letter}"
    return f"{sign}${size:.3g}"


def bars(rows: Sequence[Row], most: float | None = None) -> str:
    """Bars of typical values with lines from low to high; `most` is the full width."""
    top = most or max((max(abs(row[1]), abs(row[3])) for row in rows), default=0.0) or 1.0
    least = min(0.0, *(row[1] for row in rows)) if rows else 0.0

    def at(value: float) -> float:
        return 100.0 * (value - least) / (top - least)

    out = []
    for words, low, typical, high, text in rows:
        left, right = sorted((at(0.0), at(typical)))
        bar = f'<i style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        band = f'<u style="left:{at(low):.2f}%;width:{at(high) - at(low):.2f}%"></u>' if high > low else ""
        name, value = html.escape(words), html.escape(text)
        out.append(f"<span>{name}</span><span class=track>{bar}{band}</span><span>{value}</span>")
    return f'<div class="bars">{"".join(out)}</div>'


_PATHS = {
    "rent": "Rent the accelerators for three years.",
    "incremental": "Buy the missing parts, and remove the cables that the next topology does not use.",
    "forklift": "Replace the network at every stage, except the NICs.",
    "ahead": "Buy the network of the last stage with the first.",
    "beside": "Give each stage's accelerators a fabric of their own, and run a job on each.",
}


def growth_page(name: str, verdict: str, found: dict[str, Any]) -> str:
    """One page, offline; `found` is the plan as `--json` prints it."""
    ranked = sorted(found["paths"], key=lambda path: max(path["regret_by_future"]))
    futures = []
    for number, stage in enumerate(found["stages"]):
        futures.append(
            f"<h3>Growth ends after {html.escape(stage['name'])}: {stage['accelerators']:,} accelerators from day"
            f" {stage['at_days']:g}</h3>"
        )
        rows = []
        for path in ranked:
            price, late = path["usd_per_million_by_future"][number], path["regret_by_future"][number]
            words = (
                f"${numbers.short(price)}, {100 * late:.1f} % more" if late else f"${numbers.short(price)}, cheapest"
            )
            rows.append((path["name"], price, price, price, words))
        futures.append(bars(rows))
    bought = [
        (
            path["name"],
            step["stage"],
            usd(step["capital_usd"]),
            usd(step["stranded_usd"]),
            usd(step["written_off_usd"]),
            f"{step['stopped_h']:.3g}",
        )
        for path in ranked
        for step in path["steps"]
    ]
    headings = ("path", "stage", "capital", "stranded at its price", "stranded on the books", "hours without jobs")
    worst = [
        (row["built"], regret, regret, regret, usd(regret))
        for row in found["provisioning"]
        for regret in (row["largest_regret_usd"],)
    ]
    ways = [(path["name"], _PATHS[path["name"]]) for path in ranked]
    ways += [(row["name"], f"Not possible: {row['reason']}") for row in found["left_out"]]
    parts = [
        folding(
            "$/Mtoken by path, if growth ends early",
            "<p>Present values at the cost of capital. Later stages are then never built.</p>" + "".join(futures),
        ),
        folding("What each stage buys and leaves unused", html_table(headings, bought, range(2, 6))),
        folding(
            "Regret of each size, $/year",
            "<p>Everything is bought at once. Surplus accelerators are idle, missing ones are rented on demand. The"
            " regret is the largest over the demands of all stages.</p>" + bars(worst),
        ),
        folding("Paths", html_table(("path", "what it does"), ways)),
    ]
    stages = " to ".join(f"{stage['accelerators']:,}" for stage in (found["stages"][0], found["stages"][-1]))
    figures = [
        KeyFigure("Growth", stages, f"accelerators in {len(found['stages'])} stages"),
        *(
            KeyFigure(
                f"Path {path['name']}",
                f"${numbers.short(path['usd_per_million_by_future'][-1])}",
                f"per million tokens; largest regret {100 * max(path['regret_by_future']):.1f} %",
            )
            for path in ranked[:3]
        ),
    ]
    return document(f"{name}: paths of growth", verdict, figures, parts)


def worth_page(verdict: str, found: dict[str, Any]) -> str:
    """One page, offline; `found` is the report as `--json` prints it."""
    changes = [
        ("1 us more in every switch", found["hop_us"]["usd_per_year"]),
        ("0.1 % more in the slowest of 1,000 kernels", found["tail_0_1_percent"]["usd_per_year"]),
    ]
    shares = [_row(words, found["network"][key], lambda share: f"{100 * share:.1f} %") for words, key in SHARES]
    grids = [
        _row(
            f"{row['grid']} ({row['g_per_kwh']:g} g/kWh, {row['year']})",
            row["tonnes_per_year"],
            lambda t: f"{t:,.0f} t",
        )
        for row in found["carbon"]["grids"]
    ]
    nines = [
        (f"{100 * row['wanted']:g} %", "more than 50 % extra servers", "", "")
        if row["usd_per_year"] is None
        else (
            f"{100 * row['wanted']:g} %",
            row["spares"][1],
            usd(row["step_usd_per_year"]),
            usd(row["worth_usd_per_year"]),
        )
        for row in found["nines"]
    ]
    headings = ("time with all servers", "spare servers", "spares cost a year", "time won is worth a year")
    carbon = found["carbon"]
    parts = [
        folding(
            "$/year of a small change",
            "<p>Bars are typical values. Lines are the range over prices and draws.</p>"
            + bars([_row(words, band, usd) for words, band in changes]),
        ),
        folding(
            "Price of each nine",
            "<p>Dollars are those over the row before: of its spares, and of the cluster in the time that they win.</p>"
            + html_table(headings, nines, range(1, 4)),
        ),
        folding("Share of the network", bars(shares, most=1.0)),
        folding(
            "Carbon of a year's electricity by grid",
            bars(grids) + f"<p>{html.escape(carbon['source'])}. Not included: {html.escape(carbon['absent'])}.</p>",
        ),
    ]
    year = found["usd_per_year"]
    figures = [
        KeyFigure("Cluster, $/year", usd(year["typical"]), f"{usd(year['low'])} to {usd(year['high'])}"),
        *(
            KeyFigure(f"{words}, $/year", usd(band["typical"]), f"{usd(band['low'])} to {usd(band['high'])}")
            for words, band in changes
        ),
    ]
    return document(f"{found['name']}: what a small change is worth", verdict, figures, parts)


SHARES = (("of capital", "capex"), ("of dollars per hour", "usd"), ("of energy", "joules"))


def _row(words: str, band: dict[str, float], show: Callable[[float], str]) -> Row:
    return words, band["low"], band["typical"], band["high"], show(band["typical"])
