"""How long a collective takes alone: a floor, steps that follow one another, and a rate that its kernels cannot exceed.

    time = launch + base + steps x step latency (+ path of the network) + loops x synchronisation + fill + size / rate

The form is NCCL's cost model; where published logs show what that model leaves out, the cause is added:

- the steps of a ring inside its domains are paid again for every loop over its buffers (channels x ranks x 2 MiB);
  those through NICs are not: a proxy keeps 8 slots of 512 KiB a channel in flight, which at 400 Gb/s last 160 us;
- in-switch reduction is limited by what a rank's link carries, the data and its own part, and synchronises once a loop;
- a pipeline is filled before it delivers: a loop in each stage inside a domain, one more through the NICs, and in a
  tree a chunk for every rank on the way up and down.

Each constant below says on which published measurements it rests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import connections, constants, tuner
from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.chunks import (
    MANY_RANKS,
    channels_of,
    collnet_fill_us,
    head_chunk_us,
    heads_of,
    ll_channels,
    ll_shot_us,
    load_of,
    loop_bytes,
    passes_of,
    switch_sync_us,
    tree_fill_us,
)
from railyard.collective.tree import levels
from railyard.collective.tuner import ChannelPlan
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.algorithm import Algorithm, Steps
    from railyard.collective.machine import Case, CollectiveMachine


MIB = 1 << 20

WIRE = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}
"""Bytes on a link for one byte of data: LL sends a 4-byte flag with 4 bytes of data, LL128 one 8-byte flag in 128
bytes."""

SHARP_SHARE = 0.8
"""Share of a NIC's rate that reduction by the network's switches reaches under NCCL: about 20 of 25 GB/s (its
maintainer, NVIDIA/nccl issue 320). The switches themselves reach 0.95 under MPI (Graham et al., ISC 2020): what NICs
bound is up to 19 % faster where a plugin reaches that."""

BLOCKED = (1.0, 0.75, 0.6825, 0.6553, 0.6399, 0.6302, 0.6234, 0.6184)
"""Throughput of an input-queued switch of 1 to 8 outputs (Karol, Hluchyj and Morgan, IEEE Trans. Communications 35,
1987, table I)."""

BLOCKED_MANY = 2 - 2**0.5
"""The same of very many outputs."""

EXCHANGE_SHARE = 0.79
"""Share of their rate that NICs reach in an all-to-all among very many domains. From 32 MI355X on four servers, whose
50.6 GB/s AMD published; 128 and 192 GB200 on two and three racks agree within 2 %, see `exchange_share`."""

INSIDE_STAGES = 1.2
"""Loops that fill the stages of a pipeline of heads inside a domain (8 H100 and H200, 4 and 8 GB300)."""

CHAINS = (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)
"""Kinds that pass data from rank to rank once."""

SWITCH_PASS_US = 25.0
"""A pass through the scale-up switch's reduction (NCCL 2.30)."""


@dataclass(frozen=True)
class Timing:
    """A collective alone, without the path of its steps through the network, which depends on where its ranks sit.

    Attributes:
        latency_us: float64[k], everything that does not move with bandwidth.
        least_us: The part of it that no slow edge of a ring hides: the base, and one step through a NIC.
        network_steps: Steps to each of which the path through the network is added.
        rate_gbs: float64[k], bytes of the collective's size that its kernels can move in a second, in GB/s; inf for
            none.
    """

    latency_us: NDArray[np.float64]
    least_us: float
    network_steps: float
    rate_gbs: NDArray[np.float64]


