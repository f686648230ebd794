"""The faults that a scenario gives for a run of many jobs: each occurs at its time and hits the jobs running there.

Dead parts take nodes out of service: a dead host or accelerator its own node; a dead link the nodes whose NICs have no
other link; a split network all nodes outside its largest part. Where the network reroutes around a dead part, jobs on
the nodes below it stall until it has done so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.fault.recovery import Recovery
from railyard.kit.errors import InputError
from railyard.work.operate.failures.fault import SLOW_SEEN_S, Effect, FailureMode, NodeFault
from railyard.work.operate.rules import DAY, PPM, microseconds, sigma
from railyard.work.study.deaths import cut_off, dead_links, is_death, parted, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect as LinkEffect
    from railyard.cluster.fault import Fault as Given
    from railyard.cluster.fault import Spell
    from railyard.work.operate.failures.fault import FaultSource
    from railyard.work.operate.tree import NodeTree


@dataclass(eq=False)
class DrawnFaults:
    """Faults drawn from failure modes on a cluster.

    Attributes:
        modes: Failure modes with their rates.
        tree: The cluster.
        timeout_s: Timeout of collectives, for modes that only a timeout detects.
        reroute_s: Time until a fabric reroutes around a node's dead cable or switch; negative: there is no second path,
            and nodes are cut off.
        around_s: Time until a fabric reroutes around a dead cable between switches.
        retries: How long NICs retransmit without an acknowledgment: 30 s with NCCL's defaults.
        seed: Of every draw.
    """

    chunk_us = 7 * DAY
    random = True

    modes: Sequence[FailureMode]
    tree: NodeTree
    timeout_s: float = 600.0
    reroute_s: float = -1.0
    around_s: float = 0.0
    retries: Recovery = field(default_factory=Recovery)
    seed: int = 0

    def __post_init__(self) -> None:
        self._chunk = lru_cache(4)(self._drawn)

    def again(self, seed: int) -> DrawnFaults:
        """The same faults with another seed."""
        return replace(self, seed=seed)

    def chunk(self, number: int) -> tuple[NodeFault, ...]:
        """Faults of one week, in time order."""
        return self._chunk(number)

    def _drawn(self, number: int) -> tuple[NodeFault, ...]:
        found: list[NodeFault] = []
        for index, mode in enumerate(self.modes):
            random = np.random.Generator(np.random.Philox(key=[self.seed, number << 16 | index]))
            members = self._members(mode)
            expected = mode.per_1000_node_days / 1000 * len(members) * self.chunk_us / DAY
            count = int(random.poisson(expected))
            times = np.sort(random.integers(0, self.chunk_us, count)) + number * self.chunk_us
            who = random.integers(0, max(len(members), 1), count)
            spread = random.standard_normal(count)
            found += [
                self._fault(index, mode, int(time), members[one], float(normal))
                for time, one, normal in zip(times, who, spread, strict=True)
            ]
        return tuple(sorted(found, key=lambda fault: (fault.time_us, fault.mode, fault.nodes)))

    def _members(self, mode: FailureMode) -> Sequence[tuple[int, ...]]:
        """Single nodes, or the groups that fail as a unit."""
        if mode.groups:
            return mode.groups
        if not mode.domain or mode.domain not in self.tree.levels:
            return [] if mode.domain else [(node,) for node in range(self.tree.nodes)]
        level = self.tree.level(mode.domain)
        return [tuple(nodes.tolist()) for nodes in self.tree.members[level]]

    def _fault(self, index: int, mode: FailureMode, time: int, nodes: tuple[int, ...], normal: float) -> NodeFault:
        effect, detect_s, stall_s = self._effect(mode)
        return NodeFault(
            time,
            nodes,
            effect,
            index,
            microseconds(detect_s),
            microseconds(repair_s(mode, normal)),
            round(mode.slow * PPM),
            microseconds(stall_s),
        )

    def _effect(self, mode: FailureMode) -> tuple[Effect, float, float]:
        """Effect of a mode here, time to detection, and how long jobs stall.

        NICs retry for a time; if the network reroutes by then, jobs only pause, otherwise connections break.
        """
        if mode.effect == Effect.STALL and mode.stall_s >= 0:
            return mode.effect, 0.0, mode.stall_s
        around_s = self.reroute_s if mode.rerouted else self.around_s
        if mode.effect != Effect.STALL and not (mode.rerouted and self.reroute_s >= 0):
            return mode.effect, self.timeout_s if mode.detect_s < 0 else mode.detect_s, 0.0
        if around_s <= self.retries.abort_s:
            return Effect.STALL, 0.0, around_s
        return Effect.CRASH, self.retries.abort_s, 0.0


def repair_s(mode: FailureMode, normal: float) -> float:
    """A log-normal repair time of a mode, from a standard normal sample."""
    return mode.repair_s * math.exp(sigma(mode.repair_s, mode.repair_p90_s) * normal)


def mean_repair_s(mode: FailureMode) -> float:
    """Mean of the repair times of a mode."""
    return repair_s(mode, sigma(mode.repair_s, mode.repair_p90_s) / 2)


def is_out(mode: FailureMode) -> bool:
    """Whether a mode takes single nodes out for repair."""
    taking = (Effect.OUT, Effect.SLOW, Effect.CORRUPT, Effect.DRIFT)
    return not (mode.domain or mode.groups) and mode.effect in taking


def interruptions_per_node_day(modes: Sequence[FailureMode], *, rerouted: bool = False) -> float:
    """Interruptions of a job per node-day. Group failures are left out because they are rare."""
    return sum(
        mode.per_1000_node_days / 1000
        for mode in modes
        if not (mode.domain or mode.groups) and mode.effect in (Effect.OUT, Effect.CRASH, Effect.CORRUPT, Effect.DRIFT)
        if not (rerouted and mode.rerouted)
    )


def mttf_s(modes: Sequence[FailureMode], nodes: int, *, rerouted: bool = False) -> float:
    """Mean time to interruption of a job on this many nodes."""
    rate = interruptions_per_node_day(modes, rerouted=rerouted) * nodes
    return math.inf if rate == 0 else 86_400 / rate


class GivenFaults:
    """Faults that a scenario gives, together with drawn ones.

    Args:
        rows: The given faults, in any order.
        drawn: Faults drawn from failure rates; None: nothing else fails.
    """

    chunk_us = 7 * DAY

    def __init__(self, rows: Sequence[NodeFault], drawn: FaultSource | None) -> None:
        self.rows = tuple(sorted(rows, key=lambda one: (one.time_us, one.mode, one.nodes)))
        self.drawn = drawn

    @property
    def random(self) -> bool:
        """Whether another seed gives other faults."""
        return self.drawn is not None and self.drawn.random

    def again(self, seed: int) -> GivenFaults:
        """The same given faults, with the drawn ones from another seed."""
        return GivenFaults(self.rows, None if self.drawn is None else self.drawn.again(seed))

    def chunk(self, number: int) -> tuple[NodeFault, ...]:
        """Faults of one week, in time order."""
        mine = tuple(one for one in self.rows if one.time_us // self.chunk_us == number)
        drawn = () if self.drawn is None else self.drawn.chunk(number)
        return tuple(sorted((*mine, *drawn), key=lambda one: (one.time_us, one.mode, one.nodes)))


def mode_of(fault: Given) -> FailureMode:
    """A given fault as a failure mode for accounting. Its rate is zero because it occurs only when given."""
    return FailureMode(words(fault), 0.0, Effect.OUT, 0.0, 0.0, 0.0, source="the scenario's faults")


def rows_of(fault: Given, mode: int, cluster: Cluster, recovery: Recovery) -> list[NodeFault]:
    """The node faults that a given fault causes, one for each time it occurs.

    Raises:
        InputError: It names an unknown place, or slows a part whose effect on long jobs is not modeled.
    """
    effects = [_known(fault, effect) for effect in fault.effects(ClusterPlaces.of(cluster))]
    spells = dict.fromkeys(effect.spell for effect in effects)
    return [
        row
        for spell in spells
        for row in _rows([one for one in effects if one.spell == spell], spell, mode, cluster, recovery)
    ]


def _known(fault: Given, effect: LinkEffect) -> LinkRate | RankDeath | RankSpeed:
    if isinstance(effect, RankSpeed | RankDeath) or (isinstance(effect, LinkRate) and is_death(effect)):
        return effect
    raise InputError(
        "`operate` supports faults that kill a part, and slow accelerators",
        key="kind",
        found=fault.kind,
        allowed="link-down, switch-down, nic-down, host-down, accelerator-down, slow-accelerator",
    )


def _rows(
    effects: Sequence[LinkRate | RankDeath | RankSpeed], spell: Spell, mode: int, cluster: Cluster, recovery: Recovery
) -> Iterator[NodeFault]:
    begin_us = spell.begin_ps // 1_000_000
    lasts_s = None if spell.end_ps is None else (spell.end_ps - spell.begin_ps) * 1e-12
    repair_us = microseconds(recovery.repair_s if lasts_s is None else lasts_s)
    slow = {one.rank // cluster.ranks_per_server: one.factor for one in effects if isinstance(one, RankSpeed)}
    for node, factor in slow.items():
        seen_us = microseconds(SLOW_SEEN_S if lasts_s is None else lasts_s)
        back_us = microseconds(recovery.repair_s) if lasts_s is None else 1
        yield NodeFault(begin_us, (node,), Effect.SLOW, mode, seen_us, back_us, round(factor * PPM))
    killed = _servers({rank for one in effects if isinstance(one, RankDeath) for rank in one.ranks}, cluster)
    if killed:
        yield NodeFault(begin_us, killed, Effect.OUT, mode, microseconds(recovery.process_s), repair_us)
    links = [one for one in effects if isinstance(one, LinkRate)]
    if not links:
        return
    dead = dead_links(links)
    off = tuple(sorted({*_servers(cut_off(dead, cluster), cluster), *parted(dead, cluster)} - {*killed}))
    if off and lasts_s is not None and lasts_s < recovery.abort_s:
        yield _stall(begin_us, off, mode, cluster.fabric.recovery_ps(round(lasts_s / 1e-12)))
    elif off:
        yield NodeFault(begin_us, off, Effect.OUT, mode, microseconds(recovery.abort_s), repair_us)
    elif not killed and (below := _below(dead, cluster)):
        yield _stall(begin_us, below, mode, cluster.fabric.recovery_ps())


def _stall(begin_us: int, nodes: tuple[int, ...], mode: int, stall_ps: int) -> NodeFault:
    return NodeFault(begin_us, nodes, Effect.STALL, mode, stall_us=stall_ps // 1_000_000)


def _servers(ranks: set[int], cluster: Cluster) -> tuple[int, ...]:
    return tuple(sorted({rank // cluster.ranks_per_server for rank in ranks}))


def _below(dead: NDArray[np.int64], cluster: Cluster) -> tuple[int, ...]:
    """Servers with a NIC on a switch that loses a link, or all servers if none has; for dead NICs, their own."""
    wiring = cluster.back_end.wiring
    own = dead - cluster.back_end.link_offset
    own = own[(own >= 0) & (own < wiring.links)]
    between = own[(wiring.source[own] >= wiring.ports) & (wiring.target[own] >= wiring.ports)]
    if not len(between):
        return ()
    access = wiring.source < wiring.ports
    near = access & np.isin(wiring.target, wiring.source[between])
    ports = set(wiring.source[near].tolist())
    ranks = {rank for rank, mine in enumerate(cluster.back_end.port_of_rank.tolist()) if ports.intersection(mine)}
    return _servers(ranks, cluster) if ranks else tuple(range(cluster.servers))
