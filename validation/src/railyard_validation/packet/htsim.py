"""Railyard's packets against recorded answers of htsim and of ns-3: the same traffic and settings, figure by figure."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.scenario.packet import assign, fabric, names
from railyard.work.traffic.simulate import TrafficRun, run
from railyard_validation.packet.htsim_flags import Command, command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from railyard.work.traffic.played import PacketReport

MEAN, TAIL, SLOWED, HASHED = 0.02, 0.05, 0.08, 0.10
"""Tolerances: mean completion; tails and single completions; runs with slowed links; means over seeds of the hash."""

MORE = 10
"""Seeds of ours, where a figure is off and what htsim gives under several seeds is known."""

APART = 0.01
"""Means that htsim sets closer together than this are not ordered."""

_ORDERED = {
    "load balancers": re.compile(r"uec400_nscc_(?:ar_|bitmap_|oblivious_|path1_|reps_|)(perm\d+_\w+)"),
    "rate controls of ns-3": re.compile(r"ns3_(?:dcqcn|hpcc)_(perm\d+_\w+)"),
}
_RECORDED = {
    "fct_mean": ("mean FCT", MEAN),
    "fct_p99": ("p99 FCT", TAIL),
    "fct_max": ("max FCT", TAIL),
    "last_finish_us": ("last finish", TAIL),
}
_VALIDATED = {"tail_fct_us": ("last finish", TAIL), "first_fct_us": ("first finish", TAIL)}
_NS3 = Path(__file__).parents[1] / "data" / "ns3.csv"
_SEEDS = Path(__file__).parents[1] / "data" / "htsim_seeds.csv"
"""What htsim itself answers to some recorded commands under other seeds than the recorded one."""
_BOTTLENECK = ("incast",)
"""Scenarios in which one link rules: there the last finish must agree as well as the mean."""


@dataclass(frozen=True)
class Row:
    """One figure of one recorded run.

    Attributes:
        table: `recorded`, `uec_validate` or `ns3`.
        name: Of the run.
        figure: What is compared: `mean FCT`, `p99 FCT`, `max FCT`, `last finish`, `first finish`, `finished`.
        expected: The other's, microseconds (or flows).
        found: Ours; over several seeds their mean.
        low: Least over the seeds.
        high: Greatest over the seeds.
        error: (found - expected) / expected.
        tolerance: How much of it is accepted; None where only the range counts.
        seeds: How many seeds were run.
        status: `ok`, `off` or `skipped`.
        reason: Why it was skipped, or refused; or what stands beside a figure that is off.
    """

    table: str
    name: str
    figure: str = ""
    expected: float | None = None
    found: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    tolerance: float | None = None
    seeds: int = 0
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True)
class HtsimReport:
    """All rows.

    Attributes:
        rows: In the order of the tables.
    """

    rows: tuple[Row, ...]

    def counts(self) -> dict[str, int]:
        """Rows by status."""
        return {status: sum(row.status == status for row in self.rows) for status in ("ok", "off", "skipped")}

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"counts": self.counts(), "rows": [asdict(row) for row in self.rows]}


@dataclass(frozen=True)
class _Case:
    table: str
    name: str
    text: str
    line: dict[str, str]


def validate_htsim(
    folder: Path,
    *,
    only: str = "",
    seeds: int = 20,
    others: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> HtsimReport:
    """Runs the recorded commands and compares.

    Args:
        folder: Holds `recorded.csv`, `uec_validate.csv` or both, `matrices/` and `topologies/`.
        only: Runs whose name holds this text.
        seeds: Seeds of the runs whose flows take one path each.
        others: Seeds of all others.
        progress: Called with the name of a run and the share of runs done.

    Raises:
        InputError: The folder or a table cannot be read.
    """
    cases = [case for case in _cases(folder) if only.lower() in case.name.lower()]
    if not cases:
        raise InputError("no recorded run is called so", key="--only", found=only)
    rows: list[Row] = []
    for number, case in enumerate(cases):
        if progress is not None:
            progress(case.name, number / len(cases))
        rows += _compare(case, folder, seeds, others)
    return HtsimReport((*rows, *_orders(rows)))


def _cases(folder: Path) -> Iterator[_Case]:
    tables = {"recorded": "name", "uec_validate": "experiment"}
    if not any((folder / f"{table}.csv").is_file() for table in tables):
        raise InputError(
            "the folder holds no recorded answers", file=folder, allowed=[f"{table}.csv" for table in tables]
        )
    for table, key in tables.items():
        file = folder / f"{table}.csv"
        if file.is_file():
            yield from _table(file, table, key)
    yield from _table(_NS3, "ns3", "name")


def _table(file: Path, table: str, key: str) -> Iterator[_Case]:
    with file.open(encoding="utf-8", newline="") as handle:
        for line in csv.DictReader(handle):
            if key not in line or "cmd" not in line:
                raise InputError("the table has no such columns", file=file, allowed=(key, "cmd"))
            suite = f"{line['suite'].removeprefix('validate_').removesuffix('.out')}: " if "suite" in line else ""
            yield _Case(table, suite + line[key], line["cmd"] or "", line)


def _compare(case: _Case, folder: Path, seeds: int, others: int) -> list[Row]:
    asked = command(case.text)
    reason = asked.not_built or _missing(asked, folder) or _unusable(case)
    if reason:
        return [Row(case.table, case.name, status="skipped", reason=reason)]
    try:
        reports = [_run(asked, folder, seed) for seed in range(seeds if asked.hashed else others)]
    except InputError as error:
        return [Row(case.table, case.name, "runs", status="off", reason=error.problems[0].headline())]
    figures = _VALIDATED if case.table == "uec_validate" else _RECORDED
    rows = [_finished(case, reports)]
    for key, (figure, tolerance) in figures.items():
        expected = _number(case.line.get(key))
        if expected is not None:
            limit = _limit(case, asked, figure, tolerance)
            row = _row(case, figure, expected, [_figure(report, figure) for report in reports], limit=limit)
            if row.status == "off" and (row.table, row.name, row.figure) in _ranges():
                reports += [_run(asked, folder, seed) for seed in range(len(reports), MORE)]
                values = [_figure(report, figure) for report in reports]
                row = _beside_seeds(_row(case, figure, expected, values, limit=limit))
            rows.append(row)
    return rows


@cache
def _ranges() -> dict[tuple[str, str, str], tuple[int, float, float]]:
    """Seeds, least and greatest of figures of htsim's, by table, run and figure."""
    with _SEEDS.open(encoding="utf-8", newline="") as handle:
        return {
            (line["table"], line["name"], line["figure"]): (
                int(line["seeds"]),
                float(line["low_us"]),
                float(line["high_us"]),
            )
            for line in csv.DictReader(handle)
        }


