"""Forwarding tables of all switches as one matrix: those that were dumped, or those of a min-hop engine; and walks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.infer import by_name
from railyard.ask.audit.reference import MOST
from railyard.ask.audit.symptom import AuditFinding, Symptom, shifts_of
from railyard.cluster.network_table import UNKNOWN
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.cluster.asbuilt.reported.reports import Reports
    from railyard.cluster.network_table import NetworkTable


MOST_HOPS = 10
"""Cables between two hosts: more than any fat tree of four tiers has, so that what is still under way goes round."""


NO_ENTRY, NO_CABLE = -1, -2


@dataclass(frozen=True, eq=False)
class ForwardingMatrix:
    """Next cables.

    Attributes:
        switch: int64[switches], devices.
        host: int64[destinations], devices, in the order of their names.
        access: int64[destinations], the cable of each.
        leaf: int64[destinations], row of the switch of each.
        next: int32[switches, destinations], a cable, `NO_ENTRY`, or `NO_CABLE` for a port without one.
        known: bool[switches], which have a table at all.
    """

    found: NetworkTable
    switch: NDArray[np.int64]
    host: NDArray[np.int64]
    access: NDArray[np.int64]
    leaf: NDArray[np.int64]
    next: NDArray[np.int32]
    known: NDArray[np.bool_]

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """int64[devices], row of each switch; -1 for others."""
        row = np.full(len(self.found.switch), -1)
        row[self.switch] = np.arange(len(self.switch))
        return row

    @cached_property
    def leafs(self) -> NDArray[np.int64]:
        """Rows of switches with hosts."""
        return np.unique(self.leaf)

    @cached_property
    def walks(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Paths from each leaf to each destination.

        Returns:
            int32[hops, leafs, destinations], directed cables (twice the cable, one more from its second end to its
            first), -1 behind the end; int64[leafs, destinations], the row of the switch that leads nowhere, or goes
            round; -1 where the destination is reached, or a switch comes whose table is not known.
        """
        ends = self.found.ends
        at = np.repeat(self.leafs[:, None], len(self.host), axis=1)
        stuck = np.full(at.shape, -1)
        under_way = np.ones(at.shape, np.bool_)
        column = np.broadcast_to(np.arange(len(self.host)), at.shape)
        path = []
        for _ in range(MOST_HOPS):
            cable = np.where(under_way, self.next[at, column], NO_ENTRY)
            lost = under_way & (cable < 0)
            here = self.switch[at]
            turned = (cable >= 0) & (ends[cable, 0] != here)
            path.append(np.where(cable >= 0, 2 * cable + turned, -1).astype(np.int32))
            far = np.where(turned, ends[cable, 0], ends[cable, 1])
            arrived = under_way & (cable >= 0) & (far == self.host[None, :])
            strayed = under_way & (cable >= 0) & ~arrived & (self.row[far] < 0)
            stuck = np.where((lost | strayed) & self.known[at], at, stuck)
            under_way &= ~(lost | strayed | arrived)
            at = np.where(under_way, self.row[far], at)
            if not under_way.any():
                break
        return np.array(path), np.where(under_way & self.known[at], at, stuck)

    @property
    def reached(self) -> NDArray[np.bool_]:
        """bool[leafs, destinations]."""
        return self.walks[1] < 0

    def loads(self, speed: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Shift permutations, as `Tables.load` counts them, over any number of tiers.

        Returns:
            float64[shifts], flows on the fullest cable; float64[shifts], the same of those that each leaf's ports use,
            in the mean of the ports; int64[shifts].
        """
        path, _ = self.walks
        shifts = shifts_of(len(self.host))
        capacity = np.ones(2 * len(self.found.ends))
        for cable, share in speed.items():
            capacity[2 * cable : 2 * cable + 2] = share
        capacity[2 * self.access], capacity[2 * self.access + 1] = np.inf, np.inf
        leaf = np.searchsorted(self.leafs, self.leaf)
        worst = np.array([self._load(path, leaf, int(shift), capacity) for shift in shifts]).reshape(-1, 2)
        return worst[:, 0], worst[:, 1], shifts

    def _load(
        self, path: NDArray[np.int32], leaf: NDArray[np.int64], shift: int, capacity: NDArray[np.float64]
    ) -> tuple[float, float]:
        source = np.arange(len(leaf))
        target = (source + shift) % len(source)
        cables = path[:, leaf[source], target]
        used = cables >= 0
        crowd = np.bincount(cables[used], minlength=len(capacity)) / capacity
        flow = np.where(used, crowd[cables], 0.0).max(axis=0)
        worst = np.ones(len(self.leafs))
        np.maximum.at(worst, leaf[source], flow)
        np.maximum.at(worst, leaf[target], flow)
        return float(worst.max()), float(worst[leaf].mean())

    def destinations(self) -> dict[int, NDArray[np.int64]]:
        """For each switch, the number of destinations on each of its cables to other switches."""
        out = {}
        between = np.zeros(len(self.found.ends), np.bool_)
        between[self.found.between] = True
        for row, device in enumerate(self.switch.tolist()):
            count = np.bincount(self.next[row][self.next[row] >= 0], minlength=len(self.found.ends))
            mine = np.flatnonzero((self.found.ends == device).any(axis=1) & between)
            out[device] = count[mine]
        return out


def _hosts(found: NetworkTable) -> dict[str, NDArray[Any]]:
    pairs = {
        host: (cable, leaf)
        for cable, (leaf, host) in zip(found.access.tolist(), found.access_ends.tolist(), strict=True)
    }
    order = by_name(found, list(pairs))
    switch = np.flatnonzero(found.switch)
    row = {device: at for at, device in enumerate(switch.tolist())}
    return {
        "switch": switch,
        "host": np.array(order, np.int64),
        "access": np.array([pairs[host][0] for host in order], np.int64),
        "leaf": np.array([row[pairs[host][1]] for host in order], np.int64),
    }


def dumped(found: NetworkTable, tables: Mapping[str, Mapping[str, int]]) -> ForwardingMatrix | None:
    """Tables as they were read; None where no switch of the network has one.

    Args:
        found: The network.
        tables: Of each switch by GUID: port by the destination's GUID.
    """
    addresses = found.addresses
    columns = _hosts(found)
    column = {host: at for at, host in enumerate(columns["host"].tolist())}
    place = {guid: column[device] for guid, (device, _) in addresses.items() if device in column}
    row = {device: at for at, device in enumerate(columns["switch"].tolist())}
    out = np.full((len(row), len(column)), NO_ENTRY, np.int32)
    known = np.zeros(len(row), np.bool_)
    for guid, table in tables.items():
        device = addresses.get(guid, (-1, ""))[0]
        if device not in row:
            continue
        known[row[device]] = True
        cable_of = {int(port): cable for port, cable in found.cables_of[device].items() if port.isdecimal()}
        mine = out[row[device]]
        for destination, port in table.items():
            if destination in place:
                mine[place[destination]] = cable_of.get(port, NO_CABLE if port < 255 else NO_ENTRY)
    return ForwardingMatrix(found=found, next=out, known=known, **columns) if known.any() else None


def min_hop(found: NetworkTable) -> ForwardingMatrix:
    """Tables as OpenSM's min-hop makes them.

    For one destination after another, each switch takes among its ports on shortest paths the one that fewest
    destinations use so far, and among equals the first.
    """
    columns = _hosts(found)
    switch, leaf = columns["switch"], columns["leaf"]
    row = np.full(len(found.switch), -1)
    row[switch] = np.arange(len(switch))
    cables, far = _ports(found, switch, row)
    used = np.where(cables >= 0, 0, np.int64(1) << 40)
    out = np.full((len(switch), len(columns["host"])), NO_ENTRY, np.int32)
    open_to: dict[int, NDArray[np.int64]] = {}
    rows = np.arange(len(switch))
    for destination, target in enumerate(leaf.tolist()):
        if target not in open_to:
            away = _away(target, far)
            nearer = (cables >= 0) & (away[far] == away[:, None] - 1)
            open_to[target] = np.where(nearer, 0, np.int64(1) << 40)
        cost = used + open_to[target]
        best = cost.argmin(axis=1)
        leads = cost[rows, best] < np.int64(1) << 40
        out[rows[leads], destination] = cables[rows[leads], best[leads]]
        used[rows[leads], best[leads]] += 1
        out[target, destination] = columns["access"][destination]
    return ForwardingMatrix(found=found, next=out, known=np.ones(len(switch), np.bool_), **columns)


def _ports(
    found: NetworkTable, switch: NDArray[np.int64], row: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """int64[switches, ports], cables to other switches in the order of the ports, and rows of the far ends, or -1."""
    mine = [
        sorted(
            (int(port) if port.isdecimal() else 0, port, cable, int(row[there]))
            for port, cable, there, _ in found.far_ends[device]
            if row[there] >= 0 and there != device
        )
        for device in switch.tolist()
    ]
    width = max(map(len, mine), default=0)
    cables, far = np.full((len(switch), width), -1), np.full((len(switch), width), -1)
    for at, listed in enumerate(mine):
        for place, (_, _, cable, there) in enumerate(listed):
            cables[at, place], far[at, place] = cable, there
    return cables, far


def _away(target: int, far: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[switches], hops to one of them; many where none leads there."""
    away = np.full(len(far), 1 << 20)
    away[target] = 0
    edge = np.array([target])
    hops = 0
    while len(edge):
        hops += 1
        reached = np.unique(far[edge])
        edge = reached[(reached >= 0) & (away[reached] > hops)]
        away[edge] = hops
    return away


UNEVEN = 1.1
"""Tables under which shift permutations take longer than this, against min-hop's on the same cables, are a fault."""


def symptoms(found: NetworkTable, reports: Reports) -> tuple[list[Symptom], dict[str, Any]]:
    """Destinations that are not reached, and tables that are worse than min-hop's would be; with figures."""
    matrix = dumped(found, reports.forwarding) if reports.forwarding else None
    if matrix is None:
        if reports.forwarding:
            reports.problems.append(Problem("no forwarding table belongs to a switch of this network"))
        return [], {}
    figures: dict[str, Any] = {
        "switches": int(matrix.known.sum()),
        "destinations": len(matrix.host),
        "pairs_reached": float(matrix.reached.mean()),
    }
    out = _unreached(matrix)
    unknown = len(matrix.known) - int(matrix.known.sum())
    if unknown:
        words = (
            f"{unknown} of {len(matrix.known)} switches have no forwarding table in the files: loads are not counted"
        )
        reports.problems.append(Problem(words))
    elif matrix.next.size <= MOST:
        speed = _speeds(found)
        best = min_hop(found)
        worst, groups, _ = matrix.loads(speed)
        predicted, least, _ = best.loads(speed)
        figures |= {
            "worst_shift_load": [float(worst.min(initial=1)), float(worst.max(initial=1))],
            "worst_shift_load_min_hop": [float(predicted.min(initial=1)), float(predicted.max(initial=1))],
            "destinations_a_port": _spread(matrix),
            "destinations_a_port_min_hop": _spread(best),
        }
        slower = float(groups.mean() / least.mean()) if len(groups) else 1.0
        figures["slower_than_min_hop"] = slower
        if slower > UNEVEN:
            out.append(_uneven(matrix, slower))
    return out, {"forwarding": figures}


def _speeds(found: NetworkTable) -> dict[int, float]:
    rate = found.rate_bps[found.between]
    usual = np.median(rate[rate > 0]) if (rate > 0).any() else 0
    slow = (rate > 0) & (rate < usual)
    return dict(zip(found.between[slow].tolist(), (rate[slow] / max(usual, 1)).tolist(), strict=True))


def _spread(matrix: ForwardingMatrix) -> list[int]:
    """Fewest and most destinations of a cable between switches, over the switches with hosts."""
    leafs = {int(matrix.switch[row]) for row in matrix.leafs}
    counts = [count for device, count in matrix.destinations().items() if device in leafs and len(count)]
    return [min(int(one.min()) for one in counts), max(int(one.max()) for one in counts)] if counts else []


def _unreached(matrix: ForwardingMatrix) -> list[Symptom]:
    """Unreached destinations by the switch that loses the packets, or at which a cycle begins."""
    stuck = matrix.walks[1]
    out = []
    for row in np.unique(stuck[stuck >= 0]).tolist():
        gone = np.flatnonzero((stuck == row).any(axis=0))
        kinds = matrix.next[row, gone]
        name = matrix.found.label[int(matrix.switch[row])]
        names = [matrix.found.label[int(matrix.host[one])] for one in gone[:2].tolist()]
        shown = ", ".join(names) + (" ..." if len(gone) > 2 else "")
        count = Counter(_why(int(kind)) for kind in kinds.tolist())
        words = f"{len(gone)} of {len(matrix.host)} destinations ({shown}): {', '.join(count)}"
        finding = AuditFinding("no-route", name, UNKNOWN, words, idle=float(len(gone)))
        out.append(Symptom(finding))
    return out


def _why(kind: int) -> str:
    if kind == NO_CABLE:
        return "its table points to a port without a cable"
    return "its table has no port for them" if kind < 0 else "its table has a routing loop, or leads to another host"


def _uneven(matrix: ForwardingMatrix, slower: float) -> Symptom:
    leafs = {int(matrix.switch[row]) for row in matrix.leafs}
    counts = {d: c for d, c in matrix.destinations().items() if d in leafs and len(c)}
    worst = max(counts, key=lambda one: (int(counts[one].max() - counts[one].min()), -one))
    name = matrix.found.label[worst]
    least, most = int(counts[worst].min()), int(counts[worst].max())
    words = (
        f"its uplinks carry {least} to {most} destinations; all shift permutations take {slower:.2f} times as"
        " long as with min-hop tables: let the subnet manager recompute routes"
    )
    return Symptom(AuditFinding("unbalanced", name, UNKNOWN, words, slower=slower))
