"""The same run with other draws of its failures: what of a figure hangs on when things fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.measure.result.operate import DrawBand, DrawFigures, DrawRow
from railyard.work.operate.rules import HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.operate.steady import Period


def draw_row(window: Period, usd_per_h: float, seed: int) -> DrawRow:
    """The figures of one draw.

    Args:
        window: The steady window of its run.
        usd_per_h: What an hour of the cluster costs at the use that was made of it.
        seed: Of the draw.
    """
    work_h = window.work / HOUR
    return DrawRow(
        seed=seed,
        goodput=window.work / window.capacity,
        ettr=window.work / max(int(window.had.sum()), 1),
        useful_accelerator_hours=work_h,
        usd_per_useful_accelerator_hour=usd_per_h * window.hours / work_h if work_h else None,
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
