"""Jobs drawn from distributions by a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.work.operate.ask import ANYWHERE, Ask
from railyard.work.operate.jobs import JobTable
from railyard.work.operate.rules import PPM, SECOND
from railyard.work.operate.tree import UNNAMED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.work.operate.tree import NodeTree

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
