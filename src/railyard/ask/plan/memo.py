"""The decision memo and the pages of a plan: the design to build, its regret, and what would change the choice."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.objectives import FIGURES, OBJECTIVES
from railyard.kit.errors import InputError
from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.section import KeyFigure
from railyard.work.study.memo import DecisionMemo, LossChart, sentence, shortened
from railyard.work.study.page import document, folding, html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.measure.result.choices import (
        PlanAnswer,
        PlanConstraint,
        PlanDesign,
        PlanObjective,
        PlanSwing,
        PlanVerified,
    )


_MOST = 2
"""Lines of each kind of change."""

_KNOWN = 0.05
"""Share to which the price of a part is known, without a quote."""

_QUANTITIES = {
    "layout ": "the step time of",
    "step of ": "the time of a",
    "iterations of ": "the time of",
    "collectives on ": "the time of",
}
"""What is measured of a part of the model's error, by how its name begins."""


def memo_of_plan(answer: PlanAnswer) -> DecisionMemo:
    """The page for a decision.

    Raises:
        InputError: The plan found no design.
    """
    if answer.best is None:
        raise InputError("the plan found no design, so there is nothing to decide")
    best, first = answer.front[0], answer.objectives[0]
    figures = [_figure(best, one) for one in answer.objectives[:2]]
    figures.append(
        KeyFigure("Distance to the best", "not drawn")
        if best.within is None
        else KeyFigure("Distance to the best", f"at most {numbers.percent(best.within)}", "in 80 % of draws")
    )
    chart = LossChart.of(
        f"{first.words[:1].upper()}{first.words[1:]} at typical values, % worse than the best",
        " %",
        {one.variant: {first.words: _behind(one, answer.likely, first)} for one in (*answer.front, *answer.runners_up)},
    )
    return DecisionMemo(
        answer.name,
        sentence(answer.sentence()),
        figures,
        chart,
        list(other_winners(answer)),
        list(_confidence(answer)),
        shortened([_limit(row) for row in answer.constraints]),
        f"Railyard {answer.version}, seed {answer.seed}",
    )


def _limit(row: PlanConstraint) -> str:
    """`budget $30M: all designs fit`."""
    figure = FIGURES.get(row.name, row.name.rpartition(".")[2])
    bound = (
        ", ".join(row.limit) if isinstance(row.limit, tuple) else numbers.of_unit(row.limit, OBJECTIVES[figure].unit)
    )
    missed = "all designs fit" if not row.missed_by else f"{numbers.counted(row.missed_by, 'design')} missed it"
    return f"{row.name} {bound}: {missed}"


def _behind(design: PlanDesign, best: PlanDesign, objective: PlanObjective) -> float:
    """How much worse an objective is than that of the best design, in percent."""
    share = design.objectives[objective.name] / best.objectives[objective.name] - 1
    return 100 * max(share if objective.better == "small" else -share, 0.0)


def _figure(design: PlanDesign, objective: PlanObjective) -> KeyFigure:
    band = design.bands.get(objective.name)
    ends = () if band is None else (numbers.of_unit(end, objective.unit) for end in (band.p10, band.p90))
    both = ", model and prices" if objective.name == "cpmt" else ""
    within = f"80 % interval {' to '.join(ends)}{both}" if band else ""
    name = f"{objective.words[:1].upper()}{objective.words[1:]}"
    return KeyFigure(name, numbers.of_unit(design.objectives[objective.name], objective.unit), within)


def other_winners(answer: PlanAnswer) -> Iterator[str]:
    """Prices, factors and constraints that another design would win by, the likeliest first."""
    for row in answer.break_even[:_MOST]:
        words, share = "more" if row.dearer else "less", abs(row.even_usd / row.price_usd - 1.0)
        now = f"{max(share, 0.01):.0%}".replace("%", " %"), words, numbers.dollars(row.price_usd)
        equal = ": treat them as equal" if share < _KNOWN else ""
        yield f"{quoted(row.choice)} wins if one {row.part} costs {now[0]} {now[1]} than today's {now[2]}{equal}."
    for swing in answer.tornado[:_MOST]:
        yield from _swung(answer, swing)
    for limit in answer.constraints[:_MOST]:
        if limit.best_without is not None and (limit.gain_without or 0.0) > 0.0:
            gain = numbers.percent(limit.gain_without)
            yield f"Without the limit on {limit.name}, {quoted(limit.best_without)} is {gain} better."


def _confidence(answer: PlanAnswer) -> Iterator[str]:
    found, looked, bound = answer.verified, answer.looked_at, answer.bound
    if bound is not None:
        yield f"{quoted(bound.variant)}, a bound that nobody sells, is {numbers.percent(bound.ahead)} better."
    if found is None:
        yield "No engine ran the best design: the choice rests on the closed form."
    else:
        yield ran(answer, found) + "."
    error = looked.closed_form
    runs = numbers.counted(error.of, "run")
    yield f"The closed form is off by {numbers.percent(error.mean)} on average, over {runs}."
    yield from (f"{line[:1].upper()}{line[1:]}." for line in answer.remarks)
    if answer.unverified:
        kinds = numbers.counted(len(answer.unverified), "kind")
        spread = numbers.percent(math.expm1(error.spread))
        yield f"{kinds} of design did not run and may win within twice the closed form's standard deviation, {spread}."
    yield from (f"Measure first: {_quantity(row.factor)}." for row in answer.measure_first[:_MOST])


def ran(answer: PlanAnswer, found: PlanVerified) -> str:
    """Says that an engine ran the chosen design and its rivals, and which of them is better there."""
    words = f"Engine {found.engine} ran the chosen design and its {len(found.rivals)} nearest rivals"
    if found.stands:
        return words
    first = min(found.rivals, key=lambda row: row.behind)
    why = ", with more expected regret" if answer.front[0].expected_regret is not None else ""
    return f"{words}; at typical values {quoted(first.variant)} is {numbers.percent(-first.behind)} better{why}"


def _swung(answer: PlanAnswer, swing: PlanSwing) -> Iterator[str]:
    """The design that wins at an end of a factor's range, if that is another one."""
    for other, end, name in ((swing.best_low, swing.low, "low"), (swing.best_high, swing.high, "high")):
        if other == answer.best or end is None:
            continue
        where = f"at the {name} end of the range of {_quantity(swing.factor)}"
        if swing.kind == "model":
            longer = f"{abs(math.expm1(end)):.0%}".replace("%", " %"), "longer" if end > 0 else "shorter"
            where = f"if {_quantity(swing.factor)} is {longer[0]} {longer[1]} than the model says"
        yield f"{quoted(other)} wins {where}."
        return


def _quantity(factor: str) -> str:
    """What to measure of a factor: the step time of a layout, not the layout."""
    for head, words in _QUANTITIES.items():
        if factor.startswith(head):
            return f"{words} {factor}"
    return f"the {factor}" if factor.startswith(("price ", "power ", "draw ", "cost ")) else factor


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
