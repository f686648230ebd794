"""The choice of algorithm and protocol: the library's, the best, or the user's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective import connections, tuner
from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.chunks import load_of, window_s
from railyard.collective.machine import Case, CollectiveMachine, machine_of
from railyard.collective.policy import CollectivePolicy, kind_word
from railyard.collective.timing import (
    WIRE,
    by_channels,
    exchange_share,
    one_after_another,
    timing,
)
from railyard.collective.tuner import ring_plan, switch_plan
from railyard.graph import CollectiveKind
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.machine import Shape

DEFAULT_POLICY = CollectivePolicy()
NOTHING = ("none", "simple")
"""Choice of a communicator of one rank."""


@dataclass(frozen=True)
class Choice:
    """Algorithm and protocol of a collective.

    Attributes:
        algorithm: Name in the registry.
        protocol: "ll", "ll128" or "simple".
        channels: Channels of the library's plan.
        time_ps: Predicted time alone, one invocation.
    """

    algorithm: str
    protocol: str
    channels: int
    time_ps: int


@dataclass(frozen=True)
class Choices:
    """Choices at many sizes, as columns.

    Attributes:
        candidates: (algorithm, protocol), the table into which `index` points.
        index: int64[k].
        time_us: float64[k], predicted time alone.
    """

    candidates: tuple[tuple[str, str], ...]
    index: NDArray[np.int64]
    time_us: NDArray[np.float64]


def choose(
    kind: CollectiveKind,
    size_bytes: float,
    shape: Shape,
    cluster: Cluster | CollectiveMachine,
    policy: CollectivePolicy = DEFAULT_POLICY,
    *,
    group: str = "",
) -> Choice:
    """The algorithm and protocol of one collective.

    Args:
        kind: What it does.
        size_bytes: nccl-tests size of one invocation.
        shape: Its communicator.
        cluster: Where it runs.
        policy: Overrides.
        group: Class of the communicator ("tp", "dp"), for overrides by group.

    Raises:
        InputError: The policy wants an algorithm that this shape or cluster cannot run; says why.
    """
    machine = cluster if isinstance(cluster, CollectiveMachine) else machine_of(cluster, policy.measured)
    chosen = choose_many(kind, np.array([size_bytes], np.float64), shape, machine, policy, group=group)
    algorithm, protocol = chosen.candidates[int(chosen.index[0])]
    plan = switch_plan(machine, shape) if ALGORITHMS.get(algorithm).family == "nvls" else ring_plan(machine, shape)
    return Choice(algorithm, protocol, 2 * plan.channels, round(float(chosen.time_us[0]) * 1e6))


def choose_many(
    kind: CollectiveKind,
    size_bytes: NDArray[np.float64],
    shape: Shape,
    machine: CollectiveMachine,
    policy: CollectivePolicy = DEFAULT_POLICY,
    *,
    group: str = "",
) -> Choices:
    """Choices for many sizes of one kind on one shape; see `choose`."""
    case = Case(machine, shape, kind, policy.version_number)
    if shape.ranks < 2:
        return Choices((NOTHING,), np.zeros(len(size_bytes), np.int64), np.zeros(len(size_bytes)))
    candidates = _allowed(case, policy, group)
    considered = _considered(case, size_bytes, candidates) if policy.selector == "library" else None
    time = np.full((len(candidates), len(size_bytes)), np.inf)
    for row in range(len(candidates)) if considered is None else np.flatnonzero(considered.any(axis=1)):
        time[row] = predicted_us(case, *candidates[row], size_bytes, policy)
    index = np.argmin(time if considered is None else np.where(considered, time, np.inf), axis=0)
    return Choices(tuple(candidates), index, np.take_along_axis(time, index[None], axis=0)[0])


def _allowed(case: Case, policy: CollectivePolicy, group: str) -> list[tuple[str, str]]:
    """Algorithms and protocols that can run and that the policy leaves."""
    kind = case.kind
    wanted, protocol = policy.algorithm_for(kind, group), policy.protocol_for(kind, group)
    able = []
    for name, algorithm in ALGORITHMS.items() if wanted is None else [(wanted, ALGORITHMS.get(wanted))]:
        if wanted is None and algorithm.floor_us is not None:
            continue
        refusal = algorithm.refusal(kind, case.shape, case.machine)
        if wanted == name and refusal is not None:
            raise InputError(f"`{name}` cannot do {kind_word(kind)} here: {refusal}", key="algorithm", found=name)
        if refusal is None:
            able += [(name, spoken) for spoken in algorithm.protocols]
    left = [item for item in able if protocol in (None, item[1])]
    carrier = case.machine.transport
    if protocol is None and case.shape.domains > 1:
        left = [item for item in left if item[1] in carrier.protocols] or left
    if wanted is None and carrier.families and case.shape.domains > 1:
        left = [item for item in left if ALGORITHMS.get(item[0]).family in carrier.families] or left
    if not left:
        spoken = sorted({item[1] for item in able})
        what = f"`{wanted}`" if wanted else f"an algorithm for {kind_word(kind)}"
        raise InputError(f"{what} does not speak this protocol", key="protocol", found=protocol, allowed=spoken)
    return left


def _considered(
    case: Case, size_bytes: NDArray[np.float64], candidates: list[tuple[str, str]]
) -> NDArray[np.bool_] | None:
    """bool[candidates, k]: what the library would run; None where it has none of them and all may be taken."""
    names = np.array([name for name, _ in candidates])
    library = {"nccl": tuner.nccl_offers, "rccl": tuner.rccl_offers}.get(case.machine.library)
    if case.kind == CollectiveKind.ALL_TO_ALL:
        considered = (names == "pairwise")[:, None] & _sent_as(case, size_bytes, [spoken for _, spoken in candidates])
    elif library is None:
        return None
    elif case.machine.library == "rccl" and case.machine.scale_up == "mesh" and case.shape.domains == 1:
        # Rings and trees of a full mesh load each link alike, as direct sends do.
        considered = (names == ("direct" if "direct" in names else kind_word(case.kind)))[:, None]
    else:
        # The library calls its broadcasts and reductions rings.
        known = ["ring" if name == kind_word(case.kind) else name for name in names]
        considered = np.array([library(name, case) for name in known])[:, None]
    return considered if considered.any(axis=0).all() else None


def _sent_as(case: Case, size_bytes: NDArray[np.float64], spoken: list[str]) -> NDArray[np.bool_]:
    """bool[candidates, k], protocols that grouped sends may take.

    NCCL takes LL up to a size of messages whether it is faster or not. Inside a domain logs show it: 8 GB300 take 38 us
    for 4 MiB and 34 for 8. Between domains none does, and the faster one is taken.
    """
    if not by_channels(case.machine, case.shape.domains):
        return np.ones((len(spoken), len(size_bytes)), np.bool_)
    small = size_bytes / case.shape.ranks <= connections.ll_bytes(case.shape.ranks)
    taken: NDArray[np.bool_] = (np.array(spoken) == "ll")[:, None] == small
    return taken


def predicted_us(
    case: Case,
    name: str,
    protocol: str,
    size_bytes: NDArray[np.float64],
    policy: CollectivePolicy = DEFAULT_POLICY,
) -> NDArray[np.float64]:
    """Predicted time alone in us, the network between NICs taken as free of contention.

    Args:
        case: What is to be done where.
        name: Algorithm.
        protocol: "ll", "ll128" or "simple".
        size_bytes: float64[k].
        policy: For what launching and the network's software add.
    """
    algorithm = ALGORITHMS.get(name)
    time = timing(case, algorithm, protocol, size_bytes)
    machine = case.machine
    path_ps = machine.next_latency_ps if algorithm.to_the_next else machine.path_latency_ps
    path_us = (path_ps + policy.network_overhead_ps) * 1e-6
    scale_up, nics = (rate / WIRE[protocol] for rate in links_gbs(case, name))
    inside = np.minimum(time.rate_gbs, scale_up)
    nics *= exchange_share(case, algorithm)
    rate = one_after_another(inside, nics) if algorithm.phased else np.minimum(inside, nics)
    fixed = time.latency_us + time.network_steps * path_us + policy.launch_ps * 1e-6
    moving_us = size_bytes / (1e3 * rate)
    if case.shape.domains > 1:
        far_s = np.full(len(size_bytes), 1e-12 * max(machine.path_latency_ps, machine.next_latency_ps))
        slots_us = 1e6 * window_s(case, name, protocol, size_bytes, far_s)
        moving_us = np.maximum(moving_us, slots_us - time.network_steps * path_us)
    time_us: NDArray[np.float64] = fixed + moving_us
    return time_us


def links_gbs(case: Case, name: str) -> tuple[float, float]:
    """GB/s of the collective's size that scale-up links carry, and that NICs carry, without flags; inf for no limit."""
    machine = case.machine
    load = load_of(name, case.kind, case.shape)
    inside = outside = np.inf
    if machine.scale_up == "mesh" and load.pair:
        inside = machine.plan_bps / 8e9 * machine.measured.mesh_share / machine.peers / load.pair
    elif load.scale_up:
        share = machine.ceiling if machine.scale_up == "switched" else machine.plan_bps / machine.scale_up_bps
        inside = machine.scale_up_bps / 8e9 * share / load.scale_up
    if load.port:
        outside = machine.nic_bps / 8e9 * machine.payload_efficiency / load.port
    return inside, outside
