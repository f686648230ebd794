"""Reduction in the switches of the network (SHARP class): who sends into it, and what every algorithm over it shares.

Each NIC sends its part once and gets the sum once, whatever the number of domains, where a ring sends nearly twice. The
ranks nearest to a NIC are *heads*: a domain's data is cut into as many parts as it has NICs, and each head's switches
add one of them.

CollNetChain: a chain of the domain's members ends at each head, the network's switches add what the heads have.

Head j's chain begins after it and ends at it (`1->2->...->0->NIC 0`), and the sum comes back the other way: so
every member's link carries the data up and down at once, nearly twice its size, whatever the NICs could do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, NETWORK, Algorithm, Pattern, Schedule, Send, Steps, backwards
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


MAX_LOCAL_RANKS = 8
"""Ranks of a server up to which NCCL 2.30 offers CollNetDirect and CollNetChain."""


def network_refusal(shape: Shape, machine: CollectiveMachine) -> str | None:
    """Why the network's switches cannot add for this shape; None when they can."""
    if not machine.sharp:
        return "the fabric does not reduce in its switches"
    if shape.domains < 2:
        return "there is one domain only"
    return None if shape.even else "the domains hold different numbers of ranks"


def collnet_refusal(shape: Shape, machine: CollectiveMachine) -> str | None:
    """Why CollNetDirect and CollNetChain cannot run, or None."""
    refusal = network_refusal(shape, machine)
    if refusal is None and shape.per_domain > MAX_LOCAL_RANKS:
        return f"it joins at most {MAX_LOCAL_RANKS} ranks of a domain"
    return refusal


def heads(shape: Shape) -> NDArray[np.int64]:
    """int64[parts], local indices of the ranks that send into the network: the first of each NIC."""
    rails = np.arange(shape.per_domain) * min(shape.ports, shape.per_domain) // shape.per_domain
    return np.unique(rails, return_index=True)[1].astype(np.int64)


def head_edges(shape: Shape) -> list[tuple[NDArray[np.int64], NDArray[np.int64], float]]:
    """Edges between the heads of all domains and the network: each part once up and once down."""
    head = (shape.offsets[:, None] + heads(shape)).ravel()
    network = np.full(len(head), NETWORK)
    share = 1 / len(heads(shape))
    return [(head, network, share), (network, head, share)]


def head_sends(shape: Shape) -> list[tuple[Send, ...]]:
    """The two steps through the network: part j of every domain's j-th head up and the sum of all down."""
    rises = tuple(
        Send(int(offset + head), NETWORK, (part,), reduce=True)
        for offset in shape.offsets
        for part, head in enumerate(heads(shape))
    )
    return [rises, *backwards([rises])]


def _collnet_chain_refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    return collnet_refusal(shape, machine)


def _collnet_chain_pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
    p, head = shape.per_domain, heads(shape)
    chain = head[:, None] + 1 + np.arange(p)
    lower, upper = (chain[:, :-1] % p).ravel(), (chain[:, 1:] % p).ravel()
    base = np.repeat(shape.offsets, len(lower))
    source, target = base + np.tile(lower, shape.domains), base + np.tile(upper, shape.domains)
    share = 1 / len(head)
    return Pattern.of([(source, target, share), (target, source, share), *head_edges(shape)])


def _collnet_chain_steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    return Steps(scale_up=2 * (shape.per_domain - 1), reduction=1)


def _collnet_chain_schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p, head = shape.per_domain, heads(shape)
    rises = [
        tuple(
            Send(int(offset + (end + 1 + step) % p), int(offset + (end + 2 + step) % p), (part,), reduce=True)
            for offset in shape.offsets
            for part, end in enumerate(head)
        )
        for step in range(p - 1)
    ]
    return Schedule(kind, shape.ranks, len(head), (*rises, *head_sends(shape), *backwards(rises)))


COLLNET_CHAIN = ALGORITHMS.enter(
    Algorithm(
        name="collnet-chain",
        summary="NCCL's CollNetChain: a chain inside a domain, the network's switches add (SHARP class)",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="collnet",
        refuses=_collnet_chain_refuses,
        pattern=_collnet_chain_pattern,
        steps=_collnet_chain_steps,
        schedule=_collnet_chain_schedule,
        sources=("NCCL 2.30, CollNetChain", "NVIDIA/nccl issue 320: the order of its chains"),
    ),
)


def _refuses(_kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    refusal = collnet_refusal(shape, machine)
    if refusal is None and shape.per_domain > 1 and machine.scale_up != "switched":
        return "its direct sends need a scale-up switch"
    return refusal


def _to_heads(shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Member and head of every pair of a domain, local indices."""
    head = heads(shape)
    member = np.repeat(np.arange(shape.per_domain), len(head))
    target = np.tile(head, shape.per_domain)
    apart = member != target
    return member[apart], target[apart]


def _pattern(_kind: CollectiveKind, shape: Shape) -> Pattern:
    member, head = _to_heads(shape)
    base = np.repeat(shape.offsets, len(member))
    source, target = base + np.tile(member, shape.domains), base + np.tile(head, shape.domains)
    share = 1 / len(heads(shape))
    return Pattern.of([(source, target, share), (target, source, share), *head_edges(shape)])


def _steps(_kind: CollectiveKind, shape: Shape) -> Steps:
    inside = 2 if shape.per_domain > 1 else 0
    return Steps(scale_up=inside, reduction=1, peers=inside * (shape.per_domain - 1))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    part = {int(head): number for number, head in enumerate(heads(shape))}
    inward = tuple(
        Send(int(offset + member), int(offset + head), (part[int(head)],), reduce=True)
        for offset in shape.offsets
        for member, head in zip(*_to_heads(shape), strict=True)
    )
    return Schedule(kind, shape.ranks, len(part), (inward, *head_sends(shape), *backwards([inward])))


COLLNET_DIRECT = ALGORITHMS.enter(
    Algorithm(
        name="collnet-direct",
        summary="NCCL's CollNetDirect: all to all inside a domain, the network's switches add (SHARP class)",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="collnet",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("Graham et al., COM-HPC 2016 (SHARP)", "NCCL 2.30, CollNetDirect"),
    ),
)