def _beside_seeds(row: Row) -> Row:
    """A figure that is off is good if htsim, too, gives it under another seed: the recorded one is of a single seed."""
    known = _ranges().get((row.table, row.name, row.figure))
    if row.status != "off" or known is None or row.low is None or row.high is None:
        return row
    seeds, low, high = known
    meets = row.low <= high and low <= row.high
    reason = f"htsim's {seeds} seeds: {low:.2f} to {high:.2f}"
    return replace(row, status="ok" if meets else "off", reason=reason)


def _orders(rows: list[Row]) -> list[Row]:
    """For every traffic that was run with several load balancers or controls: how many pairs of means keep their order.

    Pairs that stand less than `APART` apart in the other program say nothing.
    """
    means: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for row, (what, pattern) in product(rows, _ORDERED.items()):
        match = pattern.fullmatch(row.name)
        if match and row.figure == "mean FCT" and row.expected is not None and row.found is not None:
            means.setdefault((row.table, what, match[1]), []).append((row.expected, row.found))
    found = []
    for (table, what, name), group in means.items():
        apart = [pair for pair in combinations(group, 2) if abs(pair[0][0] / pair[1][0] - 1) > APART]
        agree = sum((one[0] < other[0]) == (one[1] < other[1]) for one, other in apart)
        if apart:
            row = Row(table, f"{what} on {name}", "pairs in order", expected=len(apart), found=agree)
            good = agree == len(apart)
            found.append(replace(row, error=agree / len(apart) - 1, tolerance=0.0, status="ok" if good else "off"))
    return found


def _missing(asked: Command, folder: Path) -> str:
    if asked.preset not in names():
        return f"not built: fabric {asked.preset}"
    for kind, name in (("matrices", asked.matrix), ("topologies", asked.topology)):
        if name and not (folder / kind / name).is_file():
            return f"{kind}/{name} is not in the folder"
    return ""


def _unusable(case: _Case) -> str:
    """Why a recorded row says nothing."""
    if case.line.get("rc", "0") != "0":
        return "htsim itself failed"
    return ""


def _run(asked: Command, folder: Path, seed: int) -> PacketReport:
    preset = fabric(asked.preset)
    topology = folder / "topologies" / asked.topology if asked.topology else None
    settings = assign(preset.settings, asked.sets)
    return run(TrafficRun(folder / "matrices" / asked.matrix, topology, preset, settings, seed=seed))


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _figure(report: PacketReport, figure: str) -> float:
    if not report.ended.any():
        return math.nan
    if figure == "last finish":
        return report.last_finish_us or math.nan
    if figure == "first finish":
        return report.first_finish_us or math.nan
    return report.fct_us()[figure.removesuffix(" FCT")] or math.nan


def _finished(case: _Case, reports: list[PacketReport]) -> Row:
    """Whether as many flows finish as in htsim; connections that carry several messages count once."""
    expected = _number(case.line.get("flows_done") or case.line.get("connections")) or 0.0
    values = [float(report.ended.sum()) for report in reports]
    joined = any("messages are sent as one flow" in text for report in reports for text in report.left_out)
    good = all(value == expected for value in values) or joined
    found = float(np.mean(values))
    return Row(
        case.table, case.name, "finished", expected, found, min(values), max(values),
        found / expected - 1 if expected else None, 0.0, len(reports), "ok" if good else "off",
    )  # fmt: skip


def _limit(case: _Case, asked: Command, figure: str, tolerance: float) -> float | None:
    """The tolerance of a figure; None where the other's value need only lie within our range over the seeds."""
    if case.table == "ns3" and "perm" in case.name:
        return None
    if asked.hashed:
        return HASHED if figure == "mean FCT" else None
    if asked.slowed:
        return SLOWED
    narrow = figure == "last finish" and any(word in case.name.lower() for word in _BOTTLENECK)
    return MEAN if narrow else tolerance


def _row(case: _Case, figure: str, expected: float, values: list[float], *, limit: float | None) -> Row:
    found, low, high = float(np.mean(values)), min(values), max(values)
    error = found / expected - 1
    # What seeds do not move at all need not lie between two equal numbers.
    good = low <= expected <= high or abs(error) <= MEAN if limit is None else abs(error) <= limit
    return Row(
        case.table, case.name, figure, expected, found, low, high, error, limit, len(values), "ok" if good else "off"
    )  # fmt: skip
