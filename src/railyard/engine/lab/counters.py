"""Counters of shaped ports, read from the kernel: bytes, drops, and whether packets wait."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import link_name
from railyard.engine.lab import frames
from railyard.engine.lab.blueprint import Blueprint, Command
from railyard.engine.lab.frames import played
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
    frames.need(routing)
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


NETLINK_ROUTE = 0
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_DONE = 3
TCA_KIND, TCA_STATS2 = 1, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE = 1, 3
"""Of linux/rtnetlink.h and linux/gen_stats.h."""

SHAPERS = (b"tbf\0", b"htb\0")

_HEADER = struct.Struct("=IHHII")
_TC = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")


@dataclass
class Watch:
    """The queues of one namespace.

    Attributes:
        ports: Number of the port by index of its interface.
        socket: Netlink, of the namespace in which it was opened.
    """

    ports: dict[int, int]
    socket: socket.socket = field(
        default_factory=lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
    )

    def read(self) -> list[tuple[int, int, int, int]]:
        """Of each port: its number, bytes sent, packets that wait, packets dropped."""
        body = _TC.pack(0, 0, 0, 0, 0)
        size = _HEADER.size + len(body)
        self.socket.send(_HEADER.pack(size, RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
        found: list[tuple[int, int, int, int]] = []
        while not self._messages(self.socket.recv(1 << 18), found):
            pass
        return found

    def _messages(self, data: bytes, found: list[tuple[int, int, int, int]]) -> bool:
        """Reads what came; whether it was the last."""
        at = 0
        while at + _HEADER.size <= len(data):
            size, kind = _HEADER.unpack_from(data, at)[:2]
            if kind == NLMSG_DONE or size < _HEADER.size:
                return True
            if kind == RTM_NEWQDISC:
                port = self.ports.get(_TC.unpack_from(data, at + _HEADER.size)[1])
                parts = _attributes(data, at + _HEADER.size + _TC.size, at + size)
                if port is not None and parts.get(TCA_KIND, b"")[:4] in SHAPERS and TCA_STATS2 in parts:
                    stats = parts[TCA_STATS2]
                    inner = _attributes(stats, 0, len(stats))
                    waiting, _, dropped = struct.unpack_from("=III", inner[TCA_STATS_QUEUE])
                    found.append((port, struct.unpack_from("=Q", inner[TCA_STATS_BASIC])[0], waiting, dropped))
            at += size + 3 & ~3
        return False


def _attributes(data: bytes, at: int, end: int) -> dict[int, bytes]:
    found = {}
    while at + _ATTRIBUTE.size <= end:
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[at + _ATTRIBUTE.size : at + size]
        at += size + 3 & ~3
    return found
