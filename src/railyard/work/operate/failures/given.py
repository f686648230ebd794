"""The faults of a scenario in a run of many jobs: each comes at its time, and hits whatever runs there.

What dies takes its nodes away: a dead host or accelerator its own, a dead link those whose NICs have no other, and,
where a network splits, all nodes outside its largest part. Where a network leads around a death, jobs on the
nodes below stand still until it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, RankDeath, RankSpeed
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.kit.errors import InputError
from railyard.work.operate.failures.fault import Effect, Fault
from railyard.work.operate.failures.modes import SLOW_SEEN_S, Mode
from railyard.work.operate.rules import DAY, PPM, SECOND
from railyard.work.study.deaths import cut_off, dead_links, is_death, parted, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect as LinkEffect
    from railyard.cluster.fault import Fault as Given
    from railyard.cluster.fault import Spell
    from railyard.cluster.fault.recovery import Recovery
    from railyard.work.operate.failures.fault import Faults


class GivenFaults:
    """Faults that a scenario gives, and those that are drawn.

    Args:
        rows: Given, in any order.
        drawn: By failure rates; None: nothing else fails.
    """

    chunk_us = 7 * DAY

    def __init__(self, rows: Sequence[Fault], drawn: Faults | None) -> None:
        self.rows = tuple(sorted(rows, key=lambda one: (one.time_us, one.mode, one.nodes)))
        self.drawn = drawn

    @property
    def random(self) -> bool:
        """Whether another draw differs."""
        return self.drawn is not None and self.drawn.random

    def again(self, seed: int) -> GivenFaults:
        """The same with other draws of what is drawn."""
        return GivenFaults(self.rows, None if self.drawn is None else self.drawn.again(seed))

    def chunk(self, number: int) -> tuple[Fault, ...]:
        """Faults of a week, in order."""
        mine = tuple(one for one in self.rows if one.time_us // self.chunk_us == number)
        drawn = () if self.drawn is None else self.drawn.chunk(number)
        return tuple(sorted((*mine, *drawn), key=lambda one: (one.time_us, one.mode, one.nodes)))


def mode_of(fault: Given) -> Mode:
    """A fault as a way in which something fails, for the accounts; its rate is zero: it comes when it is given."""
    return Mode(words(fault), 0.0, Effect.OUT, 0.0, 0.0, 0.0, source="the scenario's faults")


def rows_of(fault: Given, mode: int, cluster: Cluster, recovery: Recovery) -> list[Fault]:
    """What a fault does to nodes, each time that it comes.

    Args:
        fault: As the scenario gives it.
        mode: Its number among the modes.
        cluster: The cluster.
        recovery: What follows a death.

    Raises:
        InputError: It names a place that is not there, or slows what no job of months is known to feel.
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
        "months of jobs know faults after which something is dead, and slow accelerators",
        key="kind",
        found=fault.kind,
        allowed="link-down, switch-down, nic-down, host-down, accelerator-down, slow-accelerator",
    )


def _rows(
    effects: Sequence[LinkRate | RankDeath | RankSpeed], spell: Spell, mode: int, cluster: Cluster, recovery: Recovery
) -> Iterator[Fault]:
    begin_us = spell.begin_ps // 1_000_000
    lasts_s = None if spell.end_ps is None else (spell.end_ps - spell.begin_ps) * 1e-12
    repair_us = _us(recovery.repair_s if lasts_s is None else lasts_s)
    slow = {one.rank // cluster.ranks_per_server: one.factor for one in effects if isinstance(one, RankSpeed)}
    for node, factor in slow.items():
        seen_us = _us(SLOW_SEEN_S if lasts_s is None else lasts_s)
        back_us = _us(recovery.repair_s) if lasts_s is None else 1
        yield Fault(begin_us, (node,), Effect.SLOW, mode, seen_us, back_us, round(factor * PPM))
    killed = _servers({rank for one in effects if isinstance(one, RankDeath) for rank in one.ranks}, cluster)
    if killed:
        yield Fault(begin_us, killed, Effect.OUT, mode, _us(recovery.process_s), repair_us)
    links = [one for one in effects if isinstance(one, LinkRate)]
    if not links:
        return
    dead = dead_links(links)
    off = tuple(sorted({*_servers(cut_off(dead, cluster), cluster), *parted(dead, cluster)} - {*killed}))
    if off and lasts_s is not None and lasts_s < recovery.abort_s:
        yield _stall(begin_us, off, mode, cluster.fabric.recovery_ps(round(lasts_s / 1e-12)))
    elif off:
        yield Fault(begin_us, off, Effect.OUT, mode, _us(recovery.abort_s), repair_us)
    elif not killed and (below := _below(dead, cluster)):
        yield _stall(begin_us, below, mode, cluster.fabric.recovery_ps())


def _stall(begin_us: int, nodes: tuple[int, ...], mode: int, stall_ps: int) -> Fault:
    return Fault(begin_us, nodes, Effect.STALL, mode, stall_us=stall_ps // 1_000_000)


def _us(seconds: float) -> int:
    return round(seconds * SECOND)


def _servers(ranks: set[int], cluster: Cluster) -> tuple[int, ...]:
    return tuple(sorted({rank // cluster.ranks_per_server for rank in ranks}))


def _below(dead: NDArray[np.int64], cluster: Cluster) -> tuple[int, ...]:
    """Servers with a NIC on a switch that loses a link, all of them where it has none; of dead NICs nobody else."""
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
