"""Answers of `railyard plan growth`, `worth`, `query` and `serving`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.ask.plan import growth as paths
from railyard.ask.plan.deployments import gain, why
from railyard.ask.plan.growth_change import provisions
from railyard.face.terminal import Table, emit
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.cost.assumptions import ABSENT, SOURCE

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from railyard.ask.plan.deployments import OptionRow, PlannedDeployments, TriedDeployment
    from railyard.ask.plan.growth import Growth
    from railyard.ask.plan.worth import WorthReport
    from railyard.catalog.types import Range


def show_rows(found: pl.DataFrame) -> None:
    """Prints the answer to a question as a table."""
    right = [at for at, kind in enumerate(found.dtypes) if kind.is_numeric()]
    table = Table(found.columns, right)
    for row in found.iter_rows():
        table.add(*(_plan_query_cell(value) for value in row))
    table.print()


def _plan_query_cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def plain(row: dict[str, object]) -> dict[str, object]:
    """A row as JSON has it: what is no number is null."""
    return {
        key: (None if isinstance(value, float) and not math.isfinite(value) else value) for key, value in row.items()
    }


def show_growth(found: Growth) -> None:
    """Prints what paths of growth cost, and what each regrets where growth ends early."""
    _steps(found)
    emit("")
    _futures(found)
    emit("")
    _provisions(found)
    for name, reason in found.left_out:
        emit(f"{name} cannot be: {reason}")
    if any(path.name == paths.BESIDE for path in found.paths):
        emit("`beside`: tokens of several jobs, one a cluster, each with its part of the batch; none uses all of them")


def _steps(found: Growth) -> None:
    heads = (
        "path",
        "stage",
        "capital",
        "network bought",
        "stranded",
        "on the books",
        "cables kept/moved/laid",
        "job stops",
        "idle",
    )
    table = Table(heads, range(2, len(heads)), turn=True)
    for path in found.paths:
        for step in path.steps:
            made = step.change
            table.add(
                path.name,
                step.stage,
                numbers.dollars(step.capital_usd),
                numbers.dollars(made.usd(made.bought.values(), network=True)),
                numbers.dollars(step.stranded_usd),
                numbers.dollars(step.written_off_usd),
                f"{made.kept:,}/{made.moved:,}/{made.laid:,}",
                numbers.seconds(step.stopped_s),
                numbers.dollars(step.idle_usd),
            )
    table.print()


def _provisions(found: Growth) -> None:
    heads = ("bought at once, USD a year where wanted", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for one in provisions(found.stages):
        costs = [
            f"{numbers.dollars(usd)} (+{numbers.dollars(late)})"
            for usd, late in zip(one.usd_per_year, one.regret_usd, strict=True)
        ]
        table.add(one.built, *costs, numbers.dollars(one.bound_usd))
    table.print()


def _futures(found: Growth) -> None:
    heads = ("$/M tokens where growth ends after", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for path in found.paths:
        costs = [f"{numbers.short(usd)} ({late:+.1%})" for usd, late in zip(path.futures, path.regret, strict=True)]
        table.add(path.name, *costs, f"{max(path.regret):.1%}")
    table.print()


def show_worth(found: WorthReport) -> None:
    """Prints what a microsecond, a tail, nines and the network are worth, and carbon by grid."""
    for table in (_moved(found), _nines(found), _network(found), _carbon(found)):
        table.print()
        emit("")
    emit(f"grids: {SOURCE}; absent: {ABSENT}")


def _usd(band: Range) -> tuple[str, str, str]:
    low, typical, high = (signed(value) for value in (band.low, band.typical, band.high))
    return typical, low, high


def signed(value: float) -> str:
    """Dollars with their sign where they are less than nothing."""
    return f"-{numbers.dollars(-value)}" if value < 0 else numbers.dollars(value)


def _moved(found: WorthReport) -> Table:
    table = Table(("what a year of it costs", "USD a year", "low", "high", "of the cluster"), (1, 2, 3, 4))
    for words, one in (
        ("1 us more in every switch", found.hop),
        ("0.1 % more of the slowest of 1,000 computations", found.tail),
    ):
        share = one.usd_per_year.typical / found.usd_per_year.typical
        table.add(words, *_usd(one.usd_per_year), f"{share:.3%}")
    table.add("the cluster", *_usd(found.usd_per_year), "")
    return table


def _nines(found: WorthReport) -> Table:
    heads = ("all servers up", "spares", "few to many failures", "reached", "USD a year", "for this nine", "it gives")
    table = Table(heads, range(1, len(heads)))
    for one in found.nines:
        few, usual, many = ("more than half" if number is None else str(number) for number in one.spares)
        if one.usd_per_year is None or one.step_usd_per_year is None or one.worth_usd_per_year is None:
            table.add(f"{one.wanted:.6%}".rstrip("0%").rstrip(".") + " %", usual, f"{few} to {many}", "", "", "", "")
            continue
        table.add(
            f"{100 * one.wanted:g} %",
            usual,
            f"{few} to {many}",
            f"{100 * (one.reached or 0.0):.4g} %",
            signed(one.usd_per_year.typical),
            signed(one.step_usd_per_year),
            signed(one.worth_usd_per_year),
        )
    return table


def _network(found: WorthReport) -> Table:
    table = Table(("the network is", "typical", "low", "high"), (1, 2, 3))
    one = found.network
    for words, band in (
        ("of what is bought", one.capex),
        ("of the dollars of an hour", one.usd),
        ("of the joules", one.joules),
    ):
        table.add(words, *(numbers.percent(value) for value in (band.typical, band.low, band.high)))
    table.add("dollars a year", signed(one.usd_per_year), "", "")
    return table


def _carbon(found: WorthReport) -> Table:
    table = Table(("grid", "g/kWh", "of", "t CO2e a year", "low", "high", "g per million tokens"), range(1, 7))
    for one in found.carbon:
        band = one.tonnes_per_year
        table.add(
            one.grid.name,
            f"{one.grid.g_per_kwh:g}",
            str(one.grid.year),
            *(f"{value:,.0f}" for value in (band.typical, band.low, band.high)),
            numbers.short(one.grams_per_million.typical),
        )
    return table


_SHOWN = 8
_OPTIONS = 14


def show_serving(planned: PlannedDeployments, write: Path | None, *, quiet: bool) -> None:
    """Prints the cheapest deployment, why the others lose, and what the network between pools does.

    Raises:
        InputError: Nothing is in time.
    """
    if planned.found.best is None:
        late = max((one.trial.attainment for one in planned.found.missed), default=0.0)
        raise InputError(
            f"nothing that the plan allows is in time; the nearest has {late:.0%} of the requests in time",
            key="plan",
            hint="more replicas (`most`), other servers, or a looser objective",
        )
    _ranking(planned)
    emit("")
    _full(planned)
    emit("")
    _options(planned)
    if planned.rates:
        emit("")
        _rates(planned)
    if not quiet:
        emit(f"\n{_closing(planned, write)}")


def _ranking(planned: PlannedDeployments) -> None:
    stages = list(planned.stages)
    table = Table(("rank", "$/M tokens", "$/h", "in time", "TTFT p90", "TPOT p90", *stages), range(1, 6), turn=True)
    for number, one in enumerate(planned.found.plans[:_SHOWN], 1):
        trial = one.trial
        table.add(
            str(number),
            numbers.short(trial.score),
            numbers.short(trial.usd_per_h),
            numbers.percent(trial.attainment),
            numbers.seconds(trial.ttft_s["p90"]),
            numbers.seconds(trial.tpot_s["p90"]),
            *(_cell(one, stage) for stage in stages),
        )
    table.print()


def _cell(one: TriedDeployment, stage: str) -> str:
    option, counts = next((option, counts) for option, counts in one.choice if option.stage == stage)
    return f"{' + '.join(map(str, counts))} x {option.words}" if counts else option.words


def _full(planned: PlannedDeployments) -> None:
    """The best plans on all requests, with bands."""
    heads = ("rank", "requests", "in time", "TTFT p50 / p99", "TPOT p50 / p99", "$/M tokens", "$/M input", "$/M output")
    table = Table(heads, range(1, len(heads)), turn=True)
    for number, variant in enumerate(planned.full, 1):
        found, cost = variant.serving, variant.serving.cpmt
        table.add(
            str(number),
            str(found.requests.count),
            numbers.percent(found.slo.attainment),
            f"{numbers.seconds(found.ttft_s.p50)} / {numbers.seconds(found.ttft_s.p99)}",
            f"{numbers.seconds(found.tpot_s.p50)} / {numbers.seconds(found.tpot_s.p99)}",
            numbers.band(None if cost is None else cost.total),
            numbers.band(None if cost is None else cost.split_input),
            numbers.band(None if cost is None else cost.split_output),
        )
    table.print()


def _options(planned: PlannedDeployments) -> None:
    table = Table(("stage", "option", "$/M tokens", "verdict"), (2,))
    for stage in planned.stages:
        rows = sorted(why(planned, stage), key=_place)
        for row in rows[:_OPTIONS]:
            price, bound = row.usd_per_million, row.bound
            text = numbers.short(price) if price is not None else (f"> {numbers.short(bound)}" if bound else "")
            table.add(stage, row.option, text, row.verdict)
        if len(rows) > _OPTIONS:
            table.add(stage, f"{len(rows) - _OPTIONS} more", "", "dearer, late or impossible: `--json` has all")
    table.print()


def _place(row: OptionRow) -> tuple[float, float]:
    """Chosen and tried options first, by price; then by the least that they could cost; impossible ones last."""
    price, least = row.usd_per_million, row.bound
    return (math.inf if price is None else price, math.inf if least is None else least)


def _rates(planned: PlannedDeployments) -> None:
    heads = ("network between pools", "disaggregated, $/M tokens", "colocated, $/M tokens", "disaggregation saves")
    table = Table(heads, (0, 1, 2, 3))
    for row in planned.rates:
        saved = gain(row)
        table.add(
            f"{row.rate_bps / 1e9:g} Gb/s",
            "late" if row.split is None else numbers.short(row.split.trial.score),
            "late" if row.joint is None else numbers.short(row.joint.trial.score),
            numbers.NOT_APPLICABLE if saved is None else f"{saved:.1%}",
        )
    table.print()


def _closing(planned: PlannedDeployments, write: Path | None) -> str:
    found = planned.found
    sure = "nothing that the plan allows is cheaper" if found.proven else "the search ended before all was looked at"
    kept = "" if write is None else f"\nwritten: {write}, to be run with `railyard run {write}`"
    return f"{found.simulations} trials; {sure}.{kept}"
