"""Collectives of many communicators onto links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster import CsrWeighted
from railyard.collective.algorithm import ALGORITHMS, NETWORK
from railyard.collective.choice import DEFAULT_POLICY, NOTHING, choose_many
from railyard.collective.chunks import window_s
from railyard.collective.connections import communicators_of, connections_opened
from railyard.collective.lowering import routes
from railyard.collective.lowering.paths import (
    CommunicatorClass,
    DomainPaths,
    edge_seconds,
    equal_sets,
    groups,
    left_over,
)
from railyard.collective.lowering.routes import Legs, LinkLoads
from railyard.collective.lowering.table import EntityTable, even_bps, gather, solo_bps, table
from railyard.collective.machine import Case, machine_of
from railyard.collective.timing import WIRE, exchanged_gbs, one_after_another, timing
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.algorithm import Algorithm, Pattern
    from railyard.collective.lowering.paths import CommunicatorClass
    from railyard.collective.policy import CollectivePolicy
    from railyard.graph import Communicators


@dataclass(frozen=True)
class LinkUsage:
    """Loads of c communicators without a protocol's flags.

    Attributes:
        links: Rows of the communicators.
        fair_weight: float64[c].
        edge_s: float64[c], see `edge_seconds`; 0 for algorithms whose edges make no cycle.
    """

    links: CsrWeighted
    fair_weight: NDArray[np.float64]
    edge_s: NDArray[np.float64]


def usage(
    cluster: Cluster,
    group: CommunicatorClass,
    name: str,
    kind: CollectiveKind,
    policy: CollectivePolicy,
) -> LinkUsage:
    """Lowers algorithm `name` for every communicator of a group."""
    algorithm = ALGORITHMS.get(name)
    if policy.pxn and group.shape.aligned and cluster.scale_up.kind != "none":
        pattern = algorithm.relayed_pattern(kind, group.shape, _rails(cluster, group))
    else:
        pattern = algorithm.pattern(kind, group.shape)
    each = connections_opened(cluster, group.shape, name, policy)
    batch = max(1, routes.BATCH // max(len(pattern), 1))
    parts = [
        _batch(cluster, group.part(slice(begin, begin + batch)), pattern, each, policy, algorithm)
        for begin in range(0, len(group.members), batch)
    ]
    return LinkUsage(
        links=stacked([part.links for part in parts]),
        fair_weight=np.concatenate([part.fair_weight for part in parts]),
        edge_s=np.concatenate([part.edge_s for part in parts]),
    )


def _rails(cluster: Cluster, group: CommunicatorClass) -> NDArray[np.int64]:
    """int64[positions]: the rail of each position; the same for every communicator of an aligned group."""
    rails: NDArray[np.int64] = routes.rail_of_local(cluster)[group.members[0] % cluster.ranks_per_server]
    return rails


def _batch(  # noqa: PLR0917 - one communicator class, its edges, and how they are to be lowered
    cluster: Cluster,
    group: CommunicatorClass,
    pattern: Pattern,
    each: int,
    policy: CollectivePolicy,
    algorithm: Algorithm,
) -> LinkUsage:
    members, count = group.members, len(group.members)
    out = pattern.scale_out(group.shape)
    ranks = (pattern.source >= 0) & (pattern.target >= 0)
    trees = algorithm.name in ("tree", "nvls-tree")
    connections = each * pattern.merged if trees else np.full(len(pattern), each)
    up_legs = _legs(members, pattern, connections, ranks & ~out)
    out_legs = _legs(members, pattern, connections, ranks & out)
    communicator = communicators_of(group.index, algorithm.name)
    parts: list[LinkLoads] = []
    if policy.pxn and len(out_legs):
        to_peers, out_legs = routes.through_peers(cluster, out_legs)
        up_legs = Legs.joined([up_legs, to_peers])
    if len(up_legs):
        parts.append(routes.scale_up_load(cluster, up_legs, policy.measured))
    if len(out_legs):
        parts += routes.scale_out_load(cluster, out_legs, communicator)
    parts += _switch_parts(cluster, members, pattern)
    links = LinkLoads.summed(count, parts)
    cycle = algorithm.route == "ring" and len(out_legs) > 0
    return LinkUsage(
        links=links,
        fair_weight=_fair_weight(cluster, count, up_legs, out_legs, pattern),
        edge_s=edge_seconds(links, parts, cluster.links.rate_bps) if cycle else np.zeros(count),
    )


def _legs(
    members: NDArray[np.int64], pattern: Pattern, connections: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Legs:
    """Edges of the pattern for every communicator, communicator by communicator."""
    source, target, share = pattern.source[chosen], pattern.target[chosen], pattern.share[chosen]
    count = len(members)
    return Legs(
        np.repeat(np.arange(count), len(share)),
        members[:, source].ravel(),
        members[:, target].ravel(),
        np.tile(share, count),
        np.tile(connections[chosen], count),
    )


def _switch_parts(cluster: Cluster, members: NDArray[np.int64], pattern: Pattern) -> list[LinkLoads]:
    """Edges with a reducing switch at one end."""
    parts = []
    for near, far, out in ((pattern.source, pattern.target, True), (pattern.target, pattern.source, False)):
        for network in (False, True):
            chosen = (far < 0) & (near >= 0) & ((far == NETWORK) == network)
            if not chosen.any():
                continue
            rank = members[:, near[chosen]].ravel()
            entity = np.repeat(np.arange(len(members)), int(chosen.sum()))
            share = np.tile(pattern.share[chosen], len(members))
            load = routes.network_load if network else routes.switch_load
            parts.append(load(cluster, entity, rank, share, out=out))
    return parts


def _fair_weight(cluster: Cluster, count: int, up_legs: Legs, out_legs: Legs, pattern: Pattern) -> NDArray[np.float64]:
    """Queue pairs over the bytes they carry; where nothing leaves a domain, connections over the bytes they carry."""
    if len(out_legs):
        pairs = cluster.back_end.port_of_rank.shape[1] * cluster.fabric.qps
        flows = np.bincount(out_legs.entity, weights=out_legs.connections, minlength=count) * pairs
        carried = np.bincount(out_legs.entity, weights=out_legs.share, minlength=count)
        return np.asarray(flows / carried, np.float64)
    if len(up_legs):
        flows = np.bincount(up_legs.entity, minlength=count)
        carried = np.bincount(up_legs.entity, weights=up_legs.share, minlength=count)
        return np.asarray(flows / np.maximum(carried, 1e-300), np.float64)
    switch = (pattern.source < 0) | (pattern.target < 0)
    weight = switch.sum() / pattern.share[switch].sum() if switch.any() else 1.0
    return np.full(count, float(weight))


def stacked(parts: list[CsrWeighted]) -> CsrWeighted:
    """Rows of several usage tables, one after another."""
    if len(parts) == 1:
        return parts[0]
    shift = np.cumsum([0] + [part.ptr[-1] for part in parts])
    ptr = np.concatenate([[0], *(part.ptr[1:] + offset for part, offset in zip(parts, shift[:-1], strict=True))])
    return CsrWeighted(
        ptr.astype(np.int64),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.share for part in parts]),
    )


@dataclass(frozen=True)
class Requests:
    """Collectives to lower.

    Attributes:
        comm: int32[r], communicator.
        kind: uint8[r], a `CollectiveKind`.
        size_bytes: int64[r], nccl-tests size of one invocation.
        count: int32[r], invocations back to back.
    """

    comm: NDArray[np.int32]
    kind: NDArray[np.uint8]
    size_bytes: NDArray[np.int64]
    count: NDArray[np.int32]


RequestColumns = tuple["NDArray[np.int32]", "NDArray[np.uint8]", "NDArray[np.int64]", "NDArray[np.int32]"]


def lower_collectives(
    cluster: Cluster,
    communicators: Communicators,
    requests: RequestColumns,
    *,
    policy: CollectivePolicy = DEFAULT_POLICY,
) -> EntityTable:
    """Chooses algorithms and works out which links each request loads.

    Args:
        cluster: Where they run.
        communicators: Who takes part.
        requests: Columns of what runs: communicator, kind, size, count; see `Requests`.
        policy: Overrides of the choice.

    Returns:
        One row a request, in their order.

    Raises:
        InputError: A request names no communicator or kind, an override cannot run, or two ranks have no path.
    """
    wanted = _columns(requests, len(communicators))
    used = np.unique(wanted.comm.astype(np.int64))
    run = _Lowering(cluster, communicators, wanted, policy)
    for group in groups(cluster, communicators, used):
        run.lower(group)
    return run.table()


def _columns(columns: RequestColumns, communicators: int) -> Requests:
    """The columns as arrays, checked."""
    requests = Requests(*map(np.asarray, columns))
    limits: dict[str, tuple[NDArray[Any], int, int]] = {
        "comm": (requests.comm, 0, communicators - 1),
        "kind": (requests.kind, 0, len(CollectiveKind) - 1),
        "size_bytes": (requests.size_bytes, 0, np.iinfo(np.int64).max),
        "count": (requests.count, 1, np.iinfo(np.int32).max),
    }
    lengths = {len(column) for column, _, _ in limits.values()}
    if len(lengths) > 1:
        raise InputError("the columns of the requests differ in length", key="requests", found=sorted(lengths))
    for name, (column, low, high) in limits.items():
        wrong = (column < low) | (column > high)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"`{name}` is out of range", key=f"requests[{place}]", found=column[place], allowed=f"{low} to {high}"
            )
    return requests


class _Lowering:
    """The columns of a table while group after group of communicators fills them."""

    def __init__(
        self, cluster: Cluster, communicators: Communicators, wanted: Requests, policy: CollectivePolicy
    ) -> None:
        size = len(wanted.comm)
        self.cluster = cluster
        self.machine = machine_of(cluster, policy.measured)
        self.communicators = communicators
        self.wanted = wanted
        self.policy = policy
        self.latency_ps = np.zeros(size, np.int64)
        self.least_ps = np.zeros(size, np.int64)  # the part of it that no slow edge of a ring hides
        self.rate_cap_bps = np.full(size, np.inf)
        self.fair_weight = np.ones(size)
        self.algorithm = np.full(size, NOTHING[0], "U32")
        self.protocol = np.full(size, NOTHING[1], "U8")
        self.row = np.zeros(size, np.int64)  # into a first row that has no links
        self.factor = np.ones(size)
        self.edge_s = np.zeros(size)
        self.outside = np.zeros(size)  # share of a ring's edges that go through NICs
        self.exchanged_bps = np.full(size, np.inf)  # what NICs move in the phase between domains
        self.parts = [CsrWeighted(np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0))]

    def lower(self, group: CommunicatorClass) -> None:
        """Fills the rows of all requests of a group."""
        if group.shape.ranks < 2:
            return
        wanted = self.wanted
        paths = DomainPaths.of(self.cluster, group)
        machine = replace(
            self.machine, path_latency_ps=int(paths.mixed_ps.mean()), next_latency_ps=int(paths.next_ps.mean())
        )
        place = np.full(len(self.communicators), -1, np.int64)
        place[group.index] = np.arange(len(group.index))
        mine = np.flatnonzero(place[wanted.comm] >= 0)
        classes, number = np.unique(self.communicators.group, return_inverse=True)
        class_of = number[wanted.comm[mine]]
        for value in np.unique(wanted.kind[mine]):
            kind = CollectiveKind(int(value))
            of_kind = wanted.kind[mine] == value
            for index in np.unique(class_of[of_kind]):
                case = Case(machine, group.shape, kind, self.policy.version_number)
                self._choose(case, str(classes[index]), mine[of_kind & (class_of == index)])
            for name in np.unique(self.algorithm[mine[of_kind]]):
                chosen = mine[of_kind & (self.algorithm[mine] == name)]
                self._load(group, kind, str(name), chosen, place[wanted.comm[chosen]])
                case = Case(machine, group.shape, kind, self.policy.version_number)
                self._cross(case, str(name), chosen, (paths, place[wanted.comm[chosen]]))
        for column in (self.latency_ps, self.least_ps):
            column[mine] = (column[mine] + self.policy.launch_ps) * wanted.count[mine]

    def _choose(self, case: Case, name: str, chosen: NDArray[np.int64]) -> None:
        """Algorithm, protocol, floor and rate of requests that differ only in size and communicator."""
        sizes, inverse = np.unique(self.wanted.size_bytes[chosen], return_inverse=True)
        picked = inverse.ravel()
        size = sizes.astype(np.float64)
        choices = choose_many(case.kind, size, case.shape, case.machine, self.policy, group=name)
        for index in np.unique(choices.index):
            algorithm, protocol = choices.candidates[int(index)]
            time = timing(case, ALGORITHMS.get(algorithm), protocol, size)
            at = choices.index[picked] == index
            rows = chosen[at]
            self.algorithm[rows] = algorithm
            self.protocol[rows] = protocol
            self.factor[rows] = WIRE[protocol]
            self.latency_ps[rows] = np.rint(time.latency_us[picked[at]] * 1e6).astype(np.int64)
            self.least_ps[rows] = round(time.least_us * 1e6)
            self.rate_cap_bps[rows] = time.rate_gbs[picked[at]] * 8e9
            self.exchanged_bps[rows] = exchanged_gbs(case, ALGORITHMS.get(algorithm)) * 8e9 / WIRE[protocol]

    def _cross(
        self, case: Case, name: str, chosen: NDArray[np.int64], found: tuple[DomainPaths, NDArray[np.int64]]
    ) -> None:
        """Adds the paths through the network, and caps rates at what slots of the library's buffers let across them.

        Args:
            case: What is done where.
            name: Algorithm.
            chosen: int64[k], requests.
            found: The paths of the communicators of that shape, and which of them each request has.
        """
        paths, of_comm = found
        algorithm = ALGORITHMS.get(name)
        every = algorithm.steps(case.kind, case.shape)
        steps = every.paths
        path_ps = paths.latency_ps(algorithm.route, steps)[of_comm]
        self.latency_ps[chosen] += np.rint(path_ps + steps * self.policy.network_overhead_ps).astype(np.int64)
        self.least_ps[chosen] += paths.far_ps[of_comm] + self.policy.network_overhead_ps
        size = self.wanted.size_bytes[chosen].astype(np.float64)
        far_s = 1e-12 * paths.far_ps[of_comm]
        for protocol in np.unique(self.protocol[chosen]):
            at = self.protocol[chosen] == protocol
            least_s = np.maximum(window_s(case, name, str(protocol), size[at], far_s[at]) - 1e-12 * path_ps[at], 0.0)
            bound = np.divide(8 * size[at], least_s, out=np.full(len(least_s), np.inf), where=least_s > 0)
            self.rate_cap_bps[chosen[at]] = np.minimum(self.rate_cap_bps[chosen[at]], bound)

    def _load(
        self,
        group: CommunicatorClass,
        kind: CollectiveKind,
        name: str,
        chosen: NDArray[np.int64],
        place: NDArray[np.int64],
    ) -> None:
        """Links of requests of one kind and algorithm; a communicator is lowered once, however many its requests."""
        needed, inverse = np.unique(place, return_inverse=True)
        at = inverse.ravel()
        use = usage(self.cluster, group.part(needed), name, kind, self.policy)
        self.row[chosen] = sum(len(item) for item in self.parts) + at
        self.parts.append(use.links)
        self.fair_weight[chosen] = use.fair_weight[at] / self.factor[chosen]
        self.edge_s[chosen] = use.edge_s[at] * self.factor[chosen]
        self.outside[chosen] = group.shape.domains / group.shape.ranks

    def table(self) -> EntityTable:
        """The finished table."""
        idle = self.algorithm == NOTHING[0]
        links = gather(stacked(self.parts), self.row, self.factor)
        even_cap_bps = self._add_phases(links)
        latency_ps, even_latency_ps = self._left_over(links)
        return table(
            links,
            self.cluster,
            volume_bytes=np.where(idle, 0.0, self.wanted.size_bytes.astype(np.float64) * self.wanted.count),
            latency_ps=latency_ps,
            even_latency_ps=even_latency_ps,
            rate_cap_bps=self.rate_cap_bps,
            fair_weight=self.fair_weight,
            algorithm=self.algorithm,
            protocol=self.protocol,
            even_cap_bps=even_cap_bps,
        )

    def _add_phases(self, links: CsrWeighted) -> NDArray[np.float64]:
        """Caps algorithms whose phases follow one another at what both phases take together, each by itself alone.

        Returns:
            The caps if flows were spread evenly.
        """
        even_cap_bps = self.rate_cap_bps.copy()
        phased = [name for name, algorithm in ALGORITHMS.items() if algorithm.phased]
        rows = np.flatnonzero(np.isin(self.algorithm, phased))
        if len(rows) == 0:
            return even_cap_bps
        slot = gather(links, rows, np.ones(len(rows)))
        every = self.cluster.links
        inside = every.tier == every.tiers.index("scale-up")
        scale_up = solo_bps(slot, self.rate_cap_bps[rows], np.where(inside, every.rate_bps, np.inf))
        exchanged_bps, outside_bps = self.exchanged_bps[rows], np.where(inside, np.inf, every.rate_bps)
        network = solo_bps(slot, exchanged_bps, outside_bps)
        sets = equal_sets(self.cluster)
        spread = network if sets is None else even_bps(slot, exchanged_bps, outside_bps, sets)
        self.rate_cap_bps[rows] = one_after_another(scale_up, network)
        even_cap_bps[rows] = one_after_another(scale_up, spread)
        return even_cap_bps

    def _left_over(self, links: CsrWeighted) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Latencies that the slowest edge of a ring does not hide, with flows hashed and spread; others unchanged."""
        latency_ps, even_ps = self.latency_ps.copy(), self.latency_ps.copy()
        rows = np.flatnonzero(self.edge_s > 0)
        if len(rows) == 0:
            return latency_ps, even_ps
        every, cap = self.cluster.links, self.rate_cap_bps[rows]
        rings = gather(links, rows, np.ones(len(rows)))
        bits = 8e12 * self.wanted.size_bytes[rows].astype(np.float64) * self.wanted.count[rows]
        slowest = bits / solo_bps(rings, cap, every.rate_bps)
        # Of the edges that no fault slows: these make up the mean, whatever one slow link does to its own edge.
        near = bits / solo_bps(rings, cap, np.where(self._ends(), every.healthy_bps, np.inf))
        sets = equal_sets(self.cluster)
        even = slowest if sets is None else bits / even_bps(rings, cap, every.rate_bps, sets)
        outside = self.outside[rows]
        mean = (1 - outside) * near + outside * np.maximum(bits / 8 * self.edge_s[rows], near)
        least, latency = (column[rows].astype(np.float64) for column in (self.least_ps, self.latency_ps))
        latency_ps[rows] = np.rint(left_over(latency, least, mean, slowest))
        mean = (1 - outside) * near + outside * np.maximum(even, near)
        even_ps[rows] = np.rint(left_over(latency, least, mean, even))
        return latency_ps, even_ps

    def _ends(self) -> NDArray[np.bool_]:
        """bool[links]: links of ranks: scale-up, and those of NICs."""
        every, network = self.cluster.links, self.cluster.back_end
        first = int(every.tier[network.link_offset])
        ends = [first + at for at, tier in enumerate(network.tiers) if tier.kind == "access"]
        inside = [at for at, name in enumerate(every.tiers) if name == "scale-up"]
        return np.isin(every.tier, [*ends, *inside])
