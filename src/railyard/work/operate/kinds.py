"""Kinds of drawn jobs as a scenario writes them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError
from railyard.work.operate.event import ANYWHERE, Ask
from railyard.work.operate.jobs import JobTable
from railyard.work.operate.rules import PPM, SECOND
from railyard.work.operate.section import DrawnKindSection
from railyard.work.operate.tree import UNNAMED
from railyard.work.scenario.load import blaming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.section import SyntheticSection
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft


_P90 = 1.2815515655446004
"""The standard normal distribution's 90th percentile."""


@dataclass(frozen=True)
class DrawnKind:
    """A kind of jobs.

    Attributes:
        sizes: Accelerators of a job, and how often.
        median_s: Half of the jobs take less.
        p90_s: Nine in ten take less.
        share: Of the jobs, relative to other kinds.
        tenant: Whose; empty: any tenant's.
        priority: Larger goes first.
        work: Class of work; empty: none is named.
        ask: What they ask of their place.
        least: Accelerators with which a job makes do; 0: all of them.
        replica: Accelerators of each replica of a serving job; 0: it is none.
        load: Asked of a serving job, of what all its replicas can serve.
    """

    sizes: Mapping[int, float]
    median_s: float
    p90_s: float
    share: float = 1.0
    tenant: str = ""
    priority: int = 0
    work: str = ""
    ask: Ask = field(default=ANYWHERE)
    least: int = 0
    replica: int = 0
    load: float = 0.0


def drawn(
    tree: NodeTree,
    kinds: Sequence[DrawnKind],
    *,
    count: int,
    load: float,
    tenants: Sequence[str] = (UNNAMED,),
    seed: int = 0,
) -> JobTable:
    """Jobs whose times are log-normal and whose arrivals are a Poisson process, cut so that the load comes out.

    Args:
        tree: The cluster.
        kinds: What jobs there are; one at least.
        count: Jobs.
        load: Accelerator time that they ask for, over what the cluster has until the last arrives.
        tenants: Names of tenants, drawn evenly for kinds that are nobody's own.
        seed: Of every draw.
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
    """int64[jobs], the kind of each; nothing is drawn where there is one."""
    if len(kinds) == 1:
        return np.zeros(count, np.int64)
    share = np.array([one.share for one in kinds])
    return random.choice(len(kinds), count, p=share / share.sum()).astype(np.int64)


def _work_us(kind: DrawnKind, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    sigma = math.log(kind.p90_s / kind.median_s) / _P90 if kind.p90_s > kind.median_s else 0.0
    times = random.lognormal(math.log(kind.median_s), sigma, count)
    return np.maximum(np.rint(times * SECOND), 1).astype(np.int64)


def _owners(
    kinds: Sequence[DrawnKind], kind: NDArray[np.int64], tenants: Sequence[str], random: np.random.Generator
) -> dict[str, Any]:
    """Columns of tenants: those that kinds name, then those that are drawn."""
    named = list(dict.fromkeys(one.tenant for one in kinds if one.tenant))
    drawn_names = tenants if any(not one.tenant for one in kinds) else ()
    names = [*named, *(name for name in drawn_names if name not in named)]
    number = np.array([names.index(name) if name in names else 0 for name in tenants])
    drawn_tenant = number[random.integers(0, len(tenants), len(kind))]
    fixed = np.array([named.index(one.tenant) if one.tenant else -1 for one in kinds])[kind]
    return {"tenant": np.where(fixed >= 0, fixed, drawn_tenant).astype(np.int32), "tenants": tuple(names)}


def _asked(
    kinds: Sequence[DrawnKind], kind: NDArray[np.int64], nodes: NDArray[np.int64], each: NDArray[np.int64]
) -> dict[str, Any]:
    """Columns of what jobs ask: place, priority, class of work, elasticity, replicas."""
    asks = tuple(dict.fromkeys([ANYWHERE, *(one.ask for one in kinds)]))
    classes = ("opaque", *dict.fromkeys(one.work for one in kinds if one.work))

    def column(values: Sequence[int]) -> NDArray[np.int32]:
        return np.array(values, np.int64)[kind].astype(np.int32)

    least = column([one.least for one in kinds])
    replica = column([one.replica for one in kinds])
    return {
        "priority": column([one.priority for one in kinds]),
        "work": column([classes.index(one.work) if one.work else 0 for one in kinds]),
        "classes": classes,
        "ask": column([asks.index(one.ask) for one in kinds]),
        "asks": asks,
        "least_nodes": np.where(least > 0, np.minimum(-(-least // each), nodes), nodes).astype(np.int32),
        "replica": (-(-replica // each)).astype(np.int32),
        "load_ppm": column([round(one.load * PPM) for one in kinds]),
    }


def drawn_jobs(draft: Draft, tree: NodeTree, section: SyntheticSection) -> JobTable:
    """The jobs of a scenario that says of which kinds they are.

    Raises:
        InputError: With the place in the scenario.
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
    """Whose jobs are that name nobody: those who share the cluster, where the scenario says who does."""
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
    """A kind of drawn jobs, with what it leaves out as all jobs have it."""
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
    ask = Ask(one.within or "", one.prefers or "", one.segment, one.segment_within or "", one.switches)
    ask.check(tree)
    return DrawnKind(
        sizes,
        median,
        section.p90 if one.p90 is None else one.p90,
        one.share,
        one.tenant or "",
        one.priority,
        one.work or "",
        ask,
        one.least_accelerators or 0,
        replica,
        one.load,
    )


def _size(text: str, tree: NodeTree) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= tree.total:
        raise InputError(
            "a size is a number of accelerators of the cluster", key="sizes", found=text, allowed=f"1 to {tree.total}"
        )
    return int(text)
