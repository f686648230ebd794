"""The jobs of a run as a table of columns: what trace readers produce and the event loop plays."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.operate.free import ANYWHERE, PlacementAsk
from railyard.work.operate.rules import PPM, SECOND, sigma
from railyard.work.operate.section import DrawnKindSection
from railyard.work.operate.tree import UNNAMED
from railyard.work.scenario.load import blaming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.section import SyntheticSection
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft


_ZERO = ("tenant", "priority", "work", "ask", "replica", "load_ppm", "line")
"""Columns whose default is 0."""


@dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs: n rows in order of submission; times in microseconds from the start of the run.

    Attributes:
        name: Name of each job in its trace.
        submit_us: int64[n], non-decreasing.
        work_us: int64[n], run time on all its nodes without contention or failures; 0 or more.
        limit_us: int64[n], time limit that its user gave; a job that runs longer is killed. -1: none.
        nodes: int32[n], nodes requested.
        each: int32[n], accelerators per node.
        least_nodes: int32[n], fewest nodes that it can run on (elastic); equal to `nodes` if it is not elastic.
        tenant: int32[n], index into `tenants`.
        priority: int32[n], larger goes first; decides who may preempt (quality of service).
        work: int32[n], its class of work, an index into `classes`.
        after_ptr: int64[n + 1], CSR of the jobs that must end before it can start.
        after: int32[], rows.
        ask: int32[n], its placement constraints, an index into `asks`.
        replica: int32[n], nodes of each replica of a serving job; 0: not a serving job.
        load_ppm: int32[n], load of a serving job, in millionths of what all its replicas can serve.
        line: int32[n], its line in its file; 0: none.
        classes: Names of classes of work; the first is "opaque".
        asks: Placement constraints of jobs; the first has none.
    """

    name: tuple[str, ...]
    submit_us: NDArray[np.int64]
    work_us: NDArray[np.int64]
    limit_us: NDArray[np.int64]
    nodes: NDArray[np.int32]
    each: NDArray[np.int32]
    least_nodes: NDArray[np.int32]
    tenant: NDArray[np.int32]
    priority: NDArray[np.int32]
    work: NDArray[np.int32]
    after_ptr: NDArray[np.int64]
    after: NDArray[np.int32]
    ask: NDArray[np.int32]
    replica: NDArray[np.int32]
    load_ppm: NDArray[np.int32]
    line: NDArray[np.int32]
    tenants: tuple[str, ...] = (UNNAMED,)
    classes: tuple[str, ...] = ("opaque",)
    asks: tuple[PlacementAsk, ...] = (ANYWHERE,)
    file: str = field(default="", compare=False)

    def __len__(self) -> int:
        return len(self.name)

    @property
    def accelerators(self) -> NDArray[np.int64]:
        """int64[n], accelerators of each job."""
        return self.nodes.astype(np.int64) * self.each

    @staticmethod
    def of(
        submit_us: NDArray[np.int64], work_us: NDArray[np.int64], nodes: NDArray[np.int32], **columns: Any
    ) -> JobTable:
        """A table in order of submission; omitted columns get their defaults.

        Args:
            submit_us: int64[n].
            work_us: int64[n].
            nodes: int32[n].
            **columns: Any other attribute; `after` as a list of rows for each job.
        """
        count = len(submit_us)
        after: Sequence[Sequence[int]] = columns.pop("after", None) or [()] * count
        ptr = np.concatenate([[0], np.cumsum([len(rows) for rows in after], dtype=np.int64)]).astype(np.int64)
        plain: dict[str, Any] = {
            "name": tuple(str(number) for number in range(count)),
            "limit_us": np.full(count, -1, np.int64),
            "each": np.ones(count, np.int32),
            "least_nodes": np.asarray(nodes, np.int32),
            **{key: np.zeros(count, np.int32) for key in _ZERO},
        }
        table = JobTable(
            submit_us=np.asarray(submit_us, np.int64),
            work_us=np.asarray(work_us, np.int64),
            nodes=np.asarray(nodes, np.int32),
            after_ptr=ptr,
            after=np.array([row for rows in after for row in rows], np.int32),
            **{**plain, **columns},
        )
        return table.sorted()

    def sorted(self) -> JobTable:
        """The same in order of submission; simultaneous jobs keep their order."""
        order = np.argsort(self.submit_us, kind="stable")
        return self if np.array_equal(order, np.arange(len(self))) else self.take(order)

    def take(self, rows: NDArray[np.int64]) -> JobTable:
        """Selected rows in a given order; dependencies on rows left out count as met."""
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        after = [
            [int(place[one]) for one in self.after[self.after_ptr[row] : self.after_ptr[row + 1]] if place[one] >= 0]
            for row in rows.tolist()
        ]
        plain = {
            item.name: getattr(self, item.name)[rows]
            for item in fields(self)
            if isinstance(getattr(self, item.name), np.ndarray) and not item.name.startswith("after")
        }
        return replace(
            self,
            **plain,
            name=tuple(self.name[row] for row in rows.tolist()),
            after_ptr=np.concatenate([[0], np.cumsum([len(one) for one in after])]).astype(np.int64),
            after=np.array([one for each in after for one in each], np.int32),
        )

    def refuse(self, row: int, message: str, **details: Any) -> InputError:
        """An error about one job, with its place in the file."""
        return InputError(
            f"job `{self.name[row]}`: {message}",
            file=self.file or None,
            line=int(self.line[row]) or None,
            **details,
        )


