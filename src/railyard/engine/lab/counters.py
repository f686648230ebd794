"""Counters of shaped ports, read from the kernel: bytes, drops, and whether packets wait."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

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
