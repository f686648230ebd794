"""The network as a table: devices with ports and the cables between them, found by a tool or planned."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.kit.errors import Problem


SONIC_LANES = 8
"""Number of SONiC port numbers per cage: `Ethernet8` is the second cage of a switch with eight lanes per cage."""


@dataclass(frozen=True)
class Dialect:
    """How an operating system names ports.

    Attributes:
        whole: Name of a cage used as one port; `{cage}` counted from 1, `{zero}` from 0.
        lane: Name of one lane; `{lane}` counted from 0, `{one}` from 1.
        cages_by: Increment per cage; SONiC counts lanes.
    """

    name: str
    whole: str
    lane: str
    cages_by: int = 1

    def port(self, cage: int, lane: int | None = None, lanes: int = 1) -> str:
        """Name of a port.

        Args:
            cage: From 1.
            lane: From 0; None for the whole cage.
            lanes: Number of ports that the cage is broken out into.
        """
        zero = (cage - 1) * self.cages_by
        if lane is None:
            return self.whole.format(cage=cage, zero=zero)
        if self.cages_by > 1:
            zero += lane * (self.cages_by // max(lanes, 1))
        return self.lane.format(cage=cage, zero=zero, lane=lane, one=lane + 1)


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("frr", "swp{cage}", "swp{cage}s{lane}"),
        Dialect("sonic", "Ethernet{zero}", "Ethernet{zero}", SONIC_LANES),
        Dialect("eos", "Ethernet{cage}/1", "Ethernet{cage}/{one}"),
        Dialect("junos", "et-0/0/{zero}", "et-0/0/{zero}:{lane}"),
        Dialect("nvos", "sw{cage}p1", "sw{cage}p{one}"),
        Dialect("infiniband", "{cage}", "{one}"),
    )
}
"""Dialects by name; InfiniBand counts ports consecutively and has no lane names."""

MAC_DIGITS = 12

_SHORT = {"et": "Ethernet", "eth": "Ethernet", "ethernet": "Ethernet", "hu": "HundredGigE", "fo": "FourHundredGigE"}
_FULL = re.compile(r"(hu|fo|ethernet|eth|et)\s*(\d+(?:/\d+)*)", re.IGNORECASE)


def dialect(name: str) -> Dialect:
    """The dialect of a name.

    Raises:
        InputError: The dialect is unknown.
    """
    if name not in DIALECTS:
        raise InputError(
            "there is no such dialect of port names",
            found=name,
            allowed=list(DIALECTS),
            hint=did_you_mean(name, DIALECTS),
        )
    return DIALECTS[name]


@lru_cache(200_000)
def same_port(name: str) -> str:
    """One spelling for port names that differ only in abbreviation: `Et1/1` and `Ethernet1/1`.

    Linux's `eth0` is unchanged: switches write `Eth1/1` with a slash, or `Ethernet`.
    """
    text = name.strip().strip('"')
    found = _FULL.fullmatch(text)
    if found is None or (found[1] == "eth" and "/" not in text):
        return text
    return _SHORT[found[1].lower()] + found[2]


def hardware_address(text: str) -> str:
    """The hexadecimal digits of a GUID, or of a vendor-assigned MAC address.

    Empty otherwise: for zeros, and for MAC addresses that are locally administered (bridges, virtual machines) or
    multicast. An InfiniBand interface's address ends with its port's GUID.
    """
    digits = re.sub("[:.-]", "", text.strip()).lower().removeprefix("0x")
    if not re.fullmatch("[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{40}", digits):
        return ""
    if len(digits) == MAC_DIGITS and int(digits[1], 16) & 3:
        return ""
    digits = digits[-16:]
    return digits if int(digits, 16) else ""


HOST_PORT = re.compile(r"(eth|en[opsx]|ens|enp|eno|ib|mlx|bond|rdma|bnxt|irdma|roce|be|fe)[\w.-]*\d[\w.-]*")
"""Names that Linux and Railyard's plans give host interfaces; switch port names begin differently."""

FEW = 4
"""A device with less than this fraction of its neighbors' number of neighbors is a host."""


