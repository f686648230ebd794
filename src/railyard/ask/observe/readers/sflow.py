"""sFlow, as `sflowtool -l` prints it: a line of 19 counters of an interface of an agent, `CNTR,agent,ifIndex,...`."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.ask.observe.reader import Piece, Reader, add_text_reader, is_count, readers
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.observe.reader import TraceSource


PORT = 6343
"""UDP port of collectors (IANA)."""

VERSION = struct.pack(">I", 5)
_ADDRESSES = {1: 4, 2: 16}
_SFLOW_DATAGRAMS_COUNTERS, _EXPANDED = 2, 4

_INTERFACE = struct.Struct(">IIQIIQIIIIIIQIIIIII")
_INTERFACE_NAMES = {5: "ifInOctets", 9: "ifInDiscards", 10: "ifInErrors", 12: "ifOutOctets", 16: "ifOutDiscards",
                    17: "ifOutErrors"}  # fmt: skip
_ETHERNET = struct.Struct(">13I")
_ETHERNET_NAMES = {0: "dot3StatsAlignmentErrors", 1: "dot3StatsFCSErrors", 8: "dot3StatsInternalMacTransmitErrors",
                   11: "dot3StatsInternalMacReceiveErrors", 12: "dot3StatsSymbolErrors"}  # fmt: skip

_PCAP = {
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xd4\xc3\xb2\xa1": "<",
    b"\xa1\xb2\x3c\x4d": ">",
    b"\x4d\x3c\xb2\xa1": "<",
}
"""First bytes of a capture with times in microseconds or nanoseconds, and the order of its bytes."""

_ETHERNET_LINK, _RAW_LINKS, _COOKED = 1, (12, 14, 101, 228, 229), 113
_VLAN, _IPV4, _IPV6, _UDP = (0x8100, 0x88A8), 0x0800, 0x86DD, 17


class _Short(Exception):
    """The bytes end before what they say they hold."""


@dataclass
class _Bytes:
    data: bytes
    at: int = 0

    def word(self) -> int:
        """A number of 32 bits."""
        return int.from_bytes(self.take(4), "big")

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size < 0 or self.at + size > len(self.data):
            raise _Short
        self.at += size
        return self.data[self.at - size : self.at]


@dataclass
class _Found:
    last: dict[tuple[str, str, str], float] = field(default_factory=dict)
    datagrams: int = 0
    broken: int = 0


def _is_datagrams(_: str, head: bytes) -> bool:
    """A capture, or a datagram of version 5 whose agent has an address."""
    return head[:4] in _PCAP or (head[:4] == VERSION and head[4:8] in (b"\0\0\0\1", b"\0\0\0\2"))


def _read_datagrams(source: TraceSource) -> Piece:
    """The last counters of every interface.

    Raises:
        InputError: There are none.
    """
    data, found = source.everything(), _Found()
    if data[:4] in _PCAP:
        for payload in _captured(data, found):
            _datagram(_Bytes(payload), found)
    else:
        rest = _Bytes(data)
        while rest.at < len(data) and _datagram(rest, found):
            pass
    piece = Piece(source.name)
    piece.count_last(found.last)
    if not piece.counts:
        said = f"{found.datagrams} datagrams, {found.broken} of them damaged"
        raise InputError("it has no counter samples of sFlow version 5", file=source.name, found=said)
    piece.note(found.broken, "datagrams are damaged and were left out from there on")
    return piece


def _datagram(rest: _Bytes, found: _Found) -> bool:
    """Notes the counters of a datagram; whether it was one, and read to its end."""
    found.datagrams += 1
    try:
        if rest.take(4) != VERSION:
            raise _Short
        width = _ADDRESSES.get(rest.word())
        if width is None:
            raise _Short
        agent = str(ipaddress.ip_address(rest.take(width)))
        rest.take(12)
        for _ in range(rest.word()):
            kind, body = rest.word(), _Bytes(rest.take(rest.word()))
            if kind in (_SFLOW_DATAGRAMS_COUNTERS, _EXPANDED):
                body.take(8 if kind == _SFLOW_DATAGRAMS_COUNTERS else 12)
                _records(agent, body, found)
    except _Short:
        found.broken += 1
        return False
    return True


def _records(agent: str, body: _Bytes, found: _Found) -> None:
    """Notes the records of a sample; those of Ethernet are of the interface before them."""
    port = ""
    for _ in range(body.word()):
        kind, record = body.word(), body.take(body.word())
        if kind == 1 and len(record) >= _INTERFACE.size:
            values = _INTERFACE.unpack_from(record)
            port = f"interface {values[0]}"
            _note(found, agent, port, values, _INTERFACE_NAMES)
        elif kind == 2 and len(record) >= _ETHERNET.size and port:
            _note(found, agent, port, _ETHERNET.unpack_from(record), _ETHERNET_NAMES)


def _note(found: _Found, agent: str, port: str, values: tuple[int, ...], names: dict[int, str]) -> None:
    for at, name in names.items():
        if values[at] < (1 << 32) - 1 or "Octets" in name:  # all ones: the agent does not know
            found.last[agent, port, name] = float(values[at])


def _captured(data: bytes, found: _Found) -> Iterator[bytes]:
    order, at = _PCAP[data[:4]], 24
    link = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF if len(data) >= at else -1
    while at + 16 <= len(data):
        size = struct.unpack_from(f"{order}I", data, at + 8)[0]
        packet = data[at + 16 : at + 16 + size]
        at += 16 + size
        payload = _payload(packet, link)
        if payload is not None:
            yield payload
    if at != len(data):
        found.broken += 1


def _payload(packet: bytes, link: int) -> bytes | None:
    """The bytes behind the UDP header of a packet to the port of sFlow; None of others, and of fragments."""
    at, kind = 0, 0
    if link == _ETHERNET_LINK:
        at, kind = 14, int.from_bytes(packet[12:14], "big")
        while kind in _VLAN:
            at, kind = at + 4, int.from_bytes(packet[at + 2 : at + 4], "big")
    elif link == _COOKED:
        at, kind = 16, int.from_bytes(packet[14:16], "big")
    elif link in _RAW_LINKS and packet:
        kind = _IPV4 if packet[0] >> 4 == 4 else _IPV6
    if kind == _IPV4 and len(packet) >= at + 20 and packet[at + 9] == _UDP:
        fragment = int.from_bytes(packet[at + 6 : at + 8], "big") & 0x3FFF
        at += 4 * (packet[at] & 15)
        if fragment:
            return None
    elif kind == _IPV6 and len(packet) >= at + 40 and packet[at + 6] == _UDP:
        at += 40
    else:
        return None
    return packet[at + 8 :] if int.from_bytes(packet[at + 2 : at + 4], "big") == PORT else None


readers.enter(Reader("sflow-datagrams", "sFlow datagrams: pcap or raw", _is_datagrams, _read_datagrams))


_NAMES = (
    "ifType", "ifSpeed", "ifDirection", "ifStatus", "ifInOctets", "ifInUcastPkts", "ifInMulticastPkts",
    "ifInBroadcastPkts", "ifInDiscards", "ifInErrors", "ifInUnknownProtos", "ifOutOctets", "ifOutUcastPkts",
    "ifOutMulticastPkts", "ifOutBroadcastPkts", "ifOutDiscards", "ifOutErrors", "ifPromiscuousMode",
)  # fmt: skip
_COUNTERS = {"ifInOctets", "ifInDiscards", "ifInErrors", "ifOutOctets", "ifOutDiscards", "ifOutErrors"}


def _take_sflow(text: str, piece: Piece) -> None:
    broken = 0
    last: dict[tuple[str, str, str], float] = {}
    for line in text.splitlines():
        words = line.split(",")
        if words[0] != "CNTR":
            continue
        if len(words) < 3 + len(_NAMES) or not all(is_count(word.strip()) for word in words[2 : 3 + len(_NAMES)]):
            broken += 1
            continue
        for name, value in zip(_NAMES, words[3:], strict=False):
            if name in _COUNTERS:
                last[words[1], f"interface {words[2]}", name] = float(value)
    piece.count_last(last)
    piece.note(broken, "lines are damaged and were left out")


add_text_reader(
    "sflow",
    "sFlow counters as sflowtool prints them",
    lambda _, head: head.startswith((b"CNTR,", b"FLOW,")) or b"\nCNTR," in head,
    _take_sflow,
    ("it has no interface counters", "lines CNTR of sflowtool -l"),
)
