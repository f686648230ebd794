"""`railyard plan serving`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from railyard.ask.plan.serving.planning import plan
from railyard.ask.plan.serving.summary import gain, to_json, why
from railyard.face.api import numbers
from railyard.face.cli import messages
from railyard.face.cli.progress import Progress
from railyard.face.cli.tables import Table, emit
from railyard.kit.errors import InputError
from railyard.kit.files import keep_existing, write_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.plan.serving.planning import Planned
    from railyard.ask.plan.serving.search import Plan
    from railyard.ask.plan.serving.summary import OptionRow

_SHOWN = 8
_OPTIONS = 14


def serving(scenario: Path, *, sets: Sequence[str], write: Path | None, as_json: bool, quiet: bool) -> None:
    """Finds the cheapest deployment and prints it, why the others lose, and what the network between pools does.

    Raises:
        InputError: The scenario is wrong, or nothing is in time.
    """
    keep_existing(write, force=True)
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        planned = plan(messages.scenario(scenario, sets), progress)
    if write is not None and planned.best_yaml:
        write_text(write, planned.best_yaml)
    if as_json:
        emit(json.dumps(to_json(planned), ensure_ascii=False, allow_nan=False))
        return
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


def _ranking(planned: Planned) -> None:
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


def _cell(one: Plan, stage: str) -> str:
    option, counts = next((option, counts) for option, counts in one.choice if option.stage == stage)
    return f"{' + '.join(map(str, counts))} x {option.words}" if counts else option.words


def _full(planned: Planned) -> None:
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


def _options(planned: Planned) -> None:
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


def _rates(planned: Planned) -> None:
    heads = ("network between pools", "apart, $/M tokens", "together, $/M tokens", "apart saves")
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


def _closing(planned: Planned, write: Path | None) -> str:
    found = planned.found
    sure = "nothing that the plan allows is cheaper" if found.proven else "the search ended before all was looked at"
    kept = "" if write is None else f"\nwritten: {write}, to be run with `railyard run {write}`"
    return f"{found.simulations} trials; {sure}.{kept}"
