"""The choice of algorithm and protocol that NCCL and RCCL would make, rewritten from their published cost models.

What NCCL may run a collective as, and to what its channels and flags limit rings and trees (2.30.7).

NCCL chooses by an estimate of its own, which published logs contradict by up to a half in the middle of their curves
(`docs/validation/collectives.md`). Railyard takes, of what NCCL would consider, what is fastest by its own times.

What RCCL may run a collective as, with AMD's latencies (develop branch, 2026-08).

Restated from ROCm RCCL (BSD-3): base latency and latencies of xGMI; triples are LL, LL128, Simple. Its tables fix a
protocol by ranges of sizes between servers; Railyard takes the fastest, which lies near their ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import constants as c
from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.constants import GENERATIONS, INTER_SPEEDS, INTRA_SPEEDS, generation_name, speeds
from railyard.collective.policy import MOST_CONNECTIONS
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.collective.machine import Case, CollectiveMachine, Shape


RCCL_BASE_US = (12.0, 12.0, 17.0)
RCCL_LINK_US = {"tree": (0.9, 0.9, 2.3), "ring": (0.8, 0.8, 2.1)}


def rccl_offers(algorithm: str, case: Case) -> bool:
    """Whether RCCL considers an algorithm; it makes no choice for an all-to-all."""
    if case.kind == CollectiveKind.ALL_TO_ALL:
        return False
    return algorithm == "ring" or (algorithm == "tree" and case.kind == CollectiveKind.ALL_REDUCE)


MAX_CHANNELS = 32
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class ChannelPlan:
    """Channels of a graph.

    Attributes:
        intra: GB/s of one channel inside a domain.
        inter: GB/s of one channel across domains.
    """

    channels: int
    intra: float
    inter: float

    @property
    def total(self) -> float:
        """GB/s of all channels over their slower part."""
        return self.channels * min(self.intra, self.inter)


def ring_plan(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    """Rings and trees."""
    if shape.domains == 1:
        return _one_domain(machine)
    return _several_domains(machine, shape)


def _one_domain(machine: CollectiveMachine) -> ChannelPlan:
    total = machine.plan_bps / 8e9
    generation = generation_name(machine.architecture)
    usual = GENERATIONS[generation].ring_speed
    best = (0.0, 0.0, 1, total)
    for speed in speeds(INTRA_SPEEDS, generation):
        channels = int(total * _ROUNDING / speed)
        if 1 <= channels <= MAX_CHANNELS:
            best = max(best, (channels * speed, -abs(speed - usual), channels, speed))
    beyond = total / MAX_CHANNELS
    if best[0] < 0.5 * total:  # faster or slower than any speed in the table
        return ChannelPlan(MAX_CHANNELS, beyond, beyond)
    return ChannelPlan(best[2], best[3], best[3])


def _several_domains(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    nic = machine.nic_bps / 8e9
    total = machine.plan_bps / 8e9 if shape.per_domain > 1 else float("inf")
    best = (0.0, 0, 0.0)
    for speed in speeds(INTER_SPEEDS, generation_name(machine.architecture)):
        if speed > nic * _ROUNDING:
            continue
        channels = min(shape.ports, MAX_CHANNELS, int(min(total * _ROUNDING / speed, MAX_CHANNELS)))
        best = max(best, (channels * speed, channels, speed))
    if best[0] < 0.5 * min(nic * shape.ports, total):
        each = min(nic, total / shape.ports)
        return ChannelPlan(shape.ports, each, each)
    return ChannelPlan(best[1], best[2], best[2])


def switch_plan(machine: CollectiveMachine, shape: Shape) -> ChannelPlan:
    """In-switch reduction: every rank of a domain is the head of one channel."""
    heads = shape.per_domain
    each = machine.plan_bps / 8e9 / heads
    generation = generation_name(machine.architecture)
    table = speeds(INTRA_SPEEDS if shape.domains == 1 else INTER_SPEEDS, generation)
    intra = max((speed for speed in table if speed <= each * _ROUNDING), default=each)
    if shape.domains == 1:
        return ChannelPlan(heads, intra, intra)
    nic = machine.nic_bps / 8e9 * shape.ports / heads
    inter = max((speed for speed in table if speed <= nic * _ROUNDING), default=nic)
    return ChannelPlan(heads, intra, inter)


ANY = -1
LARGEST = 1 << 62
"""Bytes: of sizes that have no end."""

HEAD = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered"
_FUNCTIONS = {"all-reduce": "allreduce", "all-gather": "allgather", "reduce-scatter": "reducescatter"}
_ALGORITHMS = {
    "ring": "ring",
    "tree": "tree",
    "pat": "pat",
    "nvls": "nvls",
    "nvls-tree": "nvls_tree",
    "collnet-direct": "collnet_direct",
    "collnet-chain": "collnet_chain",
}
_PROTOCOLS = {"ll": "ll", "ll128": "ll128", "simple": "simple"}
"""Words of the tables of NCCL's example tuner; in the environment they are without underscores."""