def check_dependencies(jobs: JobTable) -> None:
    """Rejects dependency cycles.

    Raises:
        InputError: Names the jobs of the cycle.
    """
    count = len(jobs)
    if not len(jobs.after):
        return
    waits = np.diff(jobs.after_ptr).copy()
    order = np.argsort(jobs.after, kind="stable")
    owner = np.repeat(np.arange(count), waits)[order]
    start = np.searchsorted(jobs.after[order], np.arange(count + 1))
    ready = np.flatnonzero(waits == 0).tolist()
    met = len(ready)
    while ready:
        row = ready.pop()
        for later in owner[start[row] : start[row + 1]].tolist():
            waits[later] -= 1
            if waits[later] == 0:
                ready.append(later)
                met += 1
    if met < count:
        raise _circle(jobs, waits)


def _circle(jobs: JobTable, waits: NDArray[np.int64]) -> InputError:
    row = int(np.flatnonzero(waits)[0])
    seen: list[int] = []
    while row not in seen:
        seen.append(row)
        before = jobs.after[jobs.after_ptr[row] : jobs.after_ptr[row + 1]]
        row = int(before[waits[before] > 0][0])
    circle = [*seen[seen.index(row) :], row]
    words = " waits for ".join(f"`{jobs.name[one]}`" for one in circle[:6])
    return jobs.refuse(row, f"its dependencies form a cycle: {words}{' ...' if len(circle) > 6 else ''}")


@dataclass(frozen=True)
class DrawnKind:
    """A kind of job, with what it leaves out as for all jobs.

    Attributes:
        given: What the scenario says of it.
        sizes: Accelerators of a job, and how often each size occurs.
        median_s: Median run time.
        p90_s: 90th percentile of the run time.
    """

    given: DrawnKindSection
    sizes: Mapping[int, float]
    median_s: float
    p90_s: float
    ask: PlacementAsk = ANYWHERE