def timing(case: Case, algorithm: Algorithm, protocol: str, size_bytes: NDArray[np.float64]) -> Timing:
    """Floor and rate of one algorithm and protocol at many sizes.

    Args:
        case: What is to be done where; at least 2 ranks.
        algorithm: How.
        protocol: "ll", "ll128" or "simple".
        size_bytes: float64[k], nccl-tests sizes of one invocation.
    """
    size = np.asarray(size_bytes, np.float64)
    if algorithm.floor_us is not None:
        floor = algorithm.floor_us(case)
        return Timing(np.full(size.shape, floor), floor, 0.0, np.full(size.shape, inf))
    steps = algorithm.steps(case.kind, case.shape)
    inside_us = _inside_us(case, algorithm, protocol, steps)
    rate = _rate_gbs(case, algorithm, protocol, size)
    base_us = _base_us(case.machine, algorithm, protocol)
    floor = base_us + inside_us + _outside_us(case, algorithm, protocol, steps)
    latency = floor + _stored_us(case, algorithm, size)
    if protocol == "simple" and not algorithm.written:
        latency += _pipeline_us(case, algorithm, size, rate, inside_us)
    elif case.kind in CHAINS and not algorithm.written:
        latency += _chain_fill_us(case, size, inf)
    if algorithm.family == "tree" and case.machine.library == "nccl":
        ll = protocol == "ll"
        latency += steps.scale_out * ll_shot_us(case, size) if ll else tree_fill_us(case, protocol, size)
    return Timing(latency, base_us + case.machine.software_us(protocol), steps.paths, rate)


@dataclass(frozen=True)
class TimingParts:
    """The same as `Timing` in parts, for engines that replay messages; us.

    Attributes:
        start_us: float64[k], before the first message and for everything that no message stands for, with `fill_us`.
        fill_us: float64[k], filling of the pipeline; messages that are replayed piece by piece fill some of it.
        hop_us: A message inside a domain.
        post_us: Each message that a rank posts before.
        pass_us: A pass through a reducing scale-up switch.
        software_us: A message through a NIC, without the path itself.
        reduce_us: A pass through the network's reducing switches, without the path itself.
        rate_gbs: float64[k], as in `Timing`, but for what makes NICs wait.
        nic_share: Share of their rate that NICs reach, as messages of all domains wait for one another.
    """

    start_us: NDArray[np.float64]
    fill_us: NDArray[np.float64]
    hop_us: float
    post_us: float
    pass_us: float
    software_us: float
    reduce_us: float
    rate_gbs: NDArray[np.float64]
    nic_share: float


def pace(case: Case, algorithm: Algorithm, protocol: str, size_bytes: NDArray[np.float64]) -> TimingParts:
    """Latencies of single messages whose sums along the algorithm's steps are those of `timing`; same arguments."""
    total = timing(case, algorithm, protocol, size_bytes)
    if algorithm.floor_us is not None:
        nothing = np.zeros(total.latency_us.shape)
        return TimingParts(total.latency_us, nothing, 0.0, 0.0, 0.0, 0.0, 0.0, total.rate_gbs, 1.0)
    steps = algorithm.steps(case.kind, case.shape)
    inside_us = _inside_us(case, algorithm, protocol, steps)
    factor = case.machine.latency_factor
    return TimingParts(
        start_us=total.latency_us
        - inside_us
        - _outside_us(case, algorithm, protocol, steps)
        - _stored_us(case, algorithm, np.asarray(size_bytes, np.float64)),
        fill_us=_fill_us(case, algorithm, protocol, size_bytes, total.rate_gbs),
        hop_us=factor * _hop_us(case.machine, algorithm, protocol),
        post_us=factor * _peer_us(case.machine),
        pass_us=factor * SWITCH_PASS_US,
        software_us=case.machine.software_us(protocol),
        reduce_us=reduce_us(algorithm),
        rate_gbs=_moved_gbs(case, algorithm, protocol, np.asarray(size_bytes, np.float64)),
        nic_share=exchange_share(case, algorithm),
    )