def hosts_of(
    cables: Sequence[tuple[tuple[str, str], tuple[str, str]]], stations: Collection[str], forwarding: Collection[str]
) -> set[str]:
    """Devices that report not forwarding, have ports with Linux NIC names, or have far fewer neighbors.

    A device that one of the former is cabled to is a switch: the spine of few leafs has far more neighbors than these.

    Args:
        cables: Device and port at both ends.
        stations: Devices that report that they forward nothing.
        forwarding: Devices that are not hosts although their ports may have host names.
    """
    ports: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for (a, a_port), (b, b_port) in cables:
        ports.setdefault(a, []).append(a_port)
        ports.setdefault(b, []).append(b_port)
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    linux = {name for name, mine in ports.items() if all(HOST_PORT.fullmatch(port) for port in mine)}
    sure = {*stations, *(linux - set(forwarding))}
    fewer = {name for name, mine in near.items() if len(mine) * FEW <= max(len(near[other]) for other in mine)}
    return sure | {name for name in fewer if sure.isdisjoint(near[name])}


_DIGITS = 18
"""Maximum digits of a number in a name; longer ones are not numbers."""


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts n2 before n10."""
    return tuple(
        (0, int(part), part) if re.fullmatch("[0-9]+", part) else (1, 0, part)
        for part in re.split(rf"([0-9]{{1,{_DIGITS}}})", name)
        if part
    )


def components(count: int, ends: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """int64[count], the least node that each node is joined with; `ends` int[edges, 2] are the nodes of edges."""
    a, b = np.asarray(ends).T
    least = np.arange(count, dtype=np.int64)
    while True:
        new = least.copy()
        np.minimum.at(new, a, least[b])
        np.minimum.at(new, b, new[a])
        new = new[new]
        if np.array_equal(new, least):
            return least
        least = new


def hop_counts(count: int, ends: NDArray[np.signedinteger[Any]], start: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64[count], edges from each node to the nearest of some nodes; -1 where none leads to them."""
    both = np.concatenate([ends, ends[:, ::-1]])
    away = np.full(count, -1)
    while len(start):
        away[start] = away.max(initial=-1) + 1
        reached = both[(away[both[:, 0]] == away.max(initial=-1)) & (away[both[:, 1]] < 0), 1]
        start = np.unique(reached)
    return away


UNKNOWN = "?"
"""Text for an unknown end of a cable."""

End = tuple[str, str]
"""A device as named in its file, and a port."""


