"""The page of collectives: errors with the operator left out of every fit, then by operator and constant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.calibrate.nccl.rows import MIB
from railyard_validation import page as validation
from railyard_validation.collectives import left_out as left
from railyard_validation.collectives.compare import CollectivesReport, spread, validate_collectives

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from railyard.ask.calibrate.nccl.rows import CollectiveResult
    from railyard.catalog import Catalog

CLASSES = {"time": ("below 1 MiB", "12 %"), "busbw": ("from 1 MiB", "8 %")}
LEAD = """**With the whole operator (all logs of its systems) left out of every fit, half of the rows are within
{time} below 1 MiB and {busbw} from 1 MiB** (nine of ten within {time_p90} and {busbw_p90}; goals 12 % and 8 %). The
figures, the table and the worst rows below are of these predictions. {constants} constants are read off logs; with
each operator in its fit the same rows are within {time_with} and {busbw_with}. Relatives of an operator's systems stay
in its fit: [what came later](#what-came-later) is further off, and bands rest on that.

Written by `validation/tools/validation_page.py` from the logs of `validation/data/nccl` and the constants that
`validation/tools/collectives_left_out.py` fits; kept fresh by continuous integration. Each row is one size of one log;
what was assumed is in [collectives](../explanation/collectives.md). Constants and laws were chosen with these logs
in view: expect more on systems that nobody has seen."""
NOT_MET = """
## What these laws do not meet

- **Reduction trees over racks at large sizes**: 128 GB200 at 1 GiB take twice the time predicted, a run of
  1,440 that is not in the data did too; which part of the tree is short is not known.
- **128 GB300 over two racks**: floors of 0.5 ms for an all-reduce where 128 GB200 take 0.2, and an all-to-all at a
  quarter of the NICs' rate (set aside by the README next to the logs). Nothing in the laws distinguishes the two
  systems.
- **Google's A3 Ultra** (RoCE with its own tuner, whose content is not published): 55 us where 32 are predicted. Times
  would fit if the tuner never took LL; that is not sourced, so it is not assumed.
- **GPUDirect-TCPX** sleeps for about a millisecond; no source says why, and without Google's logs nobody could know.
- **Four P6-B200 over EFA** below 1 MiB: 360 to 560 us through PyTorch where a third is predicted.
"""


def write(folder: Path, page: Path, catalog: Catalog) -> list[tuple[str, ...]]:
    """Writes the page, and returns the lines of the table of goals.

    Args:
        folder: Logs, and `left_out.csv` with the constants fitted without each operator.
        page: Where it is written.
        catalog: Where devices and servers are looked up.
    """
    fits = left.read(folder / "left_out.csv")
    known = left.Logs(folder, catalog)
    judged = [left.judge(known, fit) for fit in fits if fit.without in known.operators]
    stands = validate_collectives(folder, catalog)
    rows = [row for one in judged for row in one.rows]
    others = [row for row in stands.rows if row.error is None or row.odd]
    report = CollectivesReport((*rows, *others), stands.logs)
    shown = replace(
        validation.of_collectives(report),
        title="Collectives against published logs, each without its operator",
        lead=_lead(rows, stands),
        columns={"median with it": _by_group(stands)},
        sections=_later(known, fits) + _operators(known, judged) + _constants(known, fits) + NOT_MET,
    )
    validation.write(shown, page)
    return [_goal(rows, stands, what) for what in CLASSES]


def _size(rows: Iterable[CollectiveResult], what: str, quantile: float = 0.5) -> str:
    """A quantile of the errors of a class of sizes."""
    sizes = [abs(row.error) for row in rows if row.error is not None and row.error_of == what and not row.odd]
    return f"{100 * float(np.quantile(sizes, quantile)):.1f} %" if sizes else "-"


def _lead(rows: Sequence[CollectiveResult], stands: CollectivesReport) -> str:
    figures = {what: _size(rows, what) for what in CLASSES}
    figures |= {f"{what}_p90": _size(rows, what, 0.9) for what in CLASSES}
    figures |= {f"{what}_with": _size(stands.rows, what) for what in CLASSES}
    return LEAD.format(constants=len(left.FITTED), **figures)


def _by_group(report: CollectivesReport) -> dict[str, str]:
    """Median error of each group of the page's table with every operator in its fit."""
    found: dict[str, list[float]] = {}
    for row in report.rows:
        if row.error is not None and not row.odd:
            size = "from 1 MiB" if row.bytes >= MIB else "below 1 MiB"
            for name in (f"{row.collective}, {size}", "all"):
                found.setdefault(name, []).append(row.error)
    return {name: f"{100 * (spread(errors).median_abs_error or 0):.1f} %" for name, errors in found.items()}


def _later(known: left.Logs, fits: Sequence[left.FittedWithout]) -> str:
    """Half years forecast from what was published before, by time, generation and release."""
    judged = [left.judge(known, fit) for fit in fits if fit.without in known.cuts]
    bands = {one.part: one for one in left.later(judged)}
    lines = [
        "\n## What came later\n",
        "Constants are fitted to the logs published before a month, and the half year behind it is forecast; bands are",
        "those that a prediction would have had then. *Interval score*: [How far to believe it](believe.md).\n",
        "| known until | rows | below 1 MiB | from 1 MiB | inside the band | width of the band | interval score |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in judged:
        band = bands.get(one.without)
        shares = [band.inside, band.width, band.score] if band else []
        cells = [f"{100 * share:.0f} %" for share in shares] or ["-"] * 3
        sizes = [_pair(one.rows, what) for what in CLASSES]
        lines.append(f"| {one.without} | {len(one.rows)} | {' | '.join((*sizes, *cells))} |")
    rows = [row for one in judged for row in one.rows]
    lines += ["", "The same rows by generation, and by release of the library where a log says it:\n"]
    lines += ["| | rows | below 1 MiB | from 1 MiB |", "|---|---|---|---|"]
    for part in ("architecture", "version"):
        for name in sorted({getattr(row, part) for row in rows} - {""}):
            some = [row for row in rows if getattr(row, part) == name]
            lines.append(f"| {name} | {len(some)} | {' | '.join(_pair(some, what) for what in CLASSES)} |")
    return "\n".join([*lines, ""])


def _operators(known: left.Logs, judged: Sequence[left.LeftOut]) -> str:
    lines = [
        "\n## By operator\n",
        "| operator | logs | rows | below 1 MiB | with it | from 1 MiB | with it | kept its prior |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in judged:
        sizes = [_pair(rows, what) for what in CLASSES for rows in (one.rows, one.before)]
        kept = ", ".join(f"`{name}`" for name in left.kept(known, one.without))
        lines.append(f"| {one.without} | {one.logs} | {len(one.rows)} | {' | '.join(sizes)} | {kept} |")
    return "\n".join(
        [*lines, "", "Median (90th percentile). A constant that no other operator's logs feel keeps its prior.\n"]
    )


def _pair(rows: Sequence[CollectiveResult], what: str) -> str:
    median = _size(rows, what)
    return median if median == "-" else f"{median} ({_size(rows, what, 0.9)})"


def _constants(known: left.Logs, fits: Sequence[left.FittedWithout]) -> str:
    lines = [
        f"\n## The {len(left.FITTED)} constants\n",
        "Version 0.2.0 had 18.\n",
        "| constant | value | range over the fits without one operator | prior | where the prior comes from |",
        "|---|---|---|---|---|",
    ]
    values = np.exp([fit.x for fit in fits if fit.without in known.operators])
    for index, constant in enumerate(left.FITTED):
        column = values[:, index]
        stands = constant.get(left.MEASURED)
        lines.append(
            f"| `{constant.name}` | {stands:.4g} | {column.min():.4g} to {column.max():.4g} "
            f"| {constant.prior:.4g} | {constant.source} |"
        )
    return "\n".join([*lines, ""])


def _goal(rows: Sequence[CollectiveResult], stands: CollectivesReport, what: str) -> tuple[str, ...]:
    name, goal = CLASSES[what]
    count = str(sum(row.error_of == what for row in rows))
    text = f"collectives {name}, operator left out: median (90th percentile)"
    return (text, count, goal, _pair(rows, what), f"with it {_pair(stands.rows, what)}")
