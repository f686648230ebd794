"""CollNetDirect: the members of a domain hand each head its part at once, the network's switches add the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.network_reduction import collnet_refusal, head_edges, head_sends, heads
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
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


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    member, head = _to_heads(shape)
    base = np.repeat(shape.offsets, len(member))
    source, target = base + np.tile(member, shape.domains), base + np.tile(head, shape.domains)
    share = 1 / len(heads(shape))
    return Pattern.of([(source, target, share), (target, source, share), *head_edges(shape)])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    inside = 2 if shape.per_domain > 1 else 0
    return Steps(scale_up=inside, reduction=1, peers=inside * (shape.per_domain - 1))


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    part = {int(head): number for number, head in enumerate(heads(shape))}
    pairs = [
        (int(offset + a), int(offset + b), part[int(b)])
        for offset in shape.offsets
        for a, b in zip(*_to_heads(shape), strict=True)
    ]
    inward = tuple(Send(member, head, (number,), reduce=True) for member, head, number in pairs)
    outward = tuple(Send(head, member, (number,)) for member, head, number in pairs)
    return Schedule(kind, shape.ranks, len(part), (inward, *head_sends(shape), outward))


ALGORITHM = ALGORITHMS.add(
    "collnet-direct",
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