@dataclass(frozen=True)
class Twins:
    """Devices that share an identity (`what`: "GUID", "MAC address" or "name") that should be unique."""

    what: str
    value: str
    devices: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class NetworkTable:
    """Devices and the cables between them, found or planned, as columns; figures are 0 where not known.

    Attributes:
        key: Name of each device, unique in its file: a GUID, a chassis.
        name: Name of the switch, or of the port's host.
        label: Name in the file.
        kind: "switch", "host" (or a port of one), "aggregation" for the reduction engine inside a switch.
        part: Interface of a host, such as mlx5_0; otherwise empty.
        chassis: Key of the director that a board belongs to; empty for a stand-alone switch.
        sockets: Number of ports of each device.
        ends: int32[cables, 2], devices.
        ports: Names of the ports at both ends.
        rate_bps: int64[cables].
        mtu: int64[cables, 2], largest frames at both ends, bytes.
        length_m: float64[cables].
        lanes: int64[cables].
        problems: What could not be read, with its location.
        addresses: Device and port by their names in other tools: `lid 6`, or a port's GUID in hexadecimal digits,
            `100019`.
            The port is empty for a switch's address.
        twins: Devices that share an identity; each has a row.
        reporters: Labels of the devices that reported their own ports; empty: whoever reports knows all.
    """

    file: str
    key: list[str]
    name: list[str]
    label: list[str]
    kind: list[str]
    part: list[str]
    chassis: list[str]
    sockets: list[int]
    ends: NDArray[np.int32]
    ports: list[tuple[str, str]]
    rate_bps: NDArray[np.int64]
    mtu: NDArray[np.int64]
    length_m: NDArray[np.float64]
    lanes: NDArray[np.int64]
    problems: tuple[Problem, ...] = ()
    addresses: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    twins: tuple[Twins, ...] = ()
    reporters: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, file: str, name: list[str], kind: list[str], cables: Iterable[tuple[int, str, int, str]], **known: Any
    ) -> NetworkTable:
        """A table with some of the columns.

        Args:
            file: Where it comes from.
            name: Name of each device; also its key and label, unless these are given.
            kind: See the class.
            cables: Device and port at both ends of each cable.
            known: Other columns.
        """
        listed, devices = list(cables), len(name)
        ends = np.array([(a, b) for a, _, b, _ in listed], np.int32).reshape(-1, 2)
        columns: dict[str, Any] = {
            **dict.fromkeys(("key", "label"), name),
            **dict.fromkeys(("part", "chassis"), [""] * devices),
            "sockets": [0] * devices,
            **dict.fromkeys(("rate_bps", "lanes"), np.zeros(len(listed), np.int64)),
            "mtu": np.zeros((len(listed), 2), np.int64),
            "length_m": np.zeros(len(listed)),
            **known,
        }
        return cls(file=file, name=name, kind=kind, ends=ends, ports=[(p, q) for _, p, _, q in listed], **columns)

    def edited(self, **changes: Mapping[int, Any]) -> NetworkTable:
        """The same with other values in some rows of some columns: `edited(rate_bps={3: 0})`."""
        columns: dict[str, Any] = {name: getattr(self, name).copy() for name in changes}
        for name, values in changes.items():
            for row, value in values.items():
                columns[name][row] = value
        return replace(self, **columns)

    @property
    def domain(self) -> str:
        """`.dc1.example.org`: what all names with a dot end with; empty where they differ, or are others without it."""
        found = {label.partition(".")[2].lower() for label in self.label} - {""}
        short = {label.partition(".")[0] for label in self.label}
        return f".{found.pop()}" if len(found) == 1 and len(short) == len(self.label) else ""

    def without_domain(self) -> NetworkTable:
        """The same with names up to their first dot."""
        columns: dict[str, Any] = {
            name: [one.partition(".")[0] for one in getattr(self, name)] for name in ("key", "name", "label")
        }
        return replace(self, **columns, reporters=frozenset(one.partition(".")[0] for one in self.reporters))

    def exchanged(self, numbers: Sequence[int]) -> NetworkTable:
        """The same with the upper end of each of these cables where that of the next is."""
        ends, ports = {}, {}
        for one, other in zip(numbers, [*numbers[1:], numbers[0]], strict=True):
            ends[one] = self.ends[one, 0], self.ends[other, 1]
            ports[one] = self.ports[one][0], self.ports[other][1]
        return self.edited(ends=ends, ports=ports)

    def without(self, cables: Collection[int]) -> NetworkTable:
        """The same with some cables less."""
        rows = np.setdiff1d(np.arange(len(self.ports)), list(cables))
        columns = {name: getattr(self, name)[rows] for name in ("ends", "rate_bps", "mtu", "length_m", "lanes")}
        return replace(self, **columns, ports=[self.ports[row] for row in rows.tolist()])

    @cached_property
    def switch(self) -> NDArray[np.bool_]:
        """bool[devices]."""
        return np.array([kind == "switch" for kind in self.kind], np.bool_)

    @cached_property
    def host(self) -> NDArray[np.bool_]:
        """bool[devices], ports of hosts."""
        return np.array([kind == "host" for kind in self.kind], np.bool_)

    @cached_property
    def between(self) -> NDArray[np.int64]:
        """Cables between two switches."""
        return np.flatnonzero(self.switch[self.ends].all(axis=1) & (self.ends[:, 0] != self.ends[:, 1]))

    @cached_property
    def access(self) -> NDArray[np.int64]:
        """Cables between a switch and a host."""
        one, other = self.ends[:, 0], self.ends[:, 1]
        return np.flatnonzero((self.switch[one] & self.host[other]) | (self.host[one] & self.switch[other]))

    @cached_property
    def access_ends(self) -> NDArray[np.int32]:
        """int32[access cables, 2], switch and host."""
        ends = self.ends[self.access]
        return np.where(self.host[ends[:, 0]][:, None], ends[:, ::-1], ends)

    @cached_property
    def hosts_of(self) -> NDArray[np.int64]:
        """int64[devices], cables to hosts of each switch."""
        return np.bincount(self.access_ends[:, 0], minlength=len(self.switch))

    @cached_property
    def far_ends(self) -> list[list[tuple[str, int, int, str]]]:
        """For each device, its cables: own port, number, and the device and port at the far end."""
        out: list[list[tuple[str, int, int, str]]] = [[] for _ in self.name]
        for number, ((a, b), (port, far_port)) in enumerate(zip(self.ends.tolist(), self.ports, strict=True)):
            out[a].append((port, number, b, far_port))
            out[b].append((far_port, number, a, port))
        return out

    @cached_property
    def cables_of(self) -> list[dict[str, int]]:
        """For each device, its cables by port."""
        return [{port: number for port, number, _, _ in mine} for mine in self.far_ends]

    @cached_property
    def named_ends(self) -> list[tuple[End, End]]:
        """Device and port at both ends of each cable, with one spelling for each port."""
        return [
            ((self.label[a], same_port(port)), (self.label[b], same_port(far)))
            for (a, b), (port, far) in zip(self.ends.tolist(), self.ports, strict=True)
        ]

    @cached_property
    def cable_at(self) -> dict[End, int]:
        """The first cable at each named end."""
        out: dict[End, int] = {}
        for number, ends in enumerate(self.named_ends):
            for end in ends:
                out.setdefault(end, number)
        return out

    @cached_property
    def _numbers(self) -> dict[str, int]:
        out: dict[str, int] = {}
        for number, names in enumerate(zip(self.label, self.key, self.name, strict=True)):
            for name in names:
                out.setdefault(name.lower(), number)
        return {name: number for name, (number, _) in self.addresses.items()} | out

    @cached_property
    def _in_port(self) -> dict[tuple[int, str], int]:
        ports = enumerate(self.far_ends)
        return {(device, same_port(port)): number for device, mine in ports for port, number, _, _ in mine}

    def number(self, name: str) -> int | None:
        """Row of a device by its name, key, address or GUID."""
        name = name.lower()
        return self._numbers.get(name, self._numbers.get(name.removeprefix("0x").lstrip("0")))

    def cable_in(self, device: int, port: str) -> int | None:
        """The cable in a port, however the port's name is spelled."""
        return self._in_port.get((device, same_port(port)))

    def port(self, cable: int, device: int) -> str:
        """Port of a cable at one of its devices."""
        return self.ports[cable][int(self.ends[cable, 0] != device)]

    def far_end(self, end: End) -> End | None:
        """The other end of the cable at an end."""
        number = self.cable_at.get(end)
        if number is None:
            return None
        one, other = self.named_ends[number]
        return other if one == end else one

    def end_words(self, device: int, port: str) -> str:
        """`leaf1[5]`: a device as named in its file, and a port."""
        return f"{self.label[device]}[{port}]"

    def both_ends(self, cable: int) -> tuple[str, str]:
        """Both ends of a cable in words."""
        (a, b), (port, far_port) = self.ends[cable].tolist(), self.ports[cable]
        return self.end_words(a, port), self.end_words(b, far_port)

    def cable_words(self, device: int, port: str) -> tuple[str, str]:
        """A port and the far end of its cable in words; `UNKNOWN` if it has none."""
        mine, number = self.end_words(device, port), self.cable_in(device, port)
        if number is None:
            return mine, UNKNOWN
        near = self.ends[number, 0] == device and same_port(self.ports[number][0]) == same_port(port)
        return mine, self.both_ends(number)[int(near)]

    def cables_of_host(self, name: str) -> tuple[int, ...]:
        """Cables of all ports of a host."""
        mine = np.array(self.name, object) == name
        return tuple(np.flatnonzero(mine[self.ends].any(axis=1)).tolist())
