"""Job traces: one row per job, whatever wrote them; `traces.py` has the formats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit import table
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.registry import Registry
from railyard.work.operate.free import ANYWHERE, PlacementAsk
from railyard.work.operate.jobs import JobTable, check_dependencies
from railyard.work.operate.rules import PPM, microseconds
from railyard.work.operate.tree import UNNAMED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from railyard.work.operate.tree import NodeTree

MOST = 2**31 - 1
"""Maximum of accelerators, nodes and priorities: tables store them in 32 bits."""

MOST_S = 1e12
"""Maximum of seconds: tables store microseconds in 64 bits."""

MOST_PROBLEMS = 10
"""Maximum number of problems that an error lists."""

MOST_BYTES = 4 << 30
"""Maximum size of a trace."""


@dataclass
class TraceJob:
    """A job as its trace describes it.

    Attributes:
        limit_s: Time limit that its user gave; None: none.
        nodes: Nodes requested; 0: as many as its accelerators need.
        least: Fewest accelerators that it can run on; 0: all.
        after: Names of the jobs that it waits for.
        work: Its class of work; empty: from the scenario.
        replica: Accelerators of each replica of a serving job; 0: not a serving job.
        load: Load of a serving job, relative to what all its replicas can serve.
    """

    name: str
    submit_s: float
    work_s: float
    accelerators: int
    tenant: str = UNNAMED
    priority: int = 0
    limit_s: float | None = None
    nodes: int = 0
    least: int = 0
    after: tuple[str, ...] = ()
    work: str = ""
    ask: PlacementAsk = ANYWHERE
    replica: int = 0
    load: float = 0.0
    line: int = 0


@dataclass(frozen=True)
class JobTraceFormat:
    """A format of job traces; creating the record registers it.

    Attributes:
        columns: Required columns, by which it is recognized.
        row: Converts a row, given as text by column, to a job; None skips it (never ran, no accelerators).
    """

    name: str
    summary: str
    columns: tuple[str, ...]
    row: Callable[[dict[str, str]], TraceJob | None]
    source: str


trace_formats: Registry[JobTraceFormat] = Registry("format of job traces", package="railyard.work.operate.traces")


@dataclass(frozen=True)
class TraceJobs:
    """The contents of a trace."""

    rows: tuple[TraceJob, ...]
    left_out: int
    format: str
    file: str


def read(path: Path, name: str = "auto") -> TraceJobs:
    """Reads a trace.

    Raises:
        InputError: Names line and column of up to ten problems.
    """
    read = table.read(path, most=MOST_BYTES)
    chosen = _recognised(path, read.columns) if name == "auto" else trace_formats.get(name)
    return _rows(path, chosen, read.require(*chosen.columns))


def _recognised(path: Path, header: Sequence[str]) -> JobTraceFormat:
    fitting = [record for _, record in trace_formats.items() if set(record.columns) <= set(header)]
    if not fitting:
        raise InputError(
            "no known format has such columns",
            file=path,
            line=1,
            found=", ".join(header),
            allowed=trace_formats.names(),
        )
    return max(fitting, key=lambda record: len(record.columns))


def _rows(path: Path, chosen: JobTraceFormat, read: table.Table) -> TraceJobs:
    rows: list[TraceJob] = []
    problems: list[Problem] = []
    left_out = 0
    for line, text in read.rows():
        try:
            found = _checked(chosen, read.row(line, text))
        except InputError as error:
            problems += error.problems
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        if found is None:
            left_out += 1
        else:
            rows.append(found)
    problems += _twice(path, rows)
    if problems:
        raise InputError.many(problems)
    if not rows:
        raise InputError("no job in the trace", file=path)
    return TraceJobs(tuple(rows), left_out, chosen.name, str(path))


def _twice(path: Path, rows: Sequence[TraceJob]) -> list[Problem]:
    """Duplicate job names, which would make dependencies ambiguous."""
    seen: dict[str, int] = {}
    found = []
    for row in rows:
        if row.name in seen:
            hint = f"the first is in line {seen[row.name]}"
            found.append(Problem(f"two jobs are called `{row.name}`", file=str(path), line=row.line, hint=hint))
        seen[row.name] = row.line
    return found[:MOST_PROBLEMS]


def _checked(chosen: JobTraceFormat, text: table.TableRow) -> TraceJob | None:
    try:
        row = _sound(chosen.row(text))
    except InputError as error:
        raise text.located(error) from None
    if row is not None:
        row.line = text.line
        row.name = row.name or f"line-{row.line}"
    return row


def _sound(row: TraceJob | None) -> TraceJob | None:
    if row is None:
        return None
    for key, value in (("submission", row.submit_s), ("duration", row.work_s)):
        if not 0 <= value <= MOST_S:
            raise InputError("a time is a number from 0 on", key=key, found=value, allowed=f"0 to {MOST_S:g} s")
    if row.limit_s is not None and not row.limit_s <= MOST_S:
        raise InputError("a limit is a number of seconds", key="limit", found=row.limit_s, allowed=f"to {MOST_S:g} s")
    if not 0 <= row.load <= 1 or (row.replica > 0) != (row.load > 0):
        raise InputError(
            "a serving job has `replica_accelerators` and a `load`", key="load", found=row.load, allowed="0 to 1"
        )
    if row.replica and (row.replica < 0 or row.accelerators % row.replica):
        raise InputError("a job has whole replicas", key="replica_accelerators", found=row.replica)
    if row.accelerators < 1:
        raise InputError("a job has at least one accelerator", key="accelerators", found=row.accelerators)
    return row


def number(text: dict[str, str], key: str) -> float:
    """A number of a row.

    Raises:
        InputError: The field is empty or not a number.
    """
    value = table.finite(text[key])
    if value is None:
        raise InputError("expected a number", key=key, found=text[key] or "nothing")
    return value


def integer(text: dict[str, str], key: str, default: int | None = None) -> int:
    """An integer of a row; a missing or empty field gets the default, if there is one.

    Raises:
        InputError: The field is empty or not an integer.
    """
    if default is not None and not text.get(key):
        return default
    value = number(text, key)
    if value != int(value) or abs(value) > MOST:
        raise InputError("expected a whole number", key=key, found=text[key][:40], allowed=f"up to {MOST:,}")
    return int(value)


def moment(text: dict[str, str], key: str) -> float:
    """A date and time of a row (UTC if it has no zone), in seconds since 1970.

    Raises:
        InputError: The field is not a date and time.
    """
    try:
        found = datetime.fromisoformat((text[key] or "").strip())
    except ValueError:
        raise InputError(
            "expected a date and a time", key=key, found=text[key], allowed="2017-10-09 07:01:55"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def job_table(
    found: TraceJobs,
    tree: NodeTree,
    *,
    start_s: float = 0.0,
    length_s: float | None = None,
    faster: float = 1.0,
    most_nodes: Callable[[str], int] | None = None,
) -> JobTable:
    """The jobs of a trace on a cluster: accelerators as nodes and accelerators per node.

    A job that fits into a node gets part of one; a larger one gets whole nodes, the last of which it may not need in
    full.

    Args:
        found: The trace.
        tree: The cluster.
        start_s: Skips earlier submissions, counted from the first.
        length_s: Skips submissions later than this after `start_s`.
        faster: Divides the times between submissions.
        most_nodes: Maximum nodes by tenant, to which larger jobs are cut; None rejects jobs larger than the cluster.

    Raises:
        InputError: A job is larger than the cluster, or waits for an unknown job or for itself; names its line.
    """
    rows = sorted(found.rows, key=lambda row: row.submit_s)
    first = rows[0].submit_s + start_s
    last = math.inf if length_s is None else first + length_s
    rows = [row for row in rows if first <= row.submit_s <= last]
    if not rows:
        raise InputError("no job of the trace lies in the time that is taken of it", file=found.file, key="start")
    full = int(tree.accelerators.max())
    shapes = [_shape(row, full) for row in rows]
    if most_nodes is not None:
        most = [max(most_nodes(row.tenant), 1) for row in rows]
        shapes = [
            (min(nodes, limit), each, min(least, limit))
            for (nodes, each, least), limit in zip(shapes, most, strict=True)
        ]
    jobs = _columns(found, rows, shapes, first, faster)
    _check_asks(jobs, tree)
    _check_sizes(jobs, tree)
    check_dependencies(jobs)
    return jobs


def _shape(row: TraceJob, full: int) -> tuple[int, int, int]:
    nodes = row.nodes or -(-row.accelerators // full)
    each = min(full, -(-row.accelerators // nodes))
    each = full if nodes > 1 and not row.nodes else each
    nodes = max(nodes, -(-row.accelerators // each))
    return nodes, each, min(nodes, max(1, -(-row.least // each))) if row.least else nodes


def _columns(
    found: TraceJobs, rows: Sequence[TraceJob], shapes: Sequence[tuple[int, int, int]], first: float, faster: float
) -> JobTable:
    place = {row.name: number for number, row in enumerate(rows)}
    everyone = {row.name for row in found.rows}
    tenants = list(dict.fromkeys(row.tenant for row in rows))
    classes = ["opaque", *dict.fromkeys(row.work for row in rows if row.work)]
    asks = [ANYWHERE, *sorted({row.ask for row in rows} - {ANYWHERE}, key=str)]
    tenant_of, class_of = ({name: number for number, name in enumerate(names)} for names in (tenants, classes))
    nodes, each, least = (np.array(column, np.int32) for column in zip(*shapes, strict=True))
    return JobTable.of(
        _us((row.submit_s - first) / faster for row in rows),
        _us(row.work_s for row in rows),
        nodes,
        each=each,
        least_nodes=least,
        name=tuple(row.name for row in rows),
        limit_us=_us(-1e-6 if row.limit_s is None else row.limit_s for row in rows),
        tenant=np.array([tenant_of[row.tenant] for row in rows], np.int32),
        priority=np.array([row.priority for row in rows], np.int32),
        work=np.array([class_of.get(row.work, 0) for row in rows], np.int32),
        replica=np.array([-(-row.replica // size) for row, size in zip(rows, each.tolist(), strict=True)], np.int32),
        load_ppm=np.array([round(row.load * PPM) for row in rows], np.int32),
        ask=np.array([asks.index(row.ask) for row in rows], np.int32),
        line=np.array([row.line for row in rows], np.int32),
        after=[[place[name] for name in _known(found, row, everyone) if name in place] for row in rows],
        tenants=tuple(tenants),
        classes=tuple(classes),
        asks=tuple(asks),
        file=found.file,
    )


def _us(seconds: Iterable[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([microseconds(value) for value in seconds], np.int64)


def _known(found: TraceJobs, row: TraceJob, everyone: set[str]) -> tuple[str, ...]:
    for name in row.after:
        if name not in everyone:
            hint = did_you_mean(name, everyone)
            raise InputError(
                f"job `{row.name}` waits for `{name}`, which the trace does not have",
                file=found.file,
                line=row.line,
                hint=hint,
            )
    return row.after


def _check_asks(jobs: JobTable, tree: NodeTree) -> None:
    for number, ask in enumerate(jobs.asks):
        try:
            ask.check(tree)
        except InputError as error:
            line = int(jobs.line[np.flatnonzero(jobs.ask == number)[0]])
            raise error.located(file=jobs.file or None, line=line) from None


def _check_sizes(jobs: JobTable, tree: NodeTree) -> None:
    large = np.flatnonzero(jobs.least_nodes > tree.nodes)
    problems = [
        problem
        for row in large[:MOST_PROBLEMS].tolist()
        for problem in jobs.refuse(
            row,
            "it is larger than the cluster",
            key="accelerators",
            found=int(jobs.nodes[row]) * int(jobs.each[row]),
            allowed=f"at most {tree.total}",
            hint="`shrink: true` gives it all of the cluster but the spares",
        ).problems
    ]
    if problems:
        raise InputError.many(problems)
