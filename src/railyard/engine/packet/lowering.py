"""The communications of a task graph as flows: how finely each is cut, who sends, when, how much."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.routes import subflow
from railyard.collective import machine_of
from railyard.collective.chunks import LONG_PS, RING_BYTES, RINGS, SLOTS, steps_in_flight, tree_chunk
from railyard.collective.connections import connection_keys, connections_opened, peers_at_once
from railyard.engine.packet.legs import (
    FROM_NETWORK,
    FROM_SWITCH,
    JOIN,
    OUT,
    TO_NETWORK,
    TO_SWITCH,
    UP,
    drawn_together,
    in_turn,
    legs_of,
    prepared,
)
from railyard.engine.packet.pacing import collective_classes, transfer_classes, up_rate_bps
from railyard.engine.packet.placing import typical_path_ps
from railyard.engine.packet.plan import Planner, TaskFlows, storage_flows
from railyard.engine.packet.plans import Grain, plan
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine.lowering import LoweredGraph
    from railyard.engine.packet.legs import PlanLegs
    from railyard.engine.packet.pacing import Class
    from railyard.engine.packet.placing import PlacedNetwork
    from railyard.engine.packet.plan import Slicing
    from railyard.graph import TaskGraph

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

CHAIN_CHUNK_BYTES = 128 * 1024
"""Chunk of a broadcast's chain; a twelfth of what a channel carries where that is less (NCCL 2.30)."""

WARP_BYTES = 2048
"""What a warp passes on at a time with LL128: 8 words of 8 bytes for each of 32 threads (NCCL 2.30)."""

SLICES = 8
"""Slices of what in-switch reduction works on at a time. Its 16 to 32 channels pass their chunks on one after another;
eight take at most 3 % longer than sixteen."""

WIRE_BYTES = 600_000
"""What keeps a wire busy for a round trip: 400 Gb/s for 12 us."""

MOST_PIECES = 128
"""Pieces that follow one another through a tree or chain at most; more would fill it a little faster."""

IN_PARALLEL = ("ring", "broadcast", "reduce")
"""Algorithms whose channels over the same edges are pipelines of their own; the others wait for all of them."""

LEAST_SENDS = 8
"""Sends over one edge of a ring into which a slice is cut at least, where the algorithm has as many steps."""

INSIDE = np.uint64(1 << 42)
"""Marks the connections inside scale-up domains, which are others than those through the NICs of the same ranks."""


