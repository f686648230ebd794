"""How long each leg waits before it sends, how many bytes it sends, and how long local work in its place takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import ALGORITHMS, Case, machine_of
from railyard.collective.lowering.routes import scale_up_efficiency
from railyard.collective.rank_load import load_of
from railyard.collective.timing import WIRE, pace, transfer_us
from railyard.engine.packet.legs import FROM_NETWORK, FROM_SWITCH, OUT, TO_NETWORK, TO_SWITCH, UP
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective import CollectivePolicy
    from railyard.engine.packet.legs import PlanLegs

    Floats = NDArray[np.float64]

PS_PER_US = 1e6


@dataclass(frozen=True)
class Tempo:
    """The same for all legs of one class of communications.

    Attributes:
        size_bytes: Of all invocations together.
        count: Invocations, each of which pays the latencies.
        start_ps: Before the first leg, one invocation.
        fill_ps: The part of it that fills pipelines, as far as pieces that are replayed do not.
        hop_ps: A step inside a domain.
        post_ps: Each message posted before.
        pass_ps: One way to or from a reducing scale-up switch.
        out_ps: A step through NICs without the links between them.
        reduce_ps: Half a pass through the network's reducing switches, without the path.
        up_factor: Bytes on scale-up links per byte of data: flags, and what makes them as slow as the kernels.
        out_factor: The same through NICs.
        nic_share: Share of their rate that NICs reach, as messages of all domains wait for one another.
    """

    size_bytes: float
    count: int
    start_ps: float
    fill_ps: float
    hop_ps: float
    post_ps: float
    pass_ps: float
    out_ps: float
    reduce_ps: float
    up_factor: float
    out_factor: float
    nic_share: float

    def bytes_of(self, legs: PlanLegs) -> Floats:
        """float64[legs], bytes that each leg moves."""
        inside = np.isin(legs.kind, (UP, TO_SWITCH, FROM_SWITCH))
        moved: Floats = legs.share * self.size_bytes * np.where(inside, self.up_factor, self.out_factor)
        return moved

    def fixed_ps(self, legs: PlanLegs, path_ps: Floats, network_ps: float) -> Floats:
        """float64[legs], latency of each leg with the links that it crosses.

        Args:
            legs: Legs.
            path_ps: float64[legs], latency of the links that its packets cross.
            network_ps: Mean path between domains: what a pass through the reducing switches of the network takes, whose
                tree stands for half of it each way.
        """
        out = legs.steps * (self.out_ps + path_ps)
        reduced = legs.steps * (self.reduce_ps + network_ps / 2)
        inside = legs.steps * np.maximum(self.hop_ps, path_ps)
        switch = legs.steps * np.maximum(self.pass_ps, path_ps)
        kinds = [legs.kind == OUT, np.isin(legs.kind, (TO_NETWORK, FROM_NETWORK)), legs.kind == UP]
        kinds.append(np.isin(legs.kind, (TO_SWITCH, FROM_SWITCH)))
        step = np.select(kinds, [out, reduced, np.where(legs.steps > 0, inside, path_ps), switch], 0.0)
        total: Floats = self.count * (step + legs.posted * self.post_ps)
        return total


def collective_tempo(
    cluster: Cluster, case: Case, how: tuple[str, str], size: tuple[int, int], policy: CollectivePolicy
) -> Tempo:
    """The tempo of a collective; `how` is algorithm and protocol, `size` bytes and invocations."""
    (name, protocol), (size_bytes, count) = how, size
    algorithm = ALGORITHMS.get(name)
    pace_of = pace(case, algorithm, protocol, np.array([size_bytes], np.float64))
    up, out = _factors(cluster, case, name, protocol, float(pace_of.rate_gbs[0]))
    return Tempo(
        size_bytes=float(size_bytes) * count,
        count=count,
        start_ps=float(pace_of.start_us[0]) * PS_PER_US + policy.launch_ps,
        fill_ps=float(pace_of.fill_us[0]) * PS_PER_US,
        hop_ps=pace_of.hop_us * PS_PER_US,
        post_ps=pace_of.post_us * PS_PER_US,
        pass_ps=pace_of.pass_us * PS_PER_US / _passes(case.kind),
        out_ps=pace_of.software_us * PS_PER_US + _ends_ps(cluster, policy),
        reduce_ps=(pace_of.reduce_us * PS_PER_US + _ends_ps(cluster, policy)) / 2,
        up_factor=up,
        out_factor=out,
        nic_share=pace_of.nic_share,
    )


def _passes(kind: CollectiveKind) -> int:
    """Ways to and from the reducing switch of a domain that follow one another in what the library counts as a pass."""
    return 4 if kind == CollectiveKind.ALL_REDUCE else 2


def _ends_ps(cluster: Cluster, policy: CollectivePolicy) -> float:
    return policy.network_overhead_ps + float(cluster.fabric.nic_latency_ps)


def transfer_tempo(cluster: Cluster, size_bytes: int, count: int, protocol: str, policy: CollectivePolicy) -> Tempo:
    """The tempo of a send and receive."""
    machine = machine_of(cluster, policy.measured)
    planned = machine.plan_bps * machine.measured.peer_share
    switched = cluster.scale_up.kind == "switched" and planned > 0
    return Tempo(
        size_bytes=float(size_bytes) * count,
        count=count,
        start_ps=transfer_us(machine, "base") * PS_PER_US + policy.launch_ps,
        fill_ps=0.0,
        hop_ps=transfer_us(machine, protocol) * PS_PER_US,
        post_ps=0.0,
        pass_ps=0.0,
        out_ps=machine.software_us(protocol) * PS_PER_US + _ends_ps(cluster, policy),
        reduce_ps=0.0,
        up_factor=max(WIRE[protocol], up_rate_bps(cluster) / planned) if switched else WIRE[protocol],
        out_factor=WIRE[protocol],
        nic_share=1.0,
    )


def _factors(cluster: Cluster, case: Case, name: str, protocol: str, rate_gbs: float) -> tuple[float, float]:
    """Bytes on scale-up links and through NICs per byte of data, so that the kernels' own rate is kept to."""
    wire = WIRE[protocol]
    if not np.isfinite(rate_gbs):
        return wire, wire
    wanted = 1 / (rate_gbs * 1e9)  # seconds a byte of the collective's size
    load = load_of(name, case.kind, case.shape)
    if ALGORITHMS.get(name).reduces_in_network:
        machine = case.machine
        taken = 8 * load.port * wire / (machine.nic_bps * machine.payload_efficiency)
        return wire, wire * max(1.0, wanted / taken) if taken > 0 else wire
    mesh = cluster.scale_up.kind == "mesh"
    rate = up_rate_bps(cluster)
    taken = 8 * (load.pair if mesh else load.scale_up) * wire / rate if rate > 0 else 0.0
    return (wire * max(1.0, wanted / taken) if taken > 0 else wire), wire


def up_rate_bps(cluster: Cluster) -> float:
    """What a rank's links into a switched domain carry, or one link of a mesh, bit/s of data; 0 without scale-up."""
    scale_up = cluster.scale_up
    if scale_up.kind == "none":
        return 0.0
    share = 1 / scale_up.peers if scale_up.kind == "mesh" else 1.0
    return scale_up.rate_bps * share * scale_up_efficiency(cluster)
