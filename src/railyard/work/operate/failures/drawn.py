"""Faults drawn by a seed: a Poisson process of each mode, week by week, each week a function of its number."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault.recovery import Recovery as Retries
from railyard.work.operate.failures.fault import Effect, Fault
from railyard.work.operate.rules import DAY, PPM, SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.work.operate.failures.modes import Mode
    from railyard.work.operate.tree import NodeTree

_P90 = 1.2815515655446004
"""The standard normal distribution's 90th percentile."""
ABORT_S = Retries().abort_s
"""For so long NICs repeat what nobody acknowledges: 30 s with NCCL's defaults."""


class DrawnFaults:
    """Faults of modes on a cluster.

    Args:
        modes: What fails, and how often.
        tree: On what.
        timeout_s: Of collectives, for modes that only it shows.
        reroute_s: Until a fabric leads around a node's dead cable or switch; negative: it does not, for there is no
            second, and nodes are cut off.
        around_s: Until a fabric leads around a dead cable between switches.
        seed: Of every draw.
    """

    chunk_us = 7 * DAY
    random = True

    def __init__(
        self,
        modes: Sequence[Mode],
        tree: NodeTree,
        *,
        timeout_s: float = 600.0,
        reroute_s: float = -1.0,
        around_s: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.modes, self.tree, self.seed = tuple(modes), tree, seed
        self.timeout_s, self.reroute_s, self.around_s = timeout_s, reroute_s, around_s
        self._chunk = lru_cache(4)(self._drawn)

    def again(self, seed: int) -> DrawnFaults:
        """The same faults in another draw."""
        return DrawnFaults(
            self.modes,
            self.tree,
            timeout_s=self.timeout_s,
            reroute_s=self.reroute_s,
            around_s=self.around_s,
            seed=seed,
        )

    def chunk(self, number: int) -> tuple[Fault, ...]:
        """Faults of a week, in order."""
        return self._chunk(number)

    def _drawn(self, number: int) -> tuple[Fault, ...]:
        found: list[Fault] = []
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

    def _members(self, mode: Mode) -> Sequence[tuple[int, ...]]:
        """Nodes, or groups of the level that fails as one."""
        if not mode.domain or mode.domain not in self.tree.levels:
            return [] if mode.domain else [(node,) for node in range(self.tree.nodes)]
        level = self.tree.level(mode.domain)
        return [tuple(nodes.tolist()) for nodes in self.tree.members[level]]

    def _fault(self, index: int, mode: Mode, time: int, nodes: tuple[int, ...], normal: float) -> Fault:
        effect, detect_s, stall_s = self._effect(mode)
        return Fault(
            time,
            nodes,
            effect,
            index,
            round(detect_s * SECOND),
            round(repair_s(mode, normal) * SECOND),
            round(mode.slow * PPM),
            round(stall_s * SECOND),
        )

    def _effect(self, mode: Mode) -> tuple[Effect, float, float]:
        """What a mode does here, how soon that is seen, and how long jobs stand still.

        NICs try again for `ABORT_S`; what the network leads around by then is a pause, else connections break.
        """
        around_s = self.reroute_s if mode.rerouted else self.around_s
        if mode.effect != Effect.STALL and not (mode.rerouted and self.reroute_s >= 0):
            return mode.effect, self.timeout_s if mode.detect_s < 0 else mode.detect_s, 0.0
        if around_s <= ABORT_S:
            return Effect.STALL, 0.0, around_s
        return Effect.CRASH, ABORT_S, 0.0


def repair_s(mode: Mode, normal: float) -> float:
    """A log-normal repair time of a mode, from a standard normal number."""
    sigma = math.log(mode.repair_p90_s / mode.repair_s) / _P90 if mode.repair_p90_s > mode.repair_s else 0.0
    return mode.repair_s * math.exp(sigma * normal)


def interruptions_per_node_day(modes: Sequence[Mode], *, rerouted: bool = False) -> float:
    """Interruptions of a job by one of its nodes in a day; groups are left out, which are few."""
    return sum(
        mode.per_1000_node_days / 1000
        for mode in modes
        if not mode.domain and mode.effect in (Effect.OUT, Effect.CRASH, Effect.CORRUPT)
        if not (rerouted and mode.rerouted)
    )


def mttf_s(modes: Sequence[Mode], nodes: int, *, rerouted: bool = False) -> float:
    """Mean time to an interruption of a job on so many nodes."""
    rate = interruptions_per_node_day(modes, rerouted=rerouted) * nodes
    return math.inf if rate == 0 else 86_400 / rate
