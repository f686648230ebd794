"""`railyard plan PLAN.yaml`: which cluster to build, how sure that is, and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.plan.judgement import best_words
from railyard.face.terminal import Table, emit
from railyard.measure import numbers
from railyard.work.study.deaths import span

if TYPE_CHECKING:
    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.plan.study import FinishedPlan

_LOST = 12
_ROWS = 6


def so_far(planned: PlannedDesigns) -> str:
    """Findings of a search that a signal stopped."""
    seen = f"{len(planned.points):,} of {planned.space.size:,} designs were looked at"
    best = best_words(planned) or "no design was found yet"
    return f"{seen}; {best}; the same command goes on from here"


def show(finished: FinishedPlan, *, quiet: bool) -> None:
    """The front, why the others lost, and what the choice depends on; nothing if there is no design."""
    planned, result = finished.planned, finished.answer.plain()
    if result["best"] is None:
        return
    _front(planned, result)
    emit("")
    _lost(planned, result)
    tables = (_rivals(planned, result), _unverified(planned, result), _axes(planned, result), _constraints(result))
    for table in (*tables, _tornado(result), _measure(result), _even(result), _ports(result)):
        if table is not None:
            emit("")
            table.print()
    if not quiet:
        emit(f"\n{_closing(planned, result)}\n\nreport: {finished.folder}/plan.html")


def _cells(planned: PlannedDesigns, row: dict[str, Any]) -> list[str]:
    return [numbers.of_unit(row["objectives"][one.name], one.unit) for one in planned.objectives]


def _chance(row: dict[str, Any]) -> str:
    chance = row["probability_best"]
    return "not drawn" if chance is None else numbers.percent(chance)


def _front(planned: PlannedDesigns, result: dict[str, Any]) -> None:
    heads = ("front", *(one.name for one in planned.objectives), "chance of best", "engine", "layout")
    table = Table(heads, range(1, len(planned.objectives) + 2), turn=True)
    for row in result["front"]:
        layouts = list(dict.fromkeys(row["layouts"].values()))
        table.add(
            row["variant"],
            *_cells(planned, row),
            _chance(row),
            row["engine"],
            "; ".join(layouts),
        )
    table.print()


def _lost(planned: PlannedDesigns, result: dict[str, Any]) -> None:
    heads = ("runner-up", planned.objectives[0].name, "chance of best", "why not")
    table = Table(heads, (1, 2))
    first = planned.objectives[0]
    others = [*result["front"][1:], *result["runners_up"]]
    others.sort(key=lambda row: first.sign * row["objectives"][first.name])
    for row in others[:_LOST]:
        table.add(row["variant"], _cells(planned, row)[0], _chance(row), row["why_not"])
    if not others:
        table.add("nothing else can be", "", "", "")
    table.print()


def _rivals(planned: PlannedDesigns, result: dict[str, Any]) -> Table | None:
    """The nearest rivals, on the engine that verified the choice."""
    found, first = result["verified"], planned.objectives[0]
    if found is None or not found["rivals"]:
        return None
    whole = found["share_of_step"] == 1.0
    on = found["engine"] if whole else f"{found['engine']}, {numbers.percent(found['share_of_step'])} of a step"
    table = Table((f"nearest rivals, run on {on}", first.name, "behind the best"), (1, 2))
    for row in found["rivals"]:
        table.add(row["variant"], numbers.of_unit(row["value"], first.unit), f"{row['behind']:+.2%}")
    return table


def _unverified(planned: PlannedDesigns, result: dict[str, Any]) -> Table | None:
    """Kinds of designs that may win and did not run, so that nobody takes the choice for more than it is."""
    if not result["unverified"]:
        return None
    first = planned.objectives[0]
    head = f"not run, and may win (raise `effort.{planned.engine}`)"
    table = Table((head, f"{first.name} in closed form", "may be ahead by"), (1, 2))
    for row in result["unverified"][:_ROWS]:
        table.add(row["variant"], numbers.of_unit(row["value"], first.unit), f"{row['ahead']:.1%}")
    if len(result["unverified"]) > _ROWS:
        table.add(f"{len(result['unverified']) - _ROWS} more kinds: `--json` has all", "", "")
    return table


def _axes(planned: PlannedDesigns, result: dict[str, Any]) -> Table | None:
    """Which value of each axis won, and why the best design with another one is behind."""
    if not result["axes"]:
        return None
    first = planned.objectives[0]
    table = Table(("axis", "value", first.name, "by", "why not"), (2,))
    for row in result["axes"]:
        value = "without end" if row["objective"] is None else numbers.of_unit(row["objective"], first.unit)
        by = "closed form" if row["engine"] == "analytic" else row["engine"]
        table.add(row["axis"], row["value"], value, by, row["why_not"] or "chosen")
    return table


def _constraints(result: dict[str, Any]) -> Table | None:
    if not result["constraints"]:
        return None
    table = Table(("constraint", "missed by", "gain without it", "a tenth looser", "best without it"), (1, 2, 3))
    for row in result["constraints"]:
        gains = (numbers.percent(row["gain_without"]), numbers.percent(row["gain_a_tenth_looser"]))
        table.add(row["name"], str(row["missed_by"]), *gains, row["best_without"] or "")
    return table


def _tornado(result: dict[str, Any]) -> Table | None:
    if not result["tornado"]:
        return None
    table = Table(("the choice depends on", "lead at low", "lead at high", "best at low", "best at high"), (1, 2))
    for row in result["tornado"][:_ROWS]:
        leads = (f"{row['lead_low']:+.1%}", f"{row['lead_high']:+.1%}")
        table.add(row["factor"], *leads, row["best_low"], row["best_high"])
    return table


def _measure(result: dict[str, Any]) -> Table | None:
    if not result["measure_first"]:
        return None
    table = Table(("measure first", "gain", "changes the choice"), (1, 2))
    for row in result["measure_first"][:_ROWS]:
        table.add(row["factor"], f"{row['gain']:.2%}", numbers.percent(row["changes"]))
    return table


def _even(result: dict[str, Any]) -> Table | None:
    if not result["break_even"]:
        return None
    table = Table(("wins", "where one costs", "break-even", "today"), (2, 3))
    for row in result["break_even"][:_ROWS]:
        words = "more than" if row["dearer"] else "less than"
        even = f"{words} {numbers.dollars(row['even_usd'])}"
        table.add(row["choice"], row["part"], even, numbers.dollars(row["price_usd"]))
    return table


def _ports(result: dict[str, Any]) -> Table | None:
    if not result["port_prices"]:
        return None
    table = Table(("wins", "where its network costs, a NIC", "today"), (1, 2))
    for row in result["port_prices"][:_ROWS]:
        even = row["even_usd_per_port"]
        words = "not at any price" if even is None else f"less than {numbers.dollars(even)}"
        table.add(row["choice"], words, numbers.dollars(row["usd_per_port"]))
    return table


def _ran(looked: dict[str, Any]) -> str:
    """Number of runs by engine."""
    if looked["serving"]:
        return f"{looked['serving']} runs of requests"
    return f"{looked['flow']} runs on flow, {looked['packet']} on packets"


def _closing(planned: PlannedDesigns, result: dict[str, Any]) -> str:
    looked = result["looked_at"]
    seen = f" ({looked['in_closed_form']:,} looked at)" if looked["in_closed_form"] < looked["designs"] else ""
    text = (
        f"{looked['designs']:,} designs{seen}, {looked['layouts']:,} layouts in closed form,"
        f" {_ran(looked)};"
        f" {looked['failed']:,} cannot be, {looked['missed']:,} miss a constraint"
    )
    lines = [text]
    bound = result["bound"]
    if bound is not None:
        lines.append(
            f"left to gain on a network that blocks nothing, which no product reaches: {bound['ahead']:.1%} of"
            f" {bound['objective']} ({bound['variant']}, {bound['engine']})"
        )
    lines += _ended(result)
    lines += _verified(result)
    lines += [f"{row['designs']} cannot be ({row['engine']}): {row['error']}" for row in result["failed"][:3]]
    if planned.stopped == "time":
        lines.append("`plan.effort.time` is spent: best so far; the same command goes on from here")
    return "\n".join(lines)


def _ended(result: dict[str, Any]) -> list[str]:
    """Designs whose job a fault ends."""
    if result["front"][0]["outcome"] == "died":
        return ["the job dies in every design: ranked with what it loses"]
    rows = result["ended"]
    if not rows:
        return []
    names = ", ".join(row["variant"] for row in rows[:3])
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return [f"not chosen, because the job dies ({rows[0]['fault']}, {span(rows[0]['lost_s'])} lost): {names}{more}"]


def _verified(result: dict[str, Any]) -> list[str]:
    """Extent of the choice's verification, and what a finer engine would take."""
    found = result["verified"]
    if found is None:
        return ["not verified: no engine ran the best design"]
    count = len(found["rivals"])
    words = f"verified on {found['engine']} against its {count} nearest rivals"
    if not found["stands"]:
        words += f"; there {min(found['rivals'], key=lambda row: row['behind'])['variant']} is better"
    if found["packets_core_s"]:
        words += f"; whole steps of all as packets would take a core about {span(found['packets_core_s'])}"
        words += " (`plan.effort.verify`)"
    return [words]
