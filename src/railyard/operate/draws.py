"""The same run with other draws of its failures: what of a figure hangs on when things fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.operate.accounts import columns, had_us, shares
from railyard.operate.money import usd_per_h
from railyard.operate.rules import HOUR
from railyard.result.operate import DrawBand, DrawFigures, DrawRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.operate.loop import Operation
    from railyard.operate.prepare import Prepared


def draw_row(prepared: Prepared, run: Operation, draw: int) -> DrawRow:
    """The figures of one draw, from a run that has ended."""
    jobs = columns(run)
    work, had, time = int(jobs["work_accelerator_us"].sum()), int(had_us(jobs).sum()), shares(run, jobs)
    price = usd_per_h(prepared.cluster, prepared.variant.draft.scenario, time)[0].typical
    return DrawRow(
        seed=prepared.variant.draft.scenario.seed + draw,
        goodput=time["work"],
        ettr=work / max(had, 1),
        useful_accelerator_hours=work / HOUR,
        usd_per_useful_accelerator_hour=price * run.ledger.time_us / work if work else None,
    )


def draw_figures(rows: Sequence[DrawRow]) -> DrawFigures | None:
    """All draws together; None where there is one."""
    if len(rows) < 2:
        return None
    return DrawFigures(
        goodput=_band([row.goodput for row in rows]),
        ettr=_band([row.ettr for row in rows]),
        usd_per_useful_accelerator_hour=_usd(rows),
        by_draw=tuple(rows),
    )


def _usd(rows: Sequence[DrawRow]) -> DrawBand | None:
    """Dollars of a useful hour: of each draw, and of all of them as one time."""
    known = [
        (row.usd_per_useful_accelerator_hour, row.useful_accelerator_hours)
        for row in rows
        if row.usd_per_useful_accelerator_hour is not None
    ]
    if len(known) < len(rows):
        return None
    mean = sum(usd * hours for usd, hours in known) / sum(hours for _, hours in known)
    return DrawBand(low=min(known)[0], mean=mean, high=max(known)[0])


def _band(values: Sequence[float]) -> DrawBand:
    return DrawBand(low=min(values), mean=sum(values) / len(values), high=max(values))
