"""Connections that a collective opens between NICs, and their hash keys in switches; both engines lower from here.

A channel of NCCL or RCCL is a ring or tree of its own with its own proxy, and every channel has a connection of its own
to each neighbour: `NCCL_IB_QPS_PER_CONNECTION` queue pairs over which it sends messages in turn, or a part of each
message (`NCCL_IB_SPLIT_DATA_ON_QPS`). Either way every queue pair carries the same bytes, and the slowest holds up the
channel. There are more channels than NICs: the graph search finds one for each NIC, `ncclTopoDupChannels` doubles few
or fast ones, `connectRings` doubles all of them, and Hopper and newer doubles once more where channels are fast and
fewer than 16. A tree's channels are divided between its two trees; those of NVLS trees are all at every NIC.

The upper layer sets no flow label (`flow_label = 0` in `net_ib`), so Linux derives the UDP source port from both queue
pairs' numbers (`rdma_calc_flow_label`, `rdma_flow_label_to_udp_sport`; mlx5 since Linux 5.8): 14 bits, the same in both
directions, different for every queue pair.

Sources: NVIDIA/nccl 5067397 (2.30: graph/search.cc, graph/connect.cc, graph/paths.cc, transport/nvls.cc,
transport/net_ib); ROCm/rccl 2024-10 (the same doubling); Linux include/rdma/ib_verbs.h and hw/mlx5/qp.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.routes import mix
from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.constants import generation_name
from railyard.collective.machine import machine_of
from railyard.collective.policy import MOST_CONNECTIONS
from railyard.collective.ring import orders
from railyard.collective.tuner import ring_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.constants import LogConstants
    from railyard.collective.machine import CollectiveMachine, Shape
    from railyard.collective.policy import CollectivePolicy


KIB, MIB = 1 << 10, 1 << 20

CHANNELS = 32
"""Channels of grouped sends, and the most that one peer gets on a domain of 12 links and more (twice the links, as a
power of two)."""

MEASURED_GBS = 721.8
"""Planned rate of the fastest links on which a channel's rate was measured (NVLink 5)."""

BATCH = 8
"""Peers that one batch of grouped sends serves on the same channels (`NCCL_MAX_DEV_WORK_P2P_PER_BATCH`)."""

LARGEST_PART_BYTES = 16 * MIB
"""Part of a channel above which a peer gets twice as many channels (32 steps of 512 KiB)."""

LL_BYTES = CHANNELS * 16 * KIB
"""Largest message that moves at the rate of LL, NCCL's 16 KiB on each of the channels of grouped sends: the time steps
down beyond it in all-to-alls of 4 and 8 and in a ring of sends."""

LL_PART_BYTES = 128 * KIB
"""The same for one channel, which bounds communicators so large that a peer has fewer than four."""


def least_channels(ranks: int) -> int:
    """Channels for each peer while messages are small."""
    return max(1, CHANNELS >> int(np.ceil(np.log2(max(ranks, 1)))))


