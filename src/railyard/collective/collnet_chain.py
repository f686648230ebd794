"""CollNetChain: a chain of the domain's members ends at each head, the network's switches add what the heads have.

Head j's chain begins after it and ends at it (`1->2->...->0->NIC 0`), and the sum comes back the other way: so
every member's link carries the data up and down at once, nearly twice its size, whatever the NICs could do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS, Algorithm, Steps
from railyard.collective.network_reduction import collnet_refusal, head_edges, head_sends, heads
from railyard.collective.pattern import Pattern, Schedule, Send
from railyard.graph import CollectiveKind

if TYPE_CHECKING:
    from railyard.collective.machine import CollectiveMachine, Shape


def _refuses(kind: CollectiveKind, shape: Shape, machine: CollectiveMachine) -> str | None:
    del kind
    return collnet_refusal(shape, machine)


def _pattern(kind: CollectiveKind, shape: Shape) -> Pattern:
    del kind
    p, head = shape.per_domain, heads(shape)
    chain = head[:, None] + 1 + np.arange(p)
    lower, upper = (chain[:, :-1] % p).ravel(), (chain[:, 1:] % p).ravel()
    base = np.repeat(shape.offsets, len(lower))
    source, target = base + np.tile(lower, shape.domains), base + np.tile(upper, shape.domains)
    share = 1 / len(head)
    return Pattern.of([(source, target, share), (target, source, share), *head_edges(shape)])


def _steps(kind: CollectiveKind, shape: Shape) -> Steps:
    del kind
    return Steps(scale_up=2 * (shape.per_domain - 1), reduction=1)


def _schedule(kind: CollectiveKind, shape: Shape) -> Schedule:
    p, head = shape.per_domain, heads(shape)
    rises = [
        tuple(
            Send(int(offset + (end + 1 + step) % p), int(offset + (end + 2 + step) % p), (part,), reduce=True)
            for offset in shape.offsets
            for part, end in enumerate(head)
        )
        for step in range(p - 1)
    ]
    falls = [tuple(Send(send.target, send.source, send.chunks) for send in step) for step in reversed(rises)]
    return Schedule(kind, shape.ranks, len(head), (*rises, *head_sends(shape), *falls))


ALGORITHM = ALGORITHMS.add(
    "collnet-chain",
    Algorithm(
        name="collnet-chain",
        summary="NCCL's CollNetChain: a chain inside a domain, the network's switches add (SHARP class)",
        kinds=(CollectiveKind.ALL_REDUCE,),
        protocols=("simple",),
        family="collnet",
        refuses=_refuses,
        pattern=_pattern,
        steps=_steps,
        schedule=_schedule,
        sources=("NCCL 2.30, CollNetChain", "NVIDIA/nccl issue 320: the order of its chains"),
    ),
)
