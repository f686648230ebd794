"""Tenants that share a cluster (`cluster.tenancy`), as a queue keeps to them: what may be asked, and what is said.

A tenant's jobs get servers that are its; those of jobs that name no tenant are nobody's, and so are spares. A spare
that takes over becomes the tenant's, erased if another tenant had it before; what it replaces is nobody's from then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.cluster.tenancy import NOBODY
from railyard.kit.errors import InputError
from railyard.measure.causes import CAUSES, Cause
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.capital import parts_of_rows
from railyard.measure.cost.cost import hourly
from railyard.measure.decompose import Decomposition, TimeRow
from railyard.work.operate.tree import DIVIDED

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.measure.cost.ranges import Source
    from railyard.measure.result.section import Band
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.section import OperateSection
    from railyard.work.operate.tree import NodeTree
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario


SECOND_PS = 10**12
_CAUSE = {"work": Cause.COMPUTE, "contention": Cause.CONTENTION, "straggler": Cause.STRAGGLER}
"""What is neither work nor one of these is time in which accelerators wait."""


def usd_per_h(cluster: Cluster, scenario: Scenario, time: dict[str, float]) -> tuple[Band, tuple[Source, ...]]:
    """Dollars an hour, and the sources of every price.

    Args:
        cluster: The machine.
        scenario: Whose prices.
        time: Shares of the accelerators' time, as `accounts.shares` gives them.
    """
    assumptions = Assumptions.from_catalog(cluster.catalog, scenario.economics.given())
    parts = parts_of_rows(bill_of(cluster))
    cost = hourly(_spent(time, cluster.ranks), cluster.accelerator, parts, assumptions)
    return cost.section().usd_per_h, cost.sources


def _spent(time: dict[str, float], ranks: int) -> Decomposition:
    """The shares as a second of a step, the same of every accelerator."""
    shares = np.zeros(CAUSES)
    for name, share in time.items():
        shares[_CAUSE.get(name, Cause.DEPENDENCY)] += max(share, 0.0)
    exact = np.rint(shares / shares.sum() * SECOND_PS).astype(np.int64)
    exact[Cause.DEPENDENCY] += SECOND_PS - exact.sum()
    rows = tuple(
        TimeRow(Cause(number).word, "", "", value / SECOND_PS, value / SECOND_PS, int(value) * ranks)
        for number, value in enumerate(exact.tolist())
        if value
    )
    return Decomposition(SECOND_PS, rows, np.tile(exact, (ranks, 1)), np.zeros(ranks, np.int64), 0)


def check_owners(jobs: JobTable, tree: NodeTree, draft: Draft) -> None:
    """Refuses jobs of tenants that the cluster does not have, and what could only be had from other tenants.

    Raises:
        InputError: With the job's line.
    """
    if tree.tenancy is None or tree.owner is None:
        return
    divided = np.flatnonzero(tree.owner == DIVIDED)
    if len(divided):
        apart = InputError(
            f"server {divided[0]} has ports of several: a queue gives tenants whole servers",
            key="tenancy",
            found=f"{len(divided)} such servers",
            allowed="tenants without `nics`",
        )
        raise draft.blame(apart, "cluster")
    for number, name in enumerate(jobs.tenants):
        try:
            tree.owner_of(name)
        except InputError as error:
            problem = error.problems[0]
            raise jobs.refuse(
                int(np.flatnonzero(jobs.tenant == number)[0]),
                problem.message,
                key="tenant",
                found=name,
                allowed=problem.allowed,
                hint=problem.hint,
            ) from None
    if draft.scenario.operate.queue.borrow:
        lent = InputError(
            "nobody can borrow: `cluster.tenancy` gives each tenant servers of its own",
            key="borrow",
            found=True,
            allowed=False,
        )
        raise draft.blame(lent, "workload", "operate", "queue")


def check_window(tree: NodeTree, number: int, tenant: str, nodes: tuple[int, int]) -> None:
    """Refuses a window that keeps others' nodes for a tenant.

    Raises:
        InputError: Its key is relative to the section.
    """
    if tree.owner is None or tree.tenancy is None:
        return
    first, last = nodes
    foreign = np.flatnonzero(tree.owner[first : last + 1] != tree.owner_of(tenant))
    if len(foreign):
        node = first + int(foreign[0])
        raise InputError(
            f"node {node} is not `{tenant}`'s but {_whose(tree, int(tree.owner[node]))}",
            key=f"windows.{number}.nodes",
            found=nodes,
            allowed="nodes that `cluster.tenancy` gives the tenant",
        )


def check_spares(tree: NodeTree, spares: int) -> None:
    """Refuses more spares than there are nodes that are nobody's.

    Raises:
        InputError: Its key is relative to the section.
    """
    if len(tree.spare(spares)) < spares:
        left = len(tree.spare(tree.nodes))
        raise InputError(
            "spares are nobody's until they take over", key="recovery.spares", found=spares, allowed=f"at most {left}"
        )


def owned_words(tree: NodeTree, owner: int) -> str:
    """Behind what cannot be placed: among whose nodes; nothing where all are anybody's."""
    if tree.owner is None:
        return ""
    return f" among {_whose(tree, owner)} {int(np.count_nonzero(tree.owner == owner))} nodes"


def owned_notes(tree: NodeTree, section: OperateSection) -> list[str]:
    """What a reader must know of tenants."""
    if tree.owner is None or section.turnaround is None or section.turnaround.between != "tenants":
        return []
    if section.recovery.spares and section.failures is not None:
        return ["servers have the tenants of `cluster.tenancy`: only spares that take over pass between them"]
    return [
        "servers have the tenants of `cluster.tenancy` all the time: none is erased between tenants"
        " (`turnaround.between: jobs` erases between a tenant's jobs)"
    ]


def _whose(tree: NodeTree, owner: int) -> str:
    if owner == NOBODY or tree.tenancy is None:
        return "nobody's"
    return f"`{tree.tenancy.tenants[owner].name}`'s"