def channels_of_peer(ranks: int, message_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Channels for each peer.

    Args:
        ranks: Of the communicator.
        message_bytes: float64[k], to one peer.
    """
    least = least_channels(ranks)
    beyond = np.maximum(message_bytes, 1) / (least * LARGEST_PART_BYTES)
    doubled = np.exp2(np.ceil(np.maximum(np.log2(beyond), 0)))
    channels: NDArray[np.float64] = np.minimum(least * doubled, CHANNELS)
    return channels


def ll_bytes(ranks: int) -> float:
    """Largest message to one peer that goes by LL."""
    return min(LL_BYTES, LL_PART_BYTES * least_channels(ranks))


def copied_gbs(
    ranks: int, peers: int, message_bytes: NDArray[np.float64], protocol: str, measured: LogConstants
) -> NDArray[np.float64]:
    """Rate at which the channels of one rank copy out in all, float64[k] in GB/s.

    Args:
        ranks: Of the communicator.
        peers: Ranks that it sends to at the same time.
        message_bytes: float64[k], to one peer.
        protocol: "ll" or "simple".
        measured: Rates of a channel.
    """
    each = measured.ll_channel_gbs if protocol == "ll" else measured.channel_gbs
    copied: NDArray[np.float64] = each * np.minimum(peers * channels_of_peer(ranks, message_bytes), CHANNELS)
    return copied


def fill_us(
    ranks: int, message_bytes: NDArray[np.float64], protocol: str, measured: LogConstants
) -> NDArray[np.float64]:
    """Time before the first receiver can copy out, float64[k]; LL needs no chunk to be whole."""
    if protocol == "ll":
        return np.zeros(message_bytes.shape)
    part = message_bytes / channels_of_peer(ranks, message_bytes)
    filled: NDArray[np.float64] = np.minimum(part, measured.fill_bytes) / (measured.channel_gbs * 1e3)
    return filled


PEER_CHANNEL_GBS = 14
"""What NCCL expects of a channel of grouped sends through a NIC (`NCCL_P2P_PER_CHANNEL_NET_BW`)."""

NVLS_CHANNELS = {"hopper": 16, "blackwell": 32}
"""Channels of in-switch reduction over several domains."""

GROUPED = np.uint64(1 << 40)
"""Marks the connections of grouped sends, which are others than those of rings and trees (`connIndex` 1 and 0)."""

PAIRED = np.uint64(1 << 41)
"""Marks the connections of sends outside a collective: one communicator for each pair of ranks."""


def library_channels(machine: CollectiveMachine, shape: Shape) -> int:
    """Channels of rings and trees together, once the library has doubled what its graph search found."""
    plan = ring_plan(machine, shape)
    channels, each_gbs = plan.channels, plan.inter
    modern = generation_name(machine.architecture) in NVLS_CHANNELS or machine.library == "rccl"
    if each_gbs >= 25 and not (modern and each_gbs < 50 and channels > 4):
        channels, each_gbs = 2 * channels, each_gbs / 2
    channels *= 2
    if modern and shape.domains > 1 and each_gbs > 45 and channels < 16:
        channels *= 2
    return min(channels, MOST_CONNECTIONS)


def peers_at_once(machine: CollectiveMachine, shape: Shape, nics: int) -> int:
    """Peers that a rank sends to at a time: as many batches as there are channels for."""
    channels = _power_of_two(library_channels(machine, shape))
    return BATCH * max(1, channels // peer_channels(machine, shape, nics))


def peer_channels(machine: CollectiveMachine, shape: Shape, nics: int) -> int:
    """Channels of grouped sends for each peer beyond the domain.

    What several ranks of a domain send to one peer through the peer's rail goes over the same connections, because a
    round of the schedule gives the peers of one domain the same channels.
    """
    wanted = max(nics, -(-int(nics * machine.nic_bps / 8e9) // PEER_CHANNEL_GBS))
    channels = _power_of_two(wanted)
    batches = -(-shape.ranks // BATCH)
    while channels > 1 and channels * batches > _power_of_two(library_channels(machine, shape)):
        channels //= 2
    return channels


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def connections_opened(cluster: Cluster, shape: Shape, algorithm: str, policy: CollectivePolicy) -> int:
    """Connections by which a rank is joined to a neighbour through each of its NICs; see `per_edge`."""
    if policy.connections is not None:
        return policy.connections
    return per_edge(machine_of(cluster, policy.measured), shape, algorithm, cluster.back_end.port_of_rank.shape[1])


def per_edge(machine: CollectiveMachine, shape: Shape, algorithm: str, nics: int) -> int:
    """Connections that the library opens.

    Algorithms that no library has open what a ring would.

    Args:
        machine: Whose library.
        shape: Of the communicator.
        algorithm: What runs; "transfer" for a send outside a collective.
        nics: Of a rank.
    """
    if algorithm == "transfer" or ALGORITHMS.get(algorithm).family == "peer":
        return max(1, peer_channels(machine, shape, nics) // nics)
    if algorithm == "nvls-tree":
        found = NVLS_CHANNELS.get(generation_name(machine.architecture), NVLS_CHANNELS["hopper"]) / 2
    else:
        found = library_channels(machine, shape) / len(orders(shape))
        found = found / 2 if algorithm == "tree" else found
    return max(1, round(found / nics))


def communicators_of(index: NDArray[np.integer], algorithm: str) -> NDArray[np.uint64]:
    """uint64[k], communicators as `connection_keys` takes them."""
    grouped = ALGORITHMS.get(algorithm).family == "peer"
    return index.astype(np.uint64) | (GROUPED if grouped else np.uint64(0))


def connection_keys(
    communicator: NDArray[np.uint64], source: NDArray[np.int32], target: NDArray[np.int32], channel: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Identity of each connection: its communicator (with `GROUPED` or `PAIRED`), its NIC ports, its channel."""
    ports = mix(source.astype(np.uint64) * np.uint64(0x1F123BB5) + target.astype(np.uint64))
    return mix(ports ^ mix(communicator.astype(np.uint64) * np.uint64(1024) + channel.astype(np.uint64)))


def pair_of_ranks(cluster: Cluster, source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.uint64]:
    """uint64[k], the communicator of sends outside a collective: one for two ranks, whichever of them sends."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    return (low * cluster.ranks + high).astype(np.uint64) | PAIRED


def port_pairs(source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.uint64]:
    """uint64[k], identity of the one connection between each two ports, as storage has it."""
    none = np.zeros(len(source), np.int64)
    return connection_keys(none.astype(np.uint64), source, target, none)