class Lowering:
    """Lowers the communications of one graph, once for every slicing that is tried."""

    def __init__(
        self, graph: TaskGraph, cluster: Cluster, lowered: LoweredGraph, policy: CollectivePolicy, duration_ps: Ints
    ) -> None:
        self.graph = graph
        self.cluster = cluster
        self.lowered = lowered
        self.policy = policy
        self.duration_ps = duration_ps
        self.machine = machine_of(cluster, policy.measured)
        self.classes = [
            *collective_classes(graph, cluster, lowered, policy),
            *transfer_classes(graph, cluster, lowered, policy),
        ]
        _check_paths(cluster, self.classes, policy)

    def blocks(self, placed: PlacedNetwork, slicing: Slicing) -> list[TaskFlows]:
        """The flows of all communications that are sent as packets."""
        wanted = [one for one in self.classes if slicing.packets or one.shape.domains > 1]
        made = [self._block(one, placed, slicing) for one in wanted]
        return [*made, *storage_flows(self.graph, self.cluster, placed, slicing)]

    def _block(self, one: Class, placed: PlacedNetwork, slicing: Slicing) -> TaskFlows:
        grain = self._grain(one, slicing)
        legs = self._legs(one, grain)
        members = one.members[:1]
        moved = one.tempo.bytes_of(legs) / slicing.factor
        path_ps = self._path_ps(legs, members, slicing)[0]
        fixed_ps = one.tempo.fixed_ps(legs, path_ps, one.network_ps) / slicing.factor
        local = legs.kind == JOIN
        work = np.where(local, fixed_ps, 0.0)
        if not slicing.packets:
            inside = np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
            local |= inside
            moving_ps = self._inside_ps(one, legs, moved)
            passed_on_ps = moving_ps / grain.chunks
            passed_on_ps[legs.last] = moving_ps[legs.last]
            work[inside] = fixed_ps[inside] + passed_on_ps[inside]
            legs, work, number = in_turn(legs, local, moving_ps, work)
            legs, work, kept = drawn_together(legs, local[number], work)
            number = number[kept]
            moved, fixed_ps, local, path_ps = moved[number], fixed_ps[number], local[number], path_ps[number]
        delay = np.where(local, work, np.maximum(fixed_ps - path_ps, 0.0))
        legs, local, delay, number = prepared(legs, local, delay)
        moved, fixed_ps, path_ps = moved[number], fixed_ps[number], path_ps[number]
        excess = np.where(local, 0.0, np.maximum(path_ps - fixed_ps, 0.0))
        sending_ps = 8e12 * moved / self._nic_bps(one)
        source, target = self._hosts(legs, one, placed, local)
        return TaskFlows(
            tasks=one.tasks,
            rows=len(legs),
            source=source,
            target=target,
            size_bytes=np.tile(np.where(local, 0, np.maximum(np.rint(moved), 1)).astype(np.int64), len(one.tasks)),
            delay_ps=np.tile(np.rint(delay).astype(np.int64), len(one.tasks)),
            **self._connections(legs, one, (source, target), local),
            klass=0,
            nic_share=one.tempo.nic_share,
            **_csr(legs),
            last=legs.last,
            start_ps=one.tempo.count * (one.tempo.start_ps - self._filled_ps(one, slicing)) / slicing.factor,
            surplus_ps=self._surplus_ps(legs, sending_ps, delay + np.where(local, 0.0, path_ps), excess, local),
            label=one.label,
        )

    def _inside_ps(self, one: Class, legs: PlanLegs, moved: Floats) -> Floats:
        """float64[legs], what each occupies its rank's scale-up links for, 0 for legs through NICs.

        What goes on to a peer's NIC is on its way there while the NIC sends: only what scale-up is slower by counts.
        """
        inside = np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
        taken = np.zeros(len(legs))
        if not inside.any():
            return taken
        rate = up_rate_bps(self.cluster)
        taken[inside] = 8e12 * (moved * legs.lanes)[inside] / rate
        relayed = inside & (legs.steps == 0)
        if relayed.any():
            up, out = legs.kind == UP, legs.kind == OUT
            nic = self._ports(legs, one.members[:1])[0][0]
            on_nic_s = np.bincount(nic[out], moved[out]).max() / self._nic_bps(one)
            on_link_s = np.bincount(legs.source[up], moved[up]).max() / rate
            taken[relayed] *= max(0.0, 1 - on_nic_s / on_link_s)
        return taken

    def _line_bps(self) -> float:
        """What the links of a NIC's port carry together, bit/s."""
        network = self.cluster.back_end
        return float(self.cluster.links.rate_bps[network.port_links(int(network.port_of_rank[0, 0]))[0]].sum())

    def _nic_bps(self, one: Class) -> float:
        """What of it a class reaches."""
        return self._line_bps() * one.tempo.nic_share

    def _legs(self, one: Class, grain: Grain) -> PlanLegs:
        if one.algorithm == "transfer":
            planner = Planner()
            planner.sends(np.array([0]), np.array([1]), 1.0)
            sends = planner.build()
        else:
            sends = plan(one.algorithm, one.kind, one.shape, grain)
        each = 1 if self._parallel(one) else self._opened(one)
        return legs_of(self.cluster, sends, one.members[0], pxn=self.policy.pxn, opened=each)

    def _filled_ps(self, one: Class, slicing: Slicing) -> float:
        """What pieces that are replayed fill of a pipeline: the way of one among others, less the pace of the next.

        The first pieces meet idle NICs, the last ones NICs that all others share: the mean of both counts. At most the
        filling of the cost model, which is what stages that are not replayed take in addition.
        """
        if one.tempo.fill_ps == 0:
            return 0.0
        grain = self._grain(one, slicing)
        sends = plan(one.algorithm, one.kind, one.shape, replace(grain, pieces=1))
        legs = legs_of(self.cluster, sends, one.members[0], pxn=self.policy.pxn)
        moved = one.tempo.bytes_of(legs) / (one.tempo.count * grain.pieces)
        inside = np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
        moving_ps = self._inside_ps(one, legs, moved)
        moving_ps[legs.nics] = 8e12 * moved[legs.nics] / self._nic_bps(one)
        source, target = (ports[0] for ports in self._ports(legs, one.members[:1]))
        loads = [np.bincount(end[legs.nics], moving_ps[legs.nics], minlength=1) for end in (source, target)]
        shared_ps = np.maximum(loads[0][source[legs.nics]], loads[1][target[legs.nics]])
        moving_ps[legs.nics] = (moving_ps[legs.nics] + shared_ps) / 2
        loads.append(np.bincount(legs.source[inside], moving_ps[inside] / legs.lanes[inside], minlength=1))
        pace_ps = max(float(load.max()) for load in loads)
        moving_ps[inside] /= grain.chunks
        return min(max(_longest(legs, moving_ps) - pace_ps, 0.0), one.tempo.fill_ps)

    def _parallel(self, one: Class) -> bool:
        """Whether channels are pipelines of their own; over long paths they share the slots of one."""
        return one.algorithm in IN_PARALLEL and one.far_ps <= LONG_PS

    def _opened(self, one: Class) -> int:
        """Connections to a neighbour through each NIC, where they can take different paths."""
        network = self.cluster.back_end
        if not (network.fabric.hashed and network.fabric.tells_queue_pairs_apart):
            return 1
        return connections_opened(self.cluster, one.shape, one.algorithm, self.policy)

    def _peers(self, one: Class) -> int:
        return peers_at_once(self.machine, one.shape, self.cluster.back_end.port_of_rank.shape[1])

    def _connections(
        self, legs: PlanLegs, one: Class, hosts: tuple[Ints, Ints], local: NDArray[np.bool_]
    ) -> dict[str, Any]:
        """The columns `connection` and `path_key`; the keys are 0 where nothing is hashed and inside domains."""
        network = self.cluster.back_end
        source, target = (ports.astype(np.int32) for ports in self._ports(legs, one.members))
        # Legs to and from reducing switches end there, not at the NICs of the ranks next to them; their pieces do not
        # share a window, since a switch takes pieces of many senders at once.
        reducing = np.isin(legs.kind, (TO_NETWORK, FROM_NETWORK))
        channel = np.where(reducing, legs.channel + np.arange(len(legs)), legs.channel)
        leaves, enters = (
            np.where(local, port, host.reshape(port.shape)).astype(np.int32)
            for port, host in zip((source, target), hosts, strict=True)
        )
        identity = np.zeros(source.shape, np.uint64)
        keys = np.zeros(source.shape, np.uint32)
        for lane, through in np.unique(np.stack([legs.lane, legs.nics]), axis=1).T.tolist():
            rows = np.flatnonzero((legs.lane == lane) & (legs.nics == through))
            ends = source[:, rows].ravel(), target[:, rows].ravel()
            owner = np.repeat(one.communicators if through else one.communicators | INSIDE, len(rows))
            between = leaves[:, rows].ravel(), enters[:, rows].ravel()
            connection = connection_keys(owner, *between, np.tile(channel[rows], len(one.tasks)))
            identity[:, rows] = subflow(connection, lane).reshape(len(keys), -1)
            if network.fabric.hashed and through:
                keys[:, rows] = network.path_keys(*ends, connection, lane).reshape(len(keys), -1)
        return {"connection": identity.ravel(), "path_key": keys.ravel()}

    def _grain(self, one: Class, slicing: Slicing) -> Grain:
        """Ring steps are merged as much as the run is sliced, so that sends keep their size; pieces keep theirs too.

        A ring keeps a multiple of a domain's ranks as sends: a chain of them then crosses as many NICs for each step.
        """
        shape = one.shape
        along = shape.domains if one.algorithm == "hierarchical" else shape.ranks
        steps = (2 if one.kind == 0 else 1) * max(along - 1, 1)
        around = 1 if one.algorithm == "hierarchical" else shape.per_domain
        rounds = max(1.0, round(max(steps / slicing.factor, LEAST_SENDS) / slicing.coarser / around))
        merge = max(steps / (rounds * around), 1.0)
        if one.kind == CollectiveKind.ALL_TO_ALL:
            merge = slicing.coarser  # a peer's message may become short, but all peers are there
        size = one.tempo.size_bytes / one.tempo.count
        channels = self._opened(one) if self._parallel(one) else 1
        if one.algorithm in ("broadcast", "reduce"):
            each = size / (shape.per_domain * channels)
            chunk = min(CHAIN_CHUNK_BYTES if one.protocol == "simple" else WARP_BYTES, each / 12)
        elif one.loop_bytes:
            each, chunk = size / shape.per_domain, one.loop_bytes / shape.per_domain / SLICES
        else:
            each = size / (2 * shape.per_domain)
            chunk = float(tree_chunk(each, shape.domains, one.protocol))
        pieces = min(each / max(chunk, 1), MOST_PIECES, each / slicing.factor / slicing.packet_bytes)
        pieces = max(1, round(pieces / slicing.coarser))
        ringed = one.algorithm in ("ring", "hierarchical")
        ring_bytes = size * max(merge, 1) / (along * shape.per_domain * channels)
        sent = ring_bytes if ringed else each * one.tempo.out_factor / pieces
        if one.far_ps > LONG_PS:
            far = _over_distance(one, merge, pieces, each / (chunk * pieces), size / (along * shape.per_domain))
            return replace(far, inside=far.in_flight if slicing.packets else 1)
        in_flight = int(np.clip(np.ceil(WIRE_BYTES * slicing.factor / max(sent, 1)) + 1, 2, SLOTS))
        inside = in_flight if slicing.packets else 1
        chunks = 1.0 if ringed else max(1.0, each / (chunk * pieces))
        return Grain(max(1.0, merge), pieces, in_flight, inside, chunks, channels=channels, peers=self._peers(one))

    def _ranks(self, legs: PlanLegs, members: Ints) -> tuple[Ints, Ints]:
        """Sending and receiving ranks, int64[tasks, legs]."""
        per_server = self.cluster.ranks_per_server
        source, target = members[:, legs.source], members[:, legs.target]
        server = source - source % per_server
        source = np.where(legs.leave_by >= 0, server + members[:, legs.leave_by] % per_server, source)
        target = np.where(legs.arrive_at >= 0, server + members[:, legs.arrive_at] % per_server, target)
        return source, target

    def _ports(self, legs: PlanLegs, members: Ints) -> tuple[Ints, Ints]:
        """Ports by which legs leave and arrive; legs inside a server keep those of their ranks."""
        network = self.cluster.back_end
        source, target = self._ranks(legs, members)
        out, into = network.port_of_rank[source, legs.nic], network.port_of_rank[target, legs.nic]
        near, far = network.wiring.ends(out.ravel(), into.ravel())
        return (
            np.where(legs.nics, near.reshape(out.shape), out).astype(np.int64),
            np.where(legs.nics, far.reshape(into.shape), into).astype(np.int64),
        )

    def _path_ps(self, legs: PlanLegs, members: Ints, slicing: Slicing) -> Floats:
        """float64[tasks, legs], latency of the links that each leg's packets cross, with one packet on each of them."""
        cluster, network = self.cluster, self.cluster.back_end
        source, target = self._ports(legs, members)
        path = np.zeros(source.shape)
        nics = legs.nics
        if nics.any():
            pairs, inverse = np.unique(
                np.stack([source[:, nics].ravel(), target[:, nics].ravel()]), axis=1, return_inverse=True
            )
            near, far = pairs.astype(np.int32)
            ideal = network.fabric.load_balancing == "ideal"
            hops = np.ones(len(near)) if ideal else network.hops(near, far).astype(float)
            latency = np.full(len(near), typical_path_ps(cluster, network)) if ideal else network.crossed_ps(near, far)
            known = np.where(near != far, latency + hops * 8e12 * slicing.packet_bytes / self._line_bps(), 0.0)
            path[:, nics] = known[inverse.ravel()].reshape(len(path), -1)
        reducing = np.isin(legs.kind, (TO_NETWORK, FROM_NETWORK))
        if reducing.any():
            out, into = network.port_links(int(network.port_of_rank[0, 0]))
            path[:, reducing] = float(max(cluster.links.latency_ps[out[0]], cluster.links.latency_ps[into[0]]))
        if slicing.packets:
            path[:, np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))] = cluster.scale_up.latency_ps
        return path

    def _hosts(self, legs: PlanLegs, one: Class, placed: PlacedNetwork, local: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Hosts of all legs of all tasks, flat."""
        source, target = self._ranks(legs, one.members)
        out, into = self._ports(legs, one.members)
        home = self.cluster.back_end.port_of_rank.astype(np.int64)[source, 0]
        if placed.scale_up >= 0:
            inside = ~local & np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
            switch = placed.domain_switch + source // self.cluster.scale_up_domain
            out = np.where(inside, np.where(legs.kind == FROM_SWITCH, switch, placed.scale_up + source), out)
            into = np.where(inside, np.where(legs.kind == TO_SWITCH, switch, placed.scale_up + target), into)
        if placed.reducer.size:
            out = np.where(legs.kind == FROM_NETWORK, placed.reducer[out % len(placed.reducer)], out)
            into = np.where(legs.kind == TO_NETWORK, placed.reducer[into % len(placed.reducer)], into)
        return np.where(local, home, out).ravel(), np.where(local, home, into).ravel()

    def _surplus_ps(
        self, legs: PlanLegs, moving_ps: Floats, total_ps: Floats, excess_ps: Floats, local: NDArray[np.bool_]
    ) -> float:
        """How much longer a task alone takes because latencies of links could not be divided."""
        if not excess_ps.any():
            return 0.0
        busy = np.where(local, 0.0, moving_ps)
        sender = np.bincount(legs.source[~local], busy[~local], minlength=1)
        with_it = max(_longest(legs, total_ps + busy), float(sender.max(initial=0)) + float(excess_ps.max()))
        without = max(_longest(legs, total_ps + busy - excess_ps), float(sender.max(initial=0)))
        return max(with_it - without, 0.0)


def _longest(legs: PlanLegs, weight: Floats) -> float:
    """The longest way through the waits of legs, each with its weight."""
    after, before, _ = legs.edges
    inner = before >= 0
    after, before = after[inner], before[inner]
    total = weight.copy()
    for _ in range(len(weight)):
        ready = np.zeros(len(weight))
        np.maximum.at(ready, after, total[before])
        fresh = ready + weight
        if (fresh == total).all():
            break
        total = fresh
    return float(total.max(initial=0.0))


def _csr(legs: PlanLegs) -> dict[str, Any]:
    order = np.argsort(legs.edges.after, kind="stable")
    ptr = np.zeros(len(legs) + 1, np.int64)
    np.cumsum(np.bincount(legs.edges.after, minlength=len(legs)), out=ptr[1:])
    return {"ptr": ptr, "before": legs.edges.before[order], "at": legs.edges.at[order]}


def _over_distance(one: Class, merge: float, pieces: int, coarser: float, step_bytes: float) -> Grain:
    """Grain over long paths, where slots limit a connection: as many sends are on their way as the library has slots.

    Args:
        one: What is sent.
        merge: Steps of a ring in a send.
        pieces: Pieces of what goes through a tree.
        coarser: How many of the library's chunks are in one of them.
        step_bytes: A step of a ring on one channel.
    """
    slots = steps_in_flight(one.algorithm, one.protocol)
    if one.algorithm in RINGS:
        at_once = max(1, round(slots / max(1.0, merge)))
        return Grain(max(1.0, merge), 1, at_once, loops=int(np.ceil(step_bytes / RING_BYTES[one.protocol])))
    halves = SLICES if one.loop_bytes else 1  # what in-switch reduction works on at a time is sent in slices
    return Grain(max(1.0, merge), pieces, max(1, round(slots * halves / max(coarser, 1.0))))


def _check_paths(cluster: Cluster, classes: Sequence[Class], policy: CollectivePolicy) -> None:
    """Refuses communicators whose neighbours no path joins.

    Raises:
        InputError: Names two ranks.
    """
    network, ports = cluster.back_end, cluster.back_end.port_of_rank
    per_server, domain = cluster.ranks_per_server, cluster.scale_up_domain
    for one in classes:
        if one.shape.domains < 2:
            continue
        source = one.members.ravel()
        target = np.roll(one.members, -1, axis=1).ravel()
        peer = source - source % per_server + target % per_server
        via = np.where(policy.pxn & (peer // domain == source // domain), peer, source)
        away = source // domain != target // domain
        joined = network.reachable(ports[via, 0], ports[target, 0]) | ~away
        if not joined.all():
            bad = int(np.flatnonzero(~joined)[0])
            raise InputError(
                f"rank {source[bad]} cannot send to rank {target[bad]}: their NICs are on networks that nothing joins",
                hint="a rail-only network joins only NICs of the same rail: cross over by scale-up first (pxn)",
            )
