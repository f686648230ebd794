"""Kinds of drawn jobs as a scenario writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.operate.ask import Ask
from railyard.work.operate.drawn import DrawnKind, drawn
from railyard.work.operate.section import DrawnKindSection
from railyard.work.operate.tree import UNNAMED
from railyard.work.scenario.load import blaming

if TYPE_CHECKING:
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.section import SyntheticSection
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft


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
