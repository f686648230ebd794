"""Reduction in the switches of the network (SHARP class): who sends into it, and what every algorithm over it shares.

Each NIC sends its part once and gets the sum once, whatever the number of domains, where a ring sends nearly twice. The
ranks nearest to a NIC are *heads*: a domain's data is cut into as many parts as it has NICs, and each head's switches
add one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.pattern import NETWORK, Send

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
    """The same for CollNetDirect and CollNetChain."""
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
    return [rises, tuple(Send(NETWORK, send.source, send.chunks) for send in rises)]
