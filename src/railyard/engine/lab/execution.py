"""A program of the user's as the ranks of a job in a lab: unmodified, over the lab's links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import link_name
from railyard.engine.lab import ability
from railyard.engine.lab.blueprint import Blueprint, Command
from railyard.engine.lab.session import played
from railyard.engine.lab.wiring import address, laid_out

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.cluster import Cluster

PORT = 29_500
"""At which rank 0 is met, as of torchrun."""

LONGEST_S = 3600.0

SAMPLE_S = 0.02


@dataclass(frozen=True)
class Link:
    """What a link did meanwhile.

    Attributes:
        name: From where to where.
        rate_bps: In the lab.
        bytes: On the wire.
        waited_s: How long packets waited at it, by samples.
    """

    name: str
    rate_bps: float
    bytes: int
    waited_s: float


@dataclass(frozen=True)
class Executed:
    """How it ended.

    Attributes:
        statuses: Of each rank.
        links: That carried anything, the fullest first.
    """

    statuses: tuple[int, ...]
    links: tuple[Link, ...]


def execute(
    cluster: Cluster,
    words: Sequence[str],
    poll: Callable[[], None],
    *,
    dilation: float = 1.0,
    routing: str = "static",
) -> Executed:
    """Runs a command as every rank, each in the namespace of its server, with the variables that torchrun sets.

    Args:
        cluster: Whose network and ranks.
        words: The command.
        poll: Called now and then; may raise to end it.
        dilation: Links are that many times slower.
        routing: `static` or `frr`.

    Raises:
        InputError: This machine or this cluster cannot be a lab.
        SimulationError: The lab fails.
    """
    ability.need(routing)
    lab = laid_out(cluster, cluster.links.line_bps / dilation, routing)
    per_server = cluster.ranks_per_server
    meeting = address(int(cluster.back_end.port_of_rank[0, 0]))
    commands = tuple(
        Command(
            rank // per_server,
            tuple(words),
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(cluster.ranks),
                "LOCAL_RANK": str(rank % per_server),
                "LOCAL_WORLD_SIZE": str(per_server),
                "GROUP_RANK": str(rank // per_server),
                "MASTER_ADDR": meeting,
                "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": _interface(lab.wires.nodes[rank // per_server].addresses, cluster, rank),
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(cluster.ranks)
    )
    ran = played(Blueprint(lab.wires, commands=commands, sample_s=SAMPLE_S, limit_s=LONGEST_S), poll)
    links = [
        Link(link_name(cluster, port.link), port.rate_bps, sent, full)
        for port, sent, full in zip(lab.wires.ports, ran.counted.bytes, ran.counted.full_s, strict=True)
        if sent
    ]
    return Executed(ran.statuses, tuple(sorted(links, key=lambda link: (-link.waited_s, -link.bytes))))


def _interface(addresses: tuple[tuple[str, str], ...], cluster: Cluster, rank: int) -> str:
    """The interface of a rank's first NIC."""
    mine = address(int(np.asarray(cluster.back_end.port_of_rank)[rank, 0]))
    return next(interface for interface, one in addresses if one == mine)
