"""`railyard plan PLAN.yaml`: which cluster to build, how sure that is, and what would change it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.judgement import best_words
from railyard.ask.plan.memo import other_winners, ran
from railyard.face.terminal import Table, emit, wrapped
from railyard.kit.prose import listed, quoted
from railyard.measure import numbers
from railyard.work.study.deaths import span

if TYPE_CHECKING:
    from railyard.ask.plan.planned import PlannedDesigns
    from railyard.ask.plan.study import FinishedPlan
    from railyard.measure.result.choices import PlanAnswer

_LOST = 12
_ROWS = 6
_OBJECTIVES = 4
"""Objectives of the first table."""
_REASONS = 2


def so_far(planned: PlannedDesigns) -> str:
    """Findings of a search that a signal stopped."""
    seen = f"{len(planned.points):,} of {planned.space.size:,} designs were compared"
    best = best_words(planned) or "no design was found yet"
    return f"{seen}; {best}; the same command continues the search"


def show(finished: FinishedPlan, *, quiet: bool, details: bool) -> None:
    """The best designs and what would change the choice; with details why others lost, and how sure it is."""
    planned, result = finished.planned, finished.answer.plain()
    if result["best"] is None:
        return
    if quiet:  # the design to build is data
        emit(f"{wrapped(finished.answer.sentence())}\n")
    _designs(planned, result)
    if details:
        tables = (_front(planned, result), _lost(planned, result), _rivals(planned, result))
        more = (_unverified(planned, result), _axes(planned, result), _constraints(result), _tornado(result))
        for table in (*tables, *more, _measure(result), _even(result), _ports(result)):
            if table.rows:
                emit("")
                table.print()
    if not quiet:
        lines = _closing(planned, finished.answer, result) if details else _reasons(finished.answer, result)
        lines += [f"note: {line}" for line in finished.answer.remarks]
        emit("\n" + "\n".join(map(wrapped, lines)) + f"\n\nreport: {finished.folder}/plan.html")


def _designs(planned: PlannedDesigns, result: dict[str, Any]) -> None:
    """The front, then the next designs by the first objective."""
    names = [one.name for one in planned.objectives][:_OBJECTIVES]
    table = Table(("design", "front", *names, "expected regret", "engine"), range(2, len(names) + 3))
    for row in [*result["front"], *result["runners_up"]][: max(len(result["front"]), _ROWS)]:
        cells = _cells(planned, row)[: len(names)]
        table.add(row["variant"], "yes" if row["front"] else "no", *cells, _regret(row), row["engine"])
    table.print()


def _reasons(answer: PlanAnswer, result: dict[str, Any]) -> list[str]:
    """Two sentences at most: what the job loses, what did not run, and what another design would win by."""
    unverified = len(result["unverified"])
    kinds = numbers.counted(unverified, "kind")
    doubt = f"{kinds} of design did not run on an engine and may win; `--details` lists them."
    lines = [*_ended(result), *([doubt] if unverified else _verified(answer)), *other_winners(answer)]
    return lines[:_REASONS]


def _cells(planned: PlannedDesigns, row: dict[str, Any]) -> list[str]:
    return [numbers.of_unit(row["objectives"][one.name], one.unit) for one in planned.objectives]


def _regret(row: dict[str, Any]) -> str:
    late = row["expected_regret"]
    return "not drawn" if late is None else numbers.percent(late)


def _chance(row: dict[str, Any]) -> str:
    chance = row["probability_best"]
    return "not drawn" if chance is None else numbers.percent(chance)


def _front(planned: PlannedDesigns, result: dict[str, Any]) -> Table:
    heads = ("front", *(one.name for one in planned.objectives), "best in draws", "engine", "layout")
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
    return table


def _lost(planned: PlannedDesigns, result: dict[str, Any]) -> Table:
    heads = ("runner-up", planned.objectives[0].name, "best in draws", "why not")
    table = Table(heads, (1, 2), prose=True)
    first = planned.objectives[0]
    others = [*result["front"][1:], *result["runners_up"]]
    others.sort(key=lambda row: first.sign * row["objectives"][first.name])
    for row in others[:_LOST]:
        table.add(row["variant"], _cells(planned, row)[0], _chance(row), row["why_not"])
    if not others:
        table.add("no other design is possible", "", "", "")
    return table


def _rivals(planned: PlannedDesigns, result: dict[str, Any]) -> Table:
    """The nearest rivals, on the engine that verified the choice."""
    found, first = result["verified"], planned.objectives[0]
    if found is None:
        return Table(())
    whole = found["share_of_step"] == 1.0
    on = found["engine"] if whole else f"{found['engine']}, {numbers.percent(found['share_of_step'])} of a step"
    table = Table((f"nearest rivals on {on}", first.name, "worse by"), (1, 2))
    for row in found["rivals"]:
        table.add(row["variant"], numbers.of_unit(row["value"], first.unit), f"{row['behind']:+.2%}")
    return table


def _unverified(planned: PlannedDesigns, result: dict[str, Any]) -> Table:
    """Kinds of designs that may win and did not run, so that nobody takes the choice for more than it is."""
    first = planned.objectives[0]
    head = f"did not run, may win (raise `effort.{planned.engine}`)"
    table = Table((head, f"{first.name} in closed form", "may be better by"), (1, 2))
    for row in result["unverified"][:_ROWS]:
        table.add(row["variant"], numbers.of_unit(row["value"], first.unit), f"{row['ahead']:.1%}")
    if len(result["unverified"]) > _ROWS:
        table.add(f"{len(result['unverified']) - _ROWS} more kinds: `--json` has all", "", "")
    return table


def _axes(planned: PlannedDesigns, result: dict[str, Any]) -> Table:
    """Which value of each axis won, and why the best design with another one is behind."""
    first = planned.objectives[0]
    table = Table(("axis", "value", first.name, "engine", "why not"), (2,), prose=True)
    for row in result["axes"]:
        value = "infinite" if row["objective"] is None else numbers.of_unit(row["objective"], first.unit)
        by = "closed form" if row["engine"] == "analytic" else row["engine"]
        table.add(row["axis"], row["value"], value, by, row["why_not"] or "chosen")
    return table


def _constraints(result: dict[str, Any]) -> Table:
    table = Table(("constraint", "missed by", "gain without it", "gain if 10 % looser", "best without it"), (1, 2, 3))
    for row in result["constraints"]:
        gains = (numbers.percent(row["gain_without"]), numbers.percent(row["gain_a_tenth_looser"]))
        table.add(row["name"], str(row["missed_by"]), *gains, row["best_without"] or "")
    return table


def _tornado(result: dict[str, Any]) -> Table:
    table = Table(("sensitivity", "lead at low", "lead at high", "best at low", "best at high"), (1, 2))
    for row in result["tornado"][:_ROWS]:
        leads = (f"{row['lead_low']:+.1%}", f"{row['lead_high']:+.1%}")
        table.add(row["factor"], *leads, row["best_low"], row["best_high"])
    return table


def _measure(result: dict[str, Any]) -> Table:
    table = Table(("measure first", "expected gain", "changes the choice"), (1, 2))
    for row in result["measure_first"][:_ROWS]:
        table.add(row["factor"], f"{row['gain']:.2%}", numbers.percent(row["changes"]))
    return table


def _even(result: dict[str, Any]) -> Table:
    table = Table(("wins instead", "if the price of", "is", "today"), (2, 3))
    for row in result["break_even"][:_ROWS]:
        words = "more than" if row["dearer"] else "less than"
        even = f"{words} {numbers.dollars(row['even_usd'])}"
        table.add(row["choice"], row["part"], even, numbers.dollars(row["price_usd"]))
    return table


def _ports(result: dict[str, Any]) -> Table:
    table = Table(("wins instead", "if its network per NIC costs", "today"), (1, 2))
    for row in result["port_prices"][:_ROWS]:
        even = row["even_usd_per_port"]
        words = "never" if even is None else f"less than {numbers.dollars(even)}"
        table.add(row["choice"], words, numbers.dollars(row["usd_per_port"]))
    return table


def _ran(looked: dict[str, Any]) -> str:
    """Number of runs by engine."""
    if looked["serving"]:
        return f"{looked['serving']} runs of requests"
    return f"{looked['flow']} runs on flow, {looked['packet']} on packets"


def _closing(planned: PlannedDesigns, answer: PlanAnswer, result: dict[str, Any]) -> list[str]:
    looked, bound = result["looked_at"], result["bound"]
    spread = numbers.percent(math.expm1(looked["closed_form"]["spread"]))
    seen = f" of {looked['designs']:,}" if looked["in_closed_form"] < looked["designs"] else ""
    lines = [
        f"Compared {looked['in_closed_form']:,}{seen} designs with {looked['layouts']:,} layouts in closed form, and"
        f" {_ran(looked)}.",
        f"What may be better is bounded by twice the closed form's standard deviation, {spread}.",
        f"{looked['failed']:,} designs are impossible; {looked['missed']:,} miss a constraint; {looked['same']:,} build"
        " the same cluster as another.",
    ]
    if bound is not None:
        ahead = f"{bound['ahead']:.1%} better by {bound['objective']}"
        lines.append(f"An ideal network, {quoted(bound['variant'])}, is {ahead}.")
    lines += [*_ended(result), *_verified(answer)]
    lines += [
        f"{row['designs']} designs are impossible ({row['engine']}): {row['error']}" for row in result["failed"][:3]
    ]
    if planned.stopped == "time":
        lines.append("`plan.effort.time` is over: this is the best so far. The same command continues the search.")
    return lines


def _ended(result: dict[str, Any]) -> list[str]:
    """Designs whose job a fault ends."""
    if result["front"][0]["outcome"] == "died":
        return ["The job dies in every design, so they are ranked with what it loses."]
    rows = result["ended"]
    if not rows:
        return []
    lost = f"{rows[0]['fault']}, {span(rows[0]['lost_s'])} lost"
    return [f"The job dies with {listed([row['variant'] for row in rows])} ({lost}): not chosen."]


def _verified(answer: PlanAnswer) -> list[str]:
    """How far the choice was verified, and what a finer engine would take."""
    found = answer.verified
    if found is None:
        return ["No engine ran the best design: the choice rests on the closed form."]
    words = ran(answer, found)
    if found.packets_core_s:
        words += f"; packets would take a core about {span(found.packets_core_s)} (`plan.effort.verify`)"
    return [f"{words}."]