@dataclass(frozen=True)
class FixedChoices:
    """Fixed choices of collectives.

    Attributes:
        algorithm, protocol: By kind (`all-reduce`), by group or by both, as scenarios write them.
        connections: Channels to a neighbour through each NIC; None: the library's.
        pxn: Whether transfers to another rail go through the peer that owns that rail's NIC.
        nics: Of a server, in the back-end.
    """

    algorithm: Mapping[str, str] = field(default_factory=dict)
    protocol: Mapping[str, str] = field(default_factory=dict)
    connections: int | None = None
    pxn: bool = True
    nics: int = 1

    @property
    def channels(self) -> int:
        """Channels of a communicator, capped at NCCL's limit; `ANY` where the number of connections is not set."""
        return ANY if self.connections is None else min(self.connections * max(self.nics, 1), MOST_CONNECTIONS)

    def variables(self) -> list[tuple[str, str]]:
        """Names and values for NCCL 2.24 or newer."""
        found = []
        if self.connections is not None:
            found += [("NCCL_MIN_NCHANNELS", str(self.channels)), ("NCCL_MAX_NCHANNELS", str(self.channels))]
        if not self.pxn:
            found.append(("NCCL_PXN_DISABLE", "1"))
        for name, values, known in (
            ("NCCL_ALGO", self.algorithm, _ALGORITHMS),
            ("NCCL_PROTO", self.protocol, _PROTOCOLS),
        ):
            words = ";".join(f"{kind}:{word.replace('_', '')}" for kind, word in _by_function(values, known).items())
            found += [(name, words)] if words else []
        return found

    def untold(self) -> list[tuple[str, str, str]]:
        """Table, key and word of what NCCL has no words for: choices of one group alone, algorithms of others."""
        return [
            (table, key, word)
            for table, values, known in (
                ("algorithm", self.algorithm, _ALGORITHMS),
                ("protocol", self.protocol, _PROTOCOLS),
            )
            for key, word in values.items()
            if key not in _FUNCTIONS or word not in known
        ]

    def tuner_rows(self, nodes: int = ANY, ranks: int = ANY) -> list[str]:
        """One a collective whose algorithm and protocol are both fixed: a row can leave neither to NCCL.

        Args:
            nodes: Of the communicators that it is for.
            ranks: Of these.
        """
        algorithms, protocols = _by_function(self.algorithm, _ALGORITHMS), _by_function(self.protocol, _PROTOCOLS)
        return [
            f"{kind},0,{LARGEST},{algorithms[kind]},{protocols[kind]},{self.channels},{nodes},{ranks},{ANY},{ANY}"
            for kind in sorted(algorithms.keys() & protocols.keys())
        ]


def tuner_table(rows: list[str]) -> str:
    """The file of the example tuner."""
    return "\n".join([HEAD, *rows]) + "\n"


def _by_function(values: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Choices by NCCL's names; without those of a single group and what NCCL does not have."""
    return {_FUNCTIONS[kind]: known[word] for kind, word in values.items() if kind in _FUNCTIONS and word in known}


_SERVES = {
    CollectiveKind.ALL_REDUCE: ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-sharp", "nvls-tree"),
    CollectiveKind.ALL_GATHER: ("ring", "pat", "nvls"),
    CollectiveKind.REDUCE_SCATTER: ("ring", "pat", "nvls"),
    CollectiveKind.BROADCAST: ("ring",),
    CollectiveKind.REDUCE: ("ring",),
}


NCCL_SINCE: Mapping[str, tuple[int, int]] = {"pat": (2, 23)}
"""Versions of NCCL with which algorithms came, of those that the oldest known one does not have."""


def nccl_offers(algorithm: str, case: Case) -> bool:
    """Whether NCCL considers an algorithm at all; it makes no choice for an all-to-all."""
    if algorithm not in _SERVES.get(case.kind, ()):
        return False
    shape = case.shape
    if case.version < NCCL_SINCE.get(algorithm, case.version):
        return False
    if algorithm == "pat":
        return shape.domains > 1 and shape.per_domain == 1
    if algorithm in ("tree", "ring"):
        # Inside one domain a tree is a chain: as many steps as a ring, a higher base and a lower rate by NCCL's model.
        return algorithm == "ring" or shape.domains > 1
    record = ALGORITHMS.get(algorithm)
    return record.refusal(case.kind, shape, case.machine) is None and (
        record.family == "collnet" or case.machine.scale_up == "switched"
    )


def tree_correction(protocol: str, size_bytes: NDArray[np.float64]) -> NDArray[np.float64]:
    """NCCL's measured factor on the bandwidth of a tree all-reduce, float64[k]; between powers of two interpolated."""
    table = np.asarray(c.TREE_CORRECTION[protocol], np.float64)
    return np.interp(np.log2(np.maximum(size_bytes, 64) / 64), np.arange(len(table)), table)


def bus_gbs(case: Case, algorithm: str, protocol: int, plan: ChannelPlan) -> float:
    """NCCL's bus bandwidth of a ring or tree in GB/s.

    Args:
        case: What is to be done where.
        algorithm: "ring" or "tree".
        protocol: 0 LL, 1 LL128, 2 Simple.
        plan: Channels and their speeds.
    """
    domains, channels = case.shape.domains, plan.channels
    generation = c.generation(case.machine.architecture, case.version)
    row = min(domains, 3) - 1
    bus = channels * (plan.intra if domains <= 2 else plan.inter)
    if algorithm == "ring":
        caps = (min(generation.ll_max[row], 0.5 * bus), min(0.92 * bus, channels * generation.ring_ll128[row]), bus)
        return caps[protocol]
    caps = (
        min(bus / 3.8, generation.ll_max[row]),
        min(bus * (7 / 9 if domains == 1 else 120 / 128), channels * generation.tree_ll128[row]),
        min(c.BOTH_WAYS_SHARE * bus, channels * generation.tree_simple[row]),
    )
    return caps[protocol]
