"""Legs of the sends of a plan: through scale-up, through a NIC, or through a peer and the peer's NIC.

Every leg becomes one row of the engine's traffic. Where scale-up is a *model* and not made of packets, its legs are
local work of the sender that takes as long as the bytes take on its links, and chains of such work are drawn together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import NETWORK
from railyard.collective.lowering.routes import rail_of_local
from railyard.engine.packet.plan import GATE, Edges, joined_edges
from railyard.engine.packet.records import AT_RECEIVER, AT_SENDER
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.engine.packet.plan import SendPlan

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

JOIN, UP, OUT, TO_SWITCH, FROM_SWITCH, TO_NETWORK, FROM_NETWORK = range(7)
"""Kinds of legs: nothing moves; within a domain; through NICs; to and from a reducing scale-up switch; to and from the
reducing switches of the network."""

_COLUMNS = (
    *("kind", "source", "target", "leave_by", "arrive_at", "nic", "channel", "lane"),
    *("share", "steps", "posted", "lanes"),
)

THROUGH_NICS = (OUT, TO_NETWORK, FROM_NETWORK)


@dataclass(frozen=True, eq=False)
class PlanLegs:
    """k legs of one plan on the members of one communicator; positions as in the plan.

    Attributes:
        kind: uint8[k].
        source: int64[k], position; of the member next to it where the end is a switch.
        target: int64[k].
        leave_by: int64[k], position whose place in its server the sender has, in the source's server; -1: its own.
        arrive_at: int64[k], the same for the receiving rank, in the source's server; -1: the target itself.
        nic: int64[k], which NIC of the ranks.
        channel: int64[k], which of the connections between the two NICs.
        lane: int64[k], which queue pair of the connection.
        share: float64[k], bytes per byte of the collective's size.
        steps: float64[k].
        posted: float64[k].
        lanes: float64[k].
        edges: Waits; `GATE` stands for the collective's start.
        last: int64[], legs that end it.
    """

    kind: NDArray[np.uint8]
    source: Ints
    target: Ints
    leave_by: Ints
    arrive_at: Ints
    nic: Ints
    channel: Ints
    lane: Ints
    share: Floats
    steps: Floats
    posted: Floats
    lanes: Floats
    edges: Edges
    last: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def nics(self) -> NDArray[np.bool_]:
        """bool[k]: legs through NICs."""
        found: NDArray[np.bool_] = np.isin(self.kind, THROUGH_NICS)
        return found


def legs_of(cluster: Cluster, plan: SendPlan, members: Ints, *, pxn: bool, opened: int = 1) -> PlanLegs:
    """The legs of a plan.

    Args:
        cluster: The cluster.
        plan: Sends between positions.
        members: int64[positions], ranks. Communicators whose members sit alike have the same legs.
        pxn: Whether sends to another rail go through the peer that owns the right NIC.
        opened: Connections that share each send, through every NIC.
    """
    kind = _kinds(cluster, plan, members)
    relayed = _relayed(cluster, plan, members, kind) if pxn else np.zeros(len(plan), np.bool_)
    nics = cluster.back_end.port_of_rank.shape[1]
    fabric = cluster.back_end.fabric
    lanes = fabric.qps if fabric.hashed else 1
    through = np.where(np.isin(kind, THROUGH_NICS), nics, 1)
    paths = np.where(kind == OUT, nics * lanes * opened, through).astype(np.int64)
    count = paths + relayed.astype(np.int64)
    first: Ints = np.cumsum(count) - count
    row = np.repeat(np.arange(len(plan)), count)
    turn = np.arange(len(row)) - first[row] - relayed[row]  # -1 for the way to the peer
    to_peer = turn < 0
    source, target = _ends(plan)
    every = np.where(to_peer, 1.0, 1.0 / paths[row])
    return PlanLegs(
        kind=np.where(to_peer, UP, kind[row]).astype(np.uint8),
        source=source[row],
        target=target[row],
        leave_by=np.where(~to_peer & relayed[row], target[row], -1),
        arrive_at=np.where(to_peer, target[row], -1),
        nic=np.maximum(turn, 0) % nics,
        channel=plan.channel[row] * opened + np.maximum(turn, 0) // (nics * lanes),
        lane=np.maximum(turn, 0) // nics % lanes,
        share=plan.share[row] * every,
        steps=np.where(to_peer, 0.0, plan.steps[row]),
        posted=plan.posted[row],
        lanes=plan.lanes[row],
        edges=_edges(plan, first, relayed, paths, np.isin(kind, THROUGH_NICS)),
        last=_several(first + relayed, paths, plan.last),
    )


def _ends(plan: SendPlan) -> tuple[Ints, Ints]:
    """Positions; a switch has that of the member at the other end."""
    return np.where(plan.source < 0, plan.target, plan.source), np.where(plan.target < 0, plan.source, plan.target)


def _kinds(cluster: Cluster, plan: SendPlan, members: Ints) -> NDArray[np.int64]:
    source, target = _ends(plan)
    domain = members // cluster.scale_up_domain
    kind = np.where(domain[source] == domain[target], UP, OUT)
    kind = np.where(plan.steps == 0, JOIN, kind)
    kind = np.where(plan.target < 0, np.where(plan.target == NETWORK, TO_NETWORK, TO_SWITCH), kind)
    return np.where(plan.source < 0, np.where(plan.source == NETWORK, FROM_NETWORK, FROM_SWITCH), kind)


def _relayed(cluster: Cluster, plan: SendPlan, members: Ints, kind: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool[sends]: whether a send changes rails and there is a peer on the target's rail within reach."""
    source, target = (members[end] for end in _ends(plan))
    per_server, domain = cluster.ranks_per_server, cluster.scale_up_domain
    rails = rail_of_local(cluster)
    peer = source - source % per_server + target % per_server
    other = rails[source % per_server] != rails[target % per_server]
    relayed: NDArray[np.bool_] = (kind == OUT) & other & (source // domain == peer // domain)
    return relayed


def _several(first: Ints, paths: Ints, rows: Ints) -> Ints:
    """The numbers `first[r], ..., first[r] + ways[r] - 1` for every row."""
    return ranges(first[rows], paths[rows])


def _edges(plan: SendPlan, first: Ints, relayed: NDArray[np.bool_], paths: Ints, out: NDArray[np.bool_]) -> Edges:
    """Waits between legs: what enters a send waits for all that leaves the one before."""
    after, before, at = plan.edges
    gate = before == GATE
    slot = (at == AT_SENDER) & ~gate & out[after] & (paths[after] == paths[np.maximum(before, 0)])
    data = ~gate & ~slot
    entries = np.where(relayed, 1, paths)
    parts = []
    rows = after[gate]
    parts.append(_edge(_several(first, entries, rows), np.full(int(entries[rows].sum()), GATE), AT_RECEIVER))
    rows, sources = after[slot], before[slot]
    parts.append(_edge(_several(first + relayed, paths, rows), _several(first + relayed, paths, sources), AT_SENDER))
    rows, sources, when = after[data], before[data], at[data]
    fan = paths[sources]
    entry = np.repeat(rows, fan)
    leaves = _several(first + relayed, paths, sources)
    wide = entries[entry]
    onto = _several(first, entries, entry)
    parts.append(Edges(onto, np.repeat(leaves, wide), np.repeat(np.repeat(when, fan), wide)))
    rows = np.flatnonzero(relayed)
    parts.append(_edge(_several(first + 1, paths, rows), np.repeat(first[rows], paths[rows]), AT_RECEIVER))
    return joined_edges(parts)


def _edge(after: Ints, before: Ints, at: int) -> Edges:
    return Edges(after, before, np.full(len(after), at, np.uint8))


# ------------------------------------------------------------------------------------------------------ chains of work


def drawn_together(legs: PlanLegs, local: NDArray[np.bool_], work_ps: Floats) -> tuple[PlanLegs, Floats, Ints]:
    """Draws chains of local work together: work that waits only for other work takes over its waits and its time.

    Args:
        legs: Legs.
        local: bool[k], those that are local work.
        work_ps: float64[k], how long each takes; 0 for the others.

    Returns:
        The legs that are left, their work, and their numbers before.
    """
    work = work_ps.copy()
    before = np.full(len(legs), GATE - 1)  # of work with exactly one wait: what it waits for
    waits = np.bincount(legs.edges.after, minlength=len(legs))
    single = local & (waits == 1)
    row = single[legs.edges.after]
    before[legs.edges.after[row]] = legs.edges.before[row]
    when = np.full(len(legs), AT_RECEIVER, np.uint8)
    when[legs.edges.after[row]] = legs.edges.at[row]
    while True:
        rows = np.flatnonzero(single & (before >= 0))
        rows = rows[single[before[rows]]]
        if not rows.size:
            break
        head = before[rows]
        work[rows] += work[head]
        before[rows], when[rows] = before[head], when[head]
    others = Edges(legs.edges.after[~row], legs.edges.before[~row], legs.edges.at[~row])
    edges = joined_edges([others, Edges(np.flatnonzero(single), before[single], when[single])])
    return _kept(legs, edges, local, work)


def in_turn(
    legs: PlanLegs, local: NDArray[np.bool_], moving_ps: Floats, work_ps: Floats
) -> tuple[PlanLegs, Floats, Ints]:
    """Lets local work that waits for other work at its sender begin when its bytes have left, not when they have come.

    Args:
        legs: Legs.
        local: bool[k], those that are local work.
        moving_ps: float64[k], how long the bytes of each occupy its link.
        work_ps: float64[k], until those who wait for each may pass it on.

    Returns:
        Legs with one more for each that others wait for so, their work, and of which leg before each is a part.
    """
    after, before, at = legs.edges
    waits = (at == AT_SENDER) & (before >= 0)
    waits[waits] = local[after[waits]] & local[before[waits]]
    rows = np.unique(before[waits])
    number = np.full(len(legs), -1)
    number[rows] = len(legs) + np.arange(len(rows))
    before, at = np.where(waits, number[before], before), np.where(waits, AT_RECEIVER, at).astype(np.uint8)
    link = number[after] >= 0  # what a leg waits for, its link waits for too
    edges = joined_edges([Edges(after, before, at), Edges(number[after[link]], before[link], at[link])])
    origin = np.concatenate([np.arange(len(legs)), rows])
    work = np.concatenate([work_ps, moving_ps[rows]])
    columns = {name: getattr(legs, name)[origin] for name in _COLUMNS}
    return replace(legs, **columns, edges=edges), work, origin


def _kept(legs: PlanLegs, edges: Edges, local: NDArray[np.bool_], work: Floats) -> tuple[PlanLegs, Floats, Ints]:
    """Without work that nothing waits for any more."""
    needed = ~local
    needed[legs.last] = True
    while True:
        wanted = edges.before[needed[edges.after]]
        wanted = wanted[wanted >= 0]
        if needed[wanted].all():
            break
        needed[wanted] = True
    number = np.cumsum(needed) - 1
    kept = needed[edges.after]
    after, before, at = edges.after[kept], edges.before[kept], edges.at[kept]
    left = Edges(number[after], np.where(before >= 0, number[np.maximum(before, 0)], before), at)
    columns = {name: getattr(legs, name)[needed] for name in _COLUMNS}
    return replace(legs, **columns, edges=left, last=number[legs.last]), work[needed], np.flatnonzero(needed)


# ------------------------------------------------------------------------------------------------------------- software


def prepared(
    legs: PlanLegs, local: NDArray[np.bool_], delay_ps: Floats
) -> tuple[PlanLegs, NDArray[np.bool_], Floats, Ints]:
    """Lets the software of a send run while the send waits for its slot: its delay becomes work of its own.

    Where a send waits for one piece of local work that nothing else waits for, that work takes longer; else there is a
    new leg of local work.

    Args:
        legs: Legs.
        local: bool[k], local work.
        delay_ps: float64[k], before a send or for local work.

    Returns:
        Legs, which of them are local, delays, and of which leg before each is a part.
    """
    after, before, at = legs.edges
    waits = np.zeros(len(legs), np.bool_)
    waits[after[at == AT_SENDER]] = True
    waits &= ~local & (delay_ps > 0)
    data = waits[after] & (at == AT_RECEIVER)
    count = np.bincount(after[data], minlength=len(legs))
    followers = np.bincount(before[before >= 0], minlength=len(legs))
    followers[legs.last] += 1
    alone = data & (count[after] == 1) & (before >= 0)
    alone[alone] = local[before[alone]] & (followers[before[alone]] == 1)
    delay = delay_ps.copy()
    delay[before[alone]] += delay_ps[after[alone]]
    delay[after[alone]] = 0.0
    rest = np.flatnonzero(waits & (delay > 0))
    number = np.full(len(legs), -1)
    number[rest] = len(legs) + np.arange(len(rest))
    moved = data & (number[after] >= 0)
    more = _edge(rest, number[rest], AT_RECEIVER)
    edges = joined_edges([Edges(np.where(moved, number[after], after), before, at), more])
    origin = np.concatenate([np.arange(len(legs)), rest])
    columns = {name: getattr(legs, name)[origin] for name in _COLUMNS}
    columns["kind"][len(legs) :] = JOIN
    works = np.concatenate([local, np.ones(len(rest), np.bool_)])
    taken = np.concatenate([delay, delay[rest]])
    taken[rest] = 0.0
    return replace(legs, **columns, edges=edges), works, taken, origin
