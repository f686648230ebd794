"""`railyard bring-up`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from railyard.ask.bring_up.study import study
from railyard.face.api import numbers
from railyard.face.cli import messages
from railyard.face.cli.messages import say
from railyard.face.cli.progress import Progress
from railyard.face.cli.tables import Table, emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.bring_up.study import Outcome, PartWait, Spread


def bring_up(scenario: Path, *, sets: Sequence[str], as_json: bool, quiet: bool) -> None:
    """Prints what orders of racks and measures against faults cost while a cluster is built.

    Raises:
        InputError: The scenario is wrong.
    """
    with Progress(wanted=not quiet) as progress:
        progress("reading the scenario", 0.0)
        found = study(messages.scenario(scenario, sets), progress)
    if as_json:
        emit(json.dumps(asdict(found), ensure_ascii=False, allow_nan=False))
        return
    emit(
        f"{found.racks:,} racks, {found.cables:,} cables, {numbers.dollars(found.capital_usd_per_d)} of capital a day;"
        f" the first job takes {found.first_job:,} accelerators"
    )
    _table("order of racks", [(one.order, one) for one in found.orders])
    best = found.orders[0]
    _table(f"{best.order}, but with", [("nothing changed", best), *((one.change, one) for one in found.measures)])
    if found.parts:
        _parts(found.parts)
    if not quiet:
        say("10th to 90th percentile of the draws in brackets; assumptions are those of `bring_up`")


def _table(head: str, rows: Sequence[tuple[str, Outcome]]) -> None:
    heads = (head, "first job", "half earn", "all earn", "idle capital", "crews", "wrong cables", "servers replaced")
    table = Table(heads, range(1, len(heads)))
    for name, one in rows:
        days = (_days(spread) for spread in (one.first_job_d, one.half_d, one.all_d))
        money = (_dollars(spread) for spread in (one.idle_usd, one.crew_usd))
        table.add(name, *days, *money, _count(one.wrong), _count(one.replaced))
    emit("")
    table.print()


def _parts(waits: Sequence[PartWait]) -> None:
    heads = (
        "what waits for",
        "arrives",
        "delays the first job most",
        "first job later by",
        "all later by",
        "idle for it",
    )
    table = Table(heads, range(1, len(heads)))
    for one in waits:
        money = _dollars(one.idle_usd)
        days = (_days(one.first_job_d), _days(one.all_d))
        table.add(one.part, _days(one.arrives_d), numbers.percent(one.critical), *days, money)
    emit("")
    table.print()


def _days(spread: Spread) -> str:
    return f"{spread.typical:.1f} d ({spread.low:.1f} to {spread.high:.1f})"


def _dollars(spread: Spread) -> str:
    typical, low, high = (_signed(value) for value in (spread.typical, spread.low, spread.high))
    return f"{typical} ({low} to {high})"


def _signed(value: float) -> str:
    return f"-{numbers.dollars(-value)}" if value < 0 else numbers.dollars(value)


def _count(spread: Spread) -> str:
    return f"{spread.typical:,.0f}"
