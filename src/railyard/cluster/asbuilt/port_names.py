"""Names of switch ports in the dialects of network operating systems: `swp1s0`, `Ethernet8`, `Et1/1`, `et-0/0/0:1`.

A cage is what a module is plugged into, counted from 1; a lane is one of the ports that it is broken out into, counted
from 0, or None where it is one port.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from railyard.kit.errors import InputError, did_you_mean

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
