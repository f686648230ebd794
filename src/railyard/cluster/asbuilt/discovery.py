"""What a discovery found: devices with ports, and the cables between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from railyard.kit.errors import Problem


SONIC_LANES = 8
"""Numbers by which SONiC counts a cage: `Ethernet8` is the second of a switch with eight lanes a cage."""


@dataclass(frozen=True)
class Dialect:
    """How one operating system names ports.

    Attributes:
        name: Of the system.
        whole: Name of a cage that is one port; `{cage}` counted from 1, `{zero}` from 0.
        lane: Name of one lane; `{lane}` counted from 0, `{one}` from 1.
        cages_by: Numbers by which cages are counted; SONiC counts lanes.
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
            lanes: Ports that the cage is broken out into.
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
"""By name; InfiniBand counts ports straight on and has no lanes of its own here."""

MAC_DIGITS = 12

_SHORT = {"et": "Ethernet", "eth": "Ethernet", "ethernet": "Ethernet", "hu": "HundredGigE", "fo": "FourHundredGigE"}
_FULL = re.compile(r"(hu|fo|ethernet|eth|et)\s*(\d+(?:/\d+)*)", re.IGNORECASE)


def dialect(name: str) -> Dialect:
    """A dialect.

    Raises:
        InputError: There is none of that name.
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
    """One spelling for all names of a port that only differ in how they are cut short: `Et1/1` and `Ethernet1/1`.

    `eth0` of Linux stays what it is: switches count `Eth1/1`, with a slash, or write `Ethernet`.
    """
    text = name.strip().strip('"')
    found = _FULL.fullmatch(text)
    if found is None or (found[1] == "eth" and "/" not in text):
        return text
    return _SHORT[found[1].lower()] + found[2]


def hardware_address(text: str) -> str:
    """The hexadecimal digits of a GUID, or of a MAC address that a maker gave.

    Empty where it is neither: zeros, and MAC addresses that a device made up (of bridges, of virtual machines) or that
    are of many. An InfiniBand interface's address ends with its port's GUID.
    """
    digits = re.sub("[:.-]", "", text.strip()).lower().removeprefix("0x")
    if not re.fullmatch("[0-9a-f]{12}|[0-9a-f]{16}|[0-9a-f]{40}", digits):
        return ""
    if len(digits) == MAC_DIGITS and int(digits[1], 16) & 3:
        return ""
    digits = digits[-16:]
    return digits if int(digits, 16) else ""


HOST_PORT = re.compile(r"(eth|en[opsx]|ens|enp|eno|ib|mlx|bond|rdma|bnxt|irdma|roce|be|fe)[\w.-]*\d[\w.-]*")
"""Names that Linux, and Railyard's plans, give to interfaces of hosts; those of switches begin otherwise."""

FEW = 4
"""A device with less than this part of the neighbours that its neighbours have is a host."""


def hosts_of(
    cables: Sequence[tuple[tuple[str, str], tuple[str, str]]], stations: Collection[str], forwarding: Collection[str]
) -> set[str]:
    """Devices that say that they forward nothing, have ports named as Linux names NICs, or far fewer neighbours.

    Args:
        cables: Device and port at both ends.
        stations: Devices that say that they forward nothing.
        forwarding: Devices whose ports may be called as a host's and that are none.
    """
    ports: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for (a, a_port), (b, b_port) in cables:
        ports.setdefault(a, []).append(a_port)
        ports.setdefault(b, []).append(b_port)
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    out = set(stations)
    for name, mine in near.items():
        most = max(len(near[other]) for other in mine)
        linux = all(HOST_PORT.fullmatch(port) for port in ports[name])
        if (linux and name not in forwarding) or len(mine) * FEW <= most:
            out.add(name)
    return out


_DIGITS = 18
"""Of a number in a name, at most: longer ones are no numbers."""


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts n2 before n10."""
    return tuple(
        (0, int(part), part) if re.fullmatch("[0-9]+", part) else (1, 0, part)
        for part in re.split(rf"([0-9]{{1,{_DIGITS}}})", name)
        if part
    )


@dataclass(frozen=True)
class FoundDevice:
    """A switch, or a port of a host.

    Attributes:
        key: What the discovery calls it, unique in it (a GUID, a chassis).
        name: Of the switch, or of the host that it belongs to.
        kind: "switch", "host", or "aggregation" for the reduction engine inside a switch.
        part: Of a host: the interface's name, such as mlx5_0; else empty.
        ports: How many it says that it has; 0: unknown.
        line: Where it stands in the file.
        label: What the file calls it, word by word; its name where that is empty.
        file: Which file describes it, where there are several.
        chassis: Key of the director that it is a board of; empty for a switch in a box by itself.
    """

    key: str
    name: str
    kind: str
    part: str = ""
    ports: int = 0
    line: int = 0
    label: str = ""
    file: str = ""
    chassis: str = ""

    @property
    def described(self) -> str:
        """What the file calls it."""
        return self.label or self.name


@dataclass(frozen=True)
class FoundCable:
    """A cable, each once; ends are numbers of devices.

    Attributes:
        a, b: Devices, the lower number first.
        a_port, b_port: Ports as the devices count or name them.
        rate_bps: Data rate in bits per second; 0: not said.
        line: Where it stands first.
        a_mtu, b_mtu: Largest frame that each end takes, in bytes; 0: not said.
        length_m: What its modules say of its length; 0: nothing.
        lanes: That carry data; 0: not said.
    """

    a: int
    a_port: str
    b: int
    b_port: str
    rate_bps: int = 0
    line: int = 0
    a_mtu: int = 0
    b_mtu: int = 0
    length_m: float = 0.0
    lanes: int = 0


@dataclass(frozen=True)
class Twins:
    """Devices that give the same identity as theirs, where each should have its own.

    Attributes:
        what: "GUID", "MAC address" or "name".
        value: That they share.
        devices: Their numbers.
    """

    what: str
    value: str
    devices: tuple[int, ...]


@dataclass(frozen=True)
class Discovery:
    """A network as found.

    Attributes:
        file: Where it was read.
        devices: In the order of the file.
        cables: In the order of the file.
        problems: What could not be read, with its place; the rest is there all the same.
        addresses: Device and port by what other tools of the same network call them: `lid 6`, or a port's GUID in
            hexadecimal digits, `100019`. The port of a switch's address is empty.
        twins: Devices with the same name for themselves; each is a device here.
    """

    file: str
    devices: tuple[FoundDevice, ...]
    cables: tuple[FoundCable, ...]
    problems: tuple[Problem, ...] = ()
    addresses: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    twins: tuple[Twins, ...] = ()

    def neighbours(self) -> list[list[int]]:
        """Devices at the other ends of each device's cables, as often as there are cables."""
        found: list[list[int]] = [[] for _ in self.devices]
        for cable in self.cables:
            found[cable.a].append(cable.b)
            found[cable.b].append(cable.a)
        return found
