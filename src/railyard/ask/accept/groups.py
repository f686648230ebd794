"""Which servers are tested together: each alone, those below the same leaves, a pod, a rail, all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from railyard.ask.deploy.plan.cabling import Plan


@dataclass(frozen=True)
class Group:
    """Accelerators that are tested as one communicator.

    Attributes:
        scope: `node`, `rail`, `leaf`, `pod` or `all`.
        name: Of the group, as tests are called: `node3`, `be-leaf0`, `rail2`.
        servers: Their numbers.
        local: Which accelerator of each server; -1: all.
    """

    scope: str
    name: str
    servers: tuple[int, ...]
    local: int = -1

    def ranks(self, each: int) -> NDArray[np.int32]:
        """int32[ranks], accelerators by number, of servers of so many each."""
        first = np.array(self.servers, np.int32) * each
        local = np.arange(each, dtype=np.int32) if self.local < 0 else np.array([self.local], np.int32)
        return (first[:, None] + local[None, :]).ravel()


def groups(plan: Plan) -> Iterator[Group]:
    """All groups; those of the same members are tested once, as the largest scope that they are."""
    servers = range(plan.devices.servers)
    everything = tuple(servers)
    seen: set[tuple[int, ...]] = set()
    if len(everything) > 1:
        seen.add(everything)
        yield Group("all", "all", everything)
        yield from _rails(plan, everything)
    for scope, found in (("pod", _pods(plan)), ("leaf", _leaves(plan))):
        for name, members in found:
            if len(members) > 1 and members not in seen:
                seen.add(members)
                yield Group(scope, name, members)
    yield from (Group("node", plan.devices.name[one], (one,)) for one in servers)


def _rails(plan: Plan, everything: tuple[int, ...]) -> Iterator[Group]:
    """One accelerator a server with its NIC, where each has a NIC."""
    each = plan.cluster.ranks_per_server
    if each > 1 and plan.cluster.plans["back_end"].nics == each:
        yield from (Group("rail", f"rail{local}", everything, local) for local in range(each))


def access(plan: Plan) -> NDArray[np.int64]:
    """Rows of the cables of servers on the back-end."""
    rows, level = plan.cables, plan.devices.level
    mine = (rows.network == plan.networks.index("back-end")) & (rows.a < plan.devices.servers) & (level[rows.b] > 0)
    return np.flatnonzero(mine)


def _leaves(plan: Plan) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Servers that share all of their leaves, by the name of the first."""
    rows = access(plan)
    leaves: dict[int, set[int]] = {}
    for server, leaf in zip(plan.cables.a[rows].tolist(), plan.cables.b[rows].tolist(), strict=True):
        leaves.setdefault(server, set()).add(leaf)
    alike: dict[tuple[int, ...], list[int]] = {}
    for server in sorted(leaves):
        alike.setdefault(tuple(sorted(leaves[server])), []).append(server)
    return [(plan.devices.name[shared[0]], tuple(members)) for shared, members in alike.items()]


def _pods(plan: Plan) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Servers whose leaves are joined by spines, without the tier above; none where there is no such tier."""
    level = plan.devices.level
    if not (level > 2).any():
        return
    cables = plan.cables
    near = (cables.network == plan.networks.index("back-end")) & (level[cables.a] < 2) & (level[cables.b] <= 2)
    pod = _joined(len(plan.devices), cables.a[near], cables.b[near])[: plan.devices.servers]
    for number, first in enumerate(np.unique(pod).tolist()):
        yield f"pod{number}", tuple(np.flatnonzero(pod == first).tolist())


def _joined(count: int, a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int64]:
    """int64[count], the least number of those that each is joined with."""
    least = np.arange(count, dtype=np.int64)
    while True:
        new = least.copy()
        np.minimum.at(new, a, least[b])
        np.minimum.at(new, b, new[a])
        if np.array_equal(new, least):
            return least
        least = new
