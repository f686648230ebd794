"""Answers of `railyard plan growth`, `worth`, `query` and `serving`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.ask.plan import growth as paths
from railyard.ask.plan.deployments import CHOSEN, gain, why
from railyard.ask.plan.growth_change import provisions
from railyard.catalog.grids import SOURCE
from railyard.face.terminal import Table, emit, wrapped
from railyard.kit.errors import InputError
from railyard.measure import numbers
from railyard.measure.cost.assumptions import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

    from railyard.ask.plan.deployments import OptionRow, PlannedDeployments, TriedDeployment
    from railyard.ask.plan.growth import Growth
    from railyard.ask.plan.worth import WorthReport
    from railyard.catalog.types import Range


def rows_sentence(found: pl.DataFrame) -> str:
    """How many points were found."""
    return f"{numbers.counted(found.height, 'point')} found, with {found.width} columns."


def show_rows(found: pl.DataFrame, *, whole: bool) -> None:
    """Prints the answer to a question as a table: the `whole`, or eight columns whose values differ."""
    differ = [name for name in found.columns if found.height < 2 or found[name].n_unique() > 1]
    shown = found if whole or found.width <= _COLUMNS else found.select(differ[:_COLUMNS])
    right = [at for at, kind in enumerate(shown.dtypes) if kind.is_numeric()]
    table = Table(shown.columns, right)
    for row in shown.iter_rows():
        table.add(*(_plan_query_cell(value) for value in row))
    table.print()
    if shown.width < found.width:
        hidden = [name for name in found.columns if name not in shown.columns]
        emit("\n" + wrapped(f"More columns with `--details` or `--columns A,B`: {', '.join(hidden)}."))


_COLUMNS = 8


def _plan_query_cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def growth_sentence(found: Growth) -> str:
    """The path with the least regret, and how much more the next one costs."""
    ranked = sorted(found.paths, key=lambda path: max(path.regret))
    first, last = ranked[0], found.stages[-1].name
    price = f"${numbers.short(first.futures[-1])} per million tokens after stage {last}"
    if len(ranked) == 1:
        return f"The only path is {first.name}: {price}."
    nearest = " to ".join(f"{share:.1%}" for share in _ends(ranked[1].regret))
    return (
        f"Path {first.name} has the least regret: {price}; the next, {ranked[1].name}, costs {nearest} above the best."
    )


def _ends(values: Sequence[float]) -> list[float]:
    return sorted({min(values), max(values)})


def show_growth(found: Growth, *, details: bool) -> None:
    """Prints the regret of each path where growth ends early; with details what it buys, and what to provision."""
    _futures(found)
    if any(path.name == paths.BESIDE for path in found.paths):
        emit("\nPath `beside` runs a job in each cluster, with a part of the batch: no job uses all accelerators.")
    if details:
        emit("")
        _steps(found)
        emit("")
        _provisions(found)
    for name, reason in found.left_out:
        emit(f"Path {name} is impossible: {reason}")


def _steps(found: Growth) -> None:
    heads = (
        "path",
        "stage",
        "capital",
        "new network",
        "stranded",
        "written off",
        "cables kept/moved/new",
        "stop",
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
    heads = ("bought at once, $/year if needed", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for one in provisions(found.stages):
        costs = [
            f"{numbers.dollars(usd)} (+{numbers.dollars(late)})"
            for usd, late in zip(one.usd_per_year, one.regret_usd, strict=True)
        ]
        table.add(one.built, *costs, numbers.dollars(one.bound_usd))
    table.print()


def _futures(found: Growth) -> None:
    heads = ("$/Mtoken if growth ends after", *(stage.name for stage in found.stages), "largest regret")
    table = Table(heads, range(1, len(heads)), turn=True)
    for path in found.paths:
        costs = [f"{numbers.short(usd)} ({late:+.1%})" for usd, late in zip(path.futures, path.regret, strict=True)]
        table.add(path.name, *costs, f"{max(path.regret):.1%}")
    table.print()


def worth_sentence(found: WorthReport) -> str:
    """What a microsecond is worth, and what the network costs."""
    usual, low, high = _usd(found.hop.usd_per_year)
    network, cluster = map(numbers.signed_dollars, (found.network.usd_per_year, found.usd_per_year.typical))
    return (
        f"One more microsecond in every switch costs {usual} a year ({low} to {high}); the network costs"
        f" {network} of the cluster's {cluster} a year."
    )


def show_worth(found: WorthReport, *, details: bool) -> None:
    """Prints what a microsecond and a tail are worth; with details nines, the network, and carbon by grid."""
    _moved(found).print()
    if not details:
        return
    for table in (_nines(found), _network(found), _carbon(found)):
        emit("")
        table.print()
    emit(f"\ngrids: {SOURCE}; not included: {ABSENT}")


def _usd(band: Range) -> tuple[str, str, str]:
    low, typical, high = (numbers.signed_dollars(value) for value in (band.low, band.typical, band.high))
    return typical, low, high


def _moved(found: WorthReport) -> Table:
    table = Table(("change", "$/year", "low", "high", "of the cluster"), (1, 2, 3, 4))
    for words, one in (
        ("+1 us in every switch", found.hop),
        ("+0.1 % in the slowest of 1,000 kernels", found.tail),
    ):
        share = one.usd_per_year.typical / found.usd_per_year.typical
        table.add(words, *_usd(one.usd_per_year), f"{share:.3%}")
    table.add("the cluster", *_usd(found.usd_per_year), "")
    return table


def _nines(found: WorthReport) -> Table:
    heads = (
        "all servers up",
        "spares",
        "with few to many failures",
        "reached",
        "$/year",
        "cost of this nine",
        "its worth",
    )
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
            numbers.signed_dollars(one.usd_per_year.typical),
            numbers.signed_dollars(one.step_usd_per_year),
            numbers.signed_dollars(one.worth_usd_per_year),
        )
    return table


def _network(found: WorthReport) -> Table:
    table = Table(("share of the network", "typical", "low", "high"), (1, 2, 3))
    one = found.network
    for words, band in (
        ("capital", one.capex),
        ("cost of an hour", one.usd),
        ("energy", one.joules),
    ):
        table.add(words, *(numbers.percent(value) for value in (band.typical, band.low, band.high)))
    table.add("$/year", numbers.signed_dollars(one.usd_per_year), "", "")
    return table


def _carbon(found: WorthReport) -> Table:
    table = Table(("grid", "g/kWh", "year", "t CO2e/year", "low", "high", "g/Mtoken"), range(1, 7))
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


def serving_sentence(planned: PlannedDeployments) -> str:
    """What to deploy in each stage, its price and its attainment.

    Raises:
        InputError: Nothing meets the objective.
    """
    found = planned.found
    if found.best is None:
        most = max((one.trial.attainment for one in found.missed), default=0.0)
        raise InputError(
            f"no deployment that the plan allows meets the SLO; the nearest attains {most:.0%}",
            key="plan",
            hint="more replicas (`most`), other servers, or a looser objective",
        )
    stages = [f"{_cell(found.plans[0], stage)} for {stage}" for stage in planned.stages]
    what = stages[0] if len(stages) == 1 else f"{len(stages)} stages as below"
    cost = planned.full[0].serving.cpmt if planned.full else None
    price = numbers.short(found.plans[0].trial.score) if cost is None else numbers.with_range(cost.total)
    attained = numbers.percent(found.plans[0].trial.attainment)
    return f"Deploy {what}: ${price} per million tokens at {attained} SLO attainment."


def show_serving(planned: PlannedDeployments, write: Path | None, *, quiet: bool, details: bool) -> None:
    """Prints the choice of each stage and the next best; with details all deployments and options."""
    _stages(planned)
    if details:
        rates = [_rates(planned)] if planned.rates else []
        for table in (_ranking(planned), _full(planned), _options(planned), *rates):
            emit("")
            table.print()
    if not quiet:
        emit("")
        for line in _closing(planned, write):
            emit(wrapped(line))


def _stages(planned: PlannedDeployments) -> None:
    """A row per stage: what is chosen, and by how much the next best option costs more."""
    table = Table(("stage", "deploy", "next best"), prose=True)
    for stage in planned.stages:
        others = [row for row in sorted(why(planned, stage), key=_place) if row.verdict != CHOSEN]
        other = f"{others[0].option}: {others[0].verdict}" if others else ""
        table.add(stage, _cell(planned.found.plans[0], stage), other)
    table.print()


def _ranking(planned: PlannedDeployments) -> Table:
    stages = list(planned.stages)
    table = Table(("rank", "$/Mtoken", "$/h", "SLO", "TTFT p90", "TPOT p90", *stages), range(1, 6), turn=True)
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
    return table


def _cell(one: TriedDeployment, stage: str) -> str:
    option, counts = next((option, counts) for option, counts in one.choice if option.stage == stage)
    return f"{' + '.join(map(str, counts))} x {option.words}" if counts else option.words


def _full(planned: PlannedDeployments) -> Table:
    """The best plans on all requests, with bands."""
    heads = ("rank", "requests", "SLO", "TTFT p50 / p99", "TPOT p50 / p99", "$/Mtoken", "$/M input", "$/M output")
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
    return table


def _options(planned: PlannedDeployments) -> Table:
    table = Table(("stage", "option", "$/Mtoken", "result"), (2,), prose=True)
    for stage in planned.stages:
        rows = sorted(why(planned, stage), key=_place)
        for row in rows[:_OPTIONS]:
            price, bound = row.usd_per_million, row.bound
            text = numbers.short(price) if price is not None else (f"> {numbers.short(bound)}" if bound else "")
            table.add(stage, row.option, text, row.verdict)
        if len(rows) > _OPTIONS:
            table.add(stage, f"{len(rows) - _OPTIONS} more", "", "more expensive, too slow or impossible: see `--json`")
    return table


def _place(row: OptionRow) -> tuple[float, float]:
    """Chosen and tried options first, by price; then by the least that they could cost; impossible ones last."""
    price, least = row.usd_per_million, row.bound
    return (math.inf if price is None else price, math.inf if least is None else least)


def _rates(planned: PlannedDeployments) -> Table:
    heads = ("network between pools", "disaggregated, $/Mtoken", "colocated, $/Mtoken", "disaggregation saves")
    table = Table(heads, (0, 1, 2, 3))
    for row in planned.rates:
        saved = gain(row)
        table.add(
            f"{row.rate_bps / 1e9:g} Gb/s",
            "too slow" if row.split is None else numbers.short(row.split.trial.score),
            "too slow" if row.joint is None else numbers.short(row.joint.trial.score),
            numbers.NOT_APPLICABLE if saved is None else f"{saved:.1%}",
        )
    return table


def _closing(planned: PlannedDeployments, write: Path | None) -> list[str]:
    found = planned.found
    sure = "no cheaper deployment exists" if found.proven else "the search ended before it compared everything"
    lines = [f"After {found.simulations} trials, {sure} within the plan."]
    best = max(planned.rates, key=lambda row: row.rate_bps, default=None)
    saved = None if best is None else gain(best)
    if best is not None and saved is not None:
        lines.append(f"Disaggregation saves {saved:.1%} with {best.rate_bps / 1e9:g} Gb/s between the pools.")
    return [*lines, f"Wrote {write}: `railyard run {write}` simulates it."] if write else lines