def _fill_us(
    case: Case, algorithm: Algorithm, protocol: str, size: NDArray[np.float64], rate: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The part of the latencies that fills pipelines, float64[k]; a tree's chunks are not what engines replay."""
    if case.kind in CHAINS and protocol != "simple":
        return _chain_fill_us(case, size, inf)
    if protocol == "simple" and (case.kind in CHAINS or algorithm.family in ("nvls", "collnet")):
        return _pipeline_us(case, algorithm, size, rate, 0.0)
    return np.zeros(size.shape)


def _stored_us(case: Case, algorithm: Algorithm, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the busiest link waits for data that is stored on its journey, float64[k]; engines that replay see it."""
    if algorithm.fill is None:
        return np.zeros(size.shape)
    waits: NDArray[np.float64] = 1e6 * algorithm.fill(case) * size
    return waits


def _base_us(machine: CollectiveMachine, algorithm: Algorithm, protocol: str) -> float:
    index = constants.PROTOCOLS.index(protocol)
    if machine.library == "rccl":
        return tuner.RCCL_BASE_US[index]
    if algorithm.family == "peer":
        return constants.BASE_US["ring"][constants.PROTOCOLS.index("simple")]  # one kernel for LL and Simple
    return constants.BASE_US.get(algorithm.family, (0.0, 0.0, 0.0))[index]


def _inside_us(case: Case, algorithm: Algorithm, protocol: str, steps: Steps) -> float:
    """The steps that go through no NIC."""
    machine = case.machine
    hop = _hop_us(machine, algorithm, protocol)
    inside = steps.scale_up * hop + steps.peers * _peer_us(machine) + steps.switch * SWITCH_PASS_US
    return machine.latency_factor * inside


def _outside_us(case: Case, algorithm: Algorithm, protocol: str, steps: Steps) -> float:
    """The steps through NICs, without the paths themselves."""
    return steps.scale_out * case.machine.software_us(protocol) + steps.reduction * reduce_us(algorithm)


def reduce_us(algorithm: Algorithm) -> float:
    """What a pass through the network's reducing switches takes without the path: NCCL's constant less its path; us.

    The constant is of NVIDIA's own clusters, and holds what switches take to add (no public figure).
    """
    if not algorithm.reduces_in_network:
        return 0.0
    return constants.NETWORK_US[algorithm.name][constants.PROTOCOLS.index("simple")] - constants.NETWORK_PATH_US


def _peer_us(machine: CollectiveMachine) -> float:
    return machine.measured.rccl_peer_us if machine.library == "rccl" else machine.measured.peer_us


def _hop_us(machine: CollectiveMachine, algorithm: Algorithm, protocol: str) -> float:
    """One step from accelerator to accelerator inside a domain: as measured, and what its links take longer."""
    if machine.library == "other":
        return machine.scale_up_latency_ps * 1e-6 * OTHERS_HOPS[protocol] / machine.latency_factor
    return max(_measured_hop_us(machine, algorithm, protocol) + machine.longer_us, 0.0)


OTHERS_HOPS = {"ll": 1.0, "ll128": 1.5, "simple": 3.0}
"""One-way latencies in a step of a library of which nothing was measured."""


def _measured_hop_us(machine: CollectiveMachine, algorithm: Algorithm, protocol: str) -> float:
    index = constants.PROTOCOLS.index(protocol)
    family = algorithm.family if algorithm.family == "tree" else "ring"
    if machine.library == "nccl":
        row = algorithm.name if algorithm.family == "collnet" else family
        generation = constants.generation_name(machine.architecture)
        chain = algorithm.route == "chain"
        plain = machine.pcie or (chain and protocol == "simple")
        factor = 1.0 if plain else machine.measured.hop_factor(generation, protocol)
        return factor * (constants.PCI_US if machine.pcie else constants.NVLINK_US)[row][index]
    return tuner.RCCL_LINK_US[family][index]


def exchange_share(case: Case, algorithm: Algorithm) -> float:
    """Share of their rate that NICs reach where every domain sends to all others at once.

    Sends of a group run side by side, 8 peers on each of up to 32 channels, in no order among domains: what waits for a
    receiver that is busy with a third domain keeps others from leaving. That is an input-queued switch with an output
    for each other domain, whose law is scaled to `EXCHANGE_SHARE` at very many domains. Packets that all begin
    together show none of it (97 % at 32 hosts), and channels copy several times what a NIC moves.
    """
    others = case.shape.domains - 1
    if algorithm.route != "exchange" or others < 2:
        return 1.0
    blocked = 1 - (BLOCKED[others - 1] if others <= len(BLOCKED) else BLOCKED_MANY)
    return 1 - (1 - EXCHANGE_SHARE) * blocked / (1 - BLOCKED_MANY)


def _rate_gbs(case: Case, algorithm: Algorithm, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rate of the kernels; links are counted elsewhere."""
    rate = _moved_gbs(case, algorithm, protocol, size)
    return rate if algorithm.phased else np.minimum(rate, exchanged_gbs(case, algorithm) / WIRE[protocol])


def exchanged_gbs(case: Case, algorithm: Algorithm) -> float:
    """What NICs move where every domain sends to all others, GB/s of the collective's size; inf for other routes."""
    if algorithm.route != "exchange" or case.shape.domains == 1:
        return inf
    port = load_of(algorithm.name, case.kind, case.shape).port
    out = exchange_share(case, algorithm) * case.machine.nic_bps / 8e9 * case.machine.payload_efficiency / port
    return out if algorithm.phased or algorithm.family != "peer" else 1 / (1 / out + _first_s(case))


def _first_s(case: Case) -> float:
    """Seconds for a GB of an all-to-all in which NICs wait: peers of the domain are the first of the schedule.

    Of more than a batch of them, as in racks: 128 GB200 take 95 ms for 8 GiB, 89 through their NICs and 6 inside.
    """
    shape = case.shape
    if shape.per_domain <= connections.BATCH:
        return 0.0
    return (shape.per_domain - 1) / shape.ranks / (case.machine.plan_bps / 8e9 * case.measured.peer_share)


def _moved_gbs(case: Case, algorithm: Algorithm, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same inside a domain."""
    egress = load_of(algorithm.name, case.kind, case.shape).scale_up
    if algorithm.family == "pat":
        port = load_of(algorithm.name, case.kind, case.shape).port
        return np.full(size.shape, constants.PAT_SHARE * case.machine.nic_bps / 8e9 / port)
    if egress == 0 and algorithm.family != "collnet":
        return np.full(size.shape, np.inf)
    if algorithm.family in ("nvls", "collnet"):
        return np.minimum(_inside_gbs(case, algorithm, size), _between_gbs(case, algorithm))
    if algorithm.family == "peer" and by_channels(case.machine, case.shape.domains):
        return _grouped_gbs(case, protocol, size) / egress
    if protocol == "simple" and algorithm.family != "tree":
        return np.full(size.shape, _simple_gbs(case, algorithm, egress))
    rate = np.full(size.shape, _protocol_gbs(case, algorithm, protocol) / egress)
    if algorithm.name == "ring" and protocol == "ll" and case.machine.library == "nccl":
        carried = ll_channels(case, size, parts=case.shape.ranks) * case.measured.channel_gbs / WIRE["ll"]
        rate = np.minimum(rate, carried / egress)
    return rate * _tree_factor(case, protocol, size) if algorithm.family == "tree" else rate


def _tree_factor(case: Case, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64] | float:
    """NCCL's factor on a tree's bandwidth; where the filling is counted, what is left at large sizes."""
    if case.machine.library == "nccl":
        return constants.TREE_CORRECTION[protocol][-1]
    return tuner.tree_correction(protocol, size)


def _grouped_gbs(case: Case, protocol: str, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Egress of a rank in grouped sends inside a switched domain; links beyond those measured get channels for them."""
    ranks, planned = case.shape.ranks, case.machine.plan_bps / 8e9
    copied = connections.copied_gbs(ranks, ranks - 1, size / ranks, protocol, case.measured)
    copied = copied * max(1.0, planned / connections.MEASURED_GBS)
    rate: NDArray[np.float64] = np.minimum(planned * case.measured.peer_share, copied)
    return rate


def by_channels(machine: CollectiveMachine, domains: int) -> bool:
    """Whether grouped sends are limited by the channels of `peers`: NCCL's, inside one switched domain."""
    return machine.library == "nccl" and machine.scale_up == "switched" and not machine.pcie and domains == 1


def kernel_gbs(case: Case) -> float:
    """What the kernels of Simple move out of a rank or into it over scale-up, GB/s; inf where the links bind alone."""
    return _simple_gbs(case, ALGORITHMS.get("ring"), 1.0)


def _simple_gbs(case: Case, algorithm: Algorithm, egress: float) -> float:
    """Simple moves what the links carry; grouped sends of many peers somewhat less."""
    machine, peer = case.machine, algorithm.family == "peer"
    plan = machine.plan_bps / 8e9
    if machine.scale_up == "switched":
        gather = case.kind == CollectiveKind.ALL_GATHER
        return plan * (case.measured.peer_share if peer or gather else 1.0) / egress
    if machine.scale_up == "mesh" and peer:
        return (
            plan
            * min(case.shape.per_domain - 1, machine.peers)
            / machine.peers
            * case.measured.mesh_peer_share
            / egress
        )
    return inf  # the links themselves are the limit


def _inside_gbs(case: Case, algorithm: Algorithm, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a pipeline around switches that add moves inside a domain, float64[k]; inf in domains of one rank.

    Every loop synchronises: in-switch reduction all ranks, direct sends each head with all members. Where NICs are
    slower, their part of the loop before covers it: so it lowers this rate and is no time of its own.
    """
    egress = load_of(algorithm.name, case.kind, case.shape).scale_up
    if not egress:
        return np.full(size.shape, inf)
    plain = case.machine.plan_bps / 8e9 * _reducing_share(case, algorithm) / egress
    if algorithm.name == "collnet-chain":
        return np.full(size.shape, plain)
    loop = loop_bytes(case, size, algorithm.name)
    if algorithm.family == "nvls":
        sync_us = switch_sync_us(case)
    else:
        sync_us = _inside_us(case, algorithm, "simple", algorithm.steps(case.kind, case.shape))
    slowed: NDArray[np.float64] = loop / (loop / plain + 1e3 * sync_us)
    return slowed


def _between_gbs(case: Case, algorithm: Algorithm) -> float:
    """What a pipeline moves between domains, GB/s of the collective's size; inf where links alone bound it.

    NVLS trees reach what NVIDIA measured of a channel of theirs; into switches that add NICs send at a share.
    """
    if algorithm.name == "nvls-tree":
        generation = constants.generation(case.machine.architecture, case.version)
        bus = heads_of(case, "nvls-tree") * generation.nvls_tree[min(case.shape.domains, 3) - 1]
        return bus * case.shape.ranks / (2 * (case.shape.ranks - 1)) or inf
    if not algorithm.reduces_in_network:
        return inf
    port = load_of(algorithm.name, case.kind, case.shape).port
    return case.machine.nic_bps / 8e9 * SHARP_SHARE / port


def _reducing_share(case: Case, algorithm: Algorithm) -> float:
    """Share of the planned scale-up rate that a kernel around switches that add reaches."""
    if algorithm.family == "nvls":
        return _switch_share(case)
    return constants.BOTH_WAYS_SHARE if algorithm.name == "collnet-chain" else case.measured.peer_share


def _switch_share(case: Case) -> float:
    """Racks lose in every pass: 128 and 192 GB200 reach 0.91 and 0.85 of what 64 in one rack do."""
    many = constants.MANY_RANKS_SHARE if case.shape.per_domain > MANY_RANKS else 1.0
    return float(case.measured.switch_share * many ** passes_of(case))


def _protocol_gbs(case: Case, algorithm: Algorithm, protocol: str) -> float:
    """Egress of a rank in GB/s to which a protocol's flags and a tree's channels limit it."""
    plan = case.machine.plan_bps / 8e9
    if case.machine.library != "nccl":
        return plan * {"ll": 0.4, "ll128": 0.85, "simple": 0.92}[protocol]
    channels = channels_of(case)
    smooth = ChannelPlan(channels, plan / channels, plan / channels)
    index = constants.PROTOCOLS.index(protocol)
    if algorithm.family == "tree":
        egress = load_of("tree", CollectiveKind.ALL_REDUCE, case.shape).scale_up
        return tuner.bus_gbs(case, "tree", index, smooth) / 2 * egress
    return tuner.bus_gbs(case, "ring", index, smooth)


def _pipeline_us(
    case: Case, algorithm: Algorithm, size: NDArray[np.float64], rate: NDArray[np.float64], inside_us: float
) -> NDArray[np.float64]:
    """What loops over the buffers of Simple and the filling of pipelines add, float64[k]."""
    if algorithm.family == "nvls" or algorithm.name == "collnet-direct":
        return _heads_pipeline_us(case, algorithm, size)
    if algorithm.family == "collnet":
        return collnet_fill_us(case, load_of(algorithm.name, case.kind, case.shape).scale_up, size, rate)
    if algorithm.family == "peer" and by_channels(case.machine, case.shape.domains):
        return connections.fill_us(case.shape.ranks, size / case.shape.ranks, "simple", case.measured)
    if algorithm.family != "ring" or algorithm.route == "exchange":
        return np.zeros(size.shape)
    channels = 2 * channels_of(case)  # the library doubles what its graph search finds
    if case.kind in CHAINS:
        return _chain_fill_us(case, size, case.machine.plan_bps)
    loop = channels * case.shape.ranks * 2 * MIB
    return np.maximum(size / loop - 1, 0) * inside_us


def _chain_fill_us(case: Case, size: NDArray[np.float64], inside_bps: float) -> NDArray[np.float64]:
    """Filling of a chain, float64[k]: a chunk of every channel at each rank, or with LL and LL128 at each NIC alone.

    Inside a domain LL and LL128 pass on what a warp has (`inside_bps` inf); the proxies of NICs send whole chunks.
    """
    channels = 2 * channels_of(case)
    chunk = np.minimum(case.measured.fill_bytes, size / (12 * channels))
    if np.isfinite(inside_bps):
        hops = (case.shape.ranks - 1) / (inside_bps / 8e6)
    else:
        hops = (case.shape.domains - 1) / (case.machine.nic_bps / 8e6 * case.shape.ports) if case.shape.ports else 0.0
    fill: NDArray[np.float64] = hops * chunk * channels
    return fill


def _heads_pipeline_us(case: Case, algorithm: Algorithm, size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Filling of a pipeline of heads: a loop in each stage before the first data comes out, float64[k].

    Inside a domain data is scattered, added and gathered; between domains one stage more passes a loop through the
    NICs. Channels send one after another, so that each further level of a tree only waits for a chunk of one.
    """
    inside = _inside_gbs(case, algorithm, size)
    loop = loop_bytes(case, size, algorithm.name)
    filled: NDArray[np.float64] = INSIDE_STAGES * loop / (1e3 * inside)
    if case.shape.domains > 1:
        nics = case.machine.nic_bps / 8e9 * case.shape.ports * (SHARP_SHARE if algorithm.reduces_in_network else 1.0)
        filled += loop / (1e3 * np.minimum(inside, nics))
    if algorithm.name == "nvls-tree":
        filled += 2 * (levels(case.shape.domains) - 1) * head_chunk_us(case, loop, algorithm.name)
    return filled


def one_after_another(inside: NDArray[np.float64], outside: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Rate over two phases of which the second begins when the first ends: the times of a byte add up.

    Args:
        inside: Rate of the phase inside domains; inf where there is none.
        outside: Rate of the phase between domains, in the same unit; inf where there is none.
    """
    with np.errstate(divide="ignore"):
        rate: NDArray[np.float64] = 1 / (1 / inside + 1 / np.asarray(outside, np.float64))
    return rate


def transfer_us(machine: CollectiveMachine, part: str) -> float:
    """Parts of the floor of one send and receive in us: "base", or a hop inside a domain by "ll" or "simple"."""
    if part == "base":
        return constants.BASE_US["ring"][constants.PROTOCOLS.index("simple")]
    return _hop_us(machine, ALGORITHMS.get("pairwise"), part) * machine.latency_factor