def drawn(
    tree: NodeTree,
    kinds: Sequence[DrawnKind],
    *,
    count: int,
    load: float,
    tenants: Sequence[str] = (UNNAMED,),
    seed: int = 0,
) -> JobTable:
    """Jobs with log-normal run times and Poisson arrivals, scaled to reach the given load.

    Args:
        tree: The cluster.
        kinds: Kinds of jobs; at least one.
        count: Number of jobs.
        load: Accelerator time that they request, relative to what the cluster has until the last arrival.
        tenants: Names of tenants, drawn evenly for kinds without one.
        seed: Seed of all draws.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, 0x10B5]))
    kind = _kind(kinds, count, random)
    wanted, work = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number, one in enumerate(kinds):
        theirs = kind == number
        listed, share = np.array(list(one.sizes), np.int64), np.array(list(one.sizes.values()), float)
        wanted[theirs] = random.choice(listed, int(theirs.sum()), p=share / share.sum())
        work[theirs] = _work_us(one, int(theirs.sum()), random)
    full = int(tree.accelerators.max())
    nodes = -(-wanted // full)
    each = np.where(nodes > 1, full, wanted)
    gaps = random.exponential(1.0, count)
    asked = float((nodes * each * work).sum())
    submit = np.cumsum(gaps) / gaps.sum() * asked / tree.total / load
    return JobTable.of(
        np.rint(submit).astype(np.int64),
        work,
        nodes.astype(np.int32),
        each=each.astype(np.int32),
        **_owners(kinds, kind, tenants, random),
        **_asked(kinds, kind, nodes, each),
    )


def _kind(kinds: Sequence[DrawnKind], count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """int64[jobs], the kind of each; nothing is drawn if there is only one."""
    if len(kinds) == 1:
        return np.zeros(count, np.int64)
    share = np.array([one.given.share for one in kinds])
    return random.choice(len(kinds), count, p=share / share.sum()).astype(np.int64)


def _work_us(kind: DrawnKind, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    times = random.lognormal(math.log(kind.median_s), sigma(kind.median_s, kind.p90_s), count)
    return np.maximum(np.rint(times * SECOND), 1).astype(np.int64)


def _owners(
    kinds: Sequence[DrawnKind], kind: NDArray[np.int64], tenants: Sequence[str], random: np.random.Generator
) -> dict[str, Any]:
    """The tenants that kinds name, then drawn ones."""
    named = list(dict.fromkeys(one.given.tenant for one in kinds if one.given.tenant))
    drawn_names = tenants if any(not one.given.tenant for one in kinds) else ()
    names = [*named, *(name for name in drawn_names if name not in named)]
    number = np.array([names.index(name) if name in names else 0 for name in tenants])
    drawn_tenant = number[random.integers(0, len(tenants), len(kind))]
    fixed = np.array([named.index(one.given.tenant) if one.given.tenant else -1 for one in kinds])[kind]
    return {"tenant": np.where(fixed >= 0, fixed, drawn_tenant).astype(np.int32), "tenants": tuple(names)}


def _asked(
    kinds: Sequence[DrawnKind], kind: NDArray[np.int64], nodes: NDArray[np.int64], each: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns of what jobs request: placement, priority, class of work, elasticity, replicas."""
    asks = tuple(dict.fromkeys([ANYWHERE, *(one.ask for one in kinds)]))
    given = [one.given for one in kinds]
    classes = ("opaque", *dict.fromkeys(one.work for one in given if one.work))

    def column(values: Sequence[int]) -> NDArray[np.int32]:
        return np.array(values, np.int64)[kind].astype(np.int32)

    least = column([one.least_accelerators or 0 for one in given])
    replica = column([one.replica_accelerators or 0 for one in given])
    return {
        "priority": column([one.priority for one in given]),
        "work": column([classes.index(one.work) if one.work else 0 for one in given]),
        "classes": classes,
        "ask": column([asks.index(one.ask) for one in kinds]),
        "asks": asks,
        "least_nodes": np.where(least > 0, np.minimum(-(-least // each), nodes), nodes).astype(np.int32),
        "replica": (-(-replica // each)).astype(np.int32),
        "load_ppm": column([round(one.load * PPM) for one in given]),
    }


def drawn_jobs(draft: Draft, tree: NodeTree, section: SyntheticSection) -> JobTable:
    """The jobs of a scenario that gives kinds of jobs.

    Raises:
        InputError: Names the place in the scenario.
    """
    place = ("workload", "operate", "jobs", "synthetic")
    tenants, kinds = _tenants(draft, tree, section), []
    for number, one in enumerate(section.kinds or (DrawnKindSection(),)):
        with blaming(draft, *place, *(("kinds", str(number)) if section.kinds else ())):
            if one.tenant is not None:
                tree.owner_of(one.tenant)
            kinds.append(_drawn_kind(one, section, tree))
    return drawn(tree, kinds, count=section.count, load=section.load, tenants=tenants, seed=draft.scenario.seed)


def _tenants(draft: Draft, tree: NodeTree, section: SyntheticSection) -> tuple[str, ...]:
    """Tenants of jobs that name none: those that share the cluster, if the scenario lists them."""
    if tree.tenancy is None:
        count = section.tenants or 1
        return tuple(f"tenant-{number}" for number in range(count)) if count > 1 else (UNNAMED,)
    names = tuple(one.name for one in tree.tenancy.tenants)
    if section.tenants is not None:
        error = InputError(
            "`cluster.tenancy` says whose jobs there are", key="tenants", found=section.tenants, allowed=list(names)
        )
        raise draft.blame(error, "workload", "operate", "jobs", "synthetic")
    return names


def _drawn_kind(one: DrawnKindSection, section: SyntheticSection, tree: NodeTree) -> DrawnKind:
    """A kind of drawn jobs; what it leaves out is as for all jobs."""
    written = one.sizes or section.sizes
    sizes = {_size(text, tree): share for text, share in written.items()}
    if not sizes or min(sizes.values()) < 0 or sum(sizes.values()) <= 0:
        raise InputError("shares are positive numbers", key="sizes", found=dict(written))
    median = section.median if one.median is None else one.median
    if median <= 0:
        raise InputError("a job takes some time", key="median", found=median)
    replica = one.replica_accelerators or 0
    if (replica > 0) != (one.load > 0):
        raise InputError("a serving job has `replica_accelerators` and a `load`", key="load", found=one.load)
    broken = next((size for size in sizes if replica and size % replica), None)
    if broken is not None:
        raise InputError("a job has whole replicas", key="replica_accelerators", found=replica, allowed=sorted(sizes))
    if one.least_accelerators and one.least_accelerators > min(sizes):
        raise InputError(
            "jobs make do with no more than they want", key="least_accelerators", found=one.least_accelerators
        )
    ask = PlacementAsk(
        within=one.within or "",
        prefers=one.prefers or "",
        segment=one.segment,
        segment_within=one.segment_within or "",
        switches=one.switches,
    )
    ask.check(tree)
    return DrawnKind(one, sizes, median, section.p90 if one.p90 is None else one.p90, ask)


def _size(text: str, tree: NodeTree) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= tree.total:
        raise InputError(
            "a size is a number of accelerators of the cluster", key="sizes", found=text, allowed=f"1 to {tree.total}"
        )
    return int(text)
