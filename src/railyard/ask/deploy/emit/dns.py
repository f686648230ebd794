"""Names of a plan as zones (RFC 1035, RFC 3596): one forward, and one backwards for each family of addresses."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from railyard.ask.deploy.emit import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.plan.cabling import Plan

ZONE = "cluster.internal."
"""Of names: a domain that the root never delegates (ICANN, 2024); the file can be put under any other."""

BACKWARDS = "10.in-addr.arpa."
"""All addresses of a plan are in 10.0.0.0/8."""

BACKWARDS6 = "0.0.d.f.ip6.arpa."
"""All of a plan's IPv6 addresses are in fd00::/16."""

_HEAD = """$ORIGIN {zone}
$TTL 3600
@ IN SOA ns.{name} hostmaster.{name} 1 3600 600 604800 60
@ IN NS ns.{name}
"""


def files(plan: Plan) -> Iterator[tuple[str, str]]:
    """Names and texts of the zones; a server goes by its first interface, and by each; `ns` is who loads them."""
    hosts, devices = tables.addresses(plan), tables.devices(plan)
    forward = [_HEAD.format(zone=ZONE, name=ZONE), "ns IN A 127.0.0.1\n"]
    backward = [_HEAD.format(zone=BACKWARDS, name=ZONE)]
    backward6 = [_HEAD.format(zone=BACKWARDS6, name=ZONE)]
    seen: set[str] = set()
    rows = hosts.select("device", "name", "ipv4", "ipv6").rows()
    for device, name, ipv4, ipv6 in rows:
        own = [name] if device in seen else [device, name]
        seen.add(device)
        forward += [f"{one} IN A {ipv4}\n{one} IN AAAA {ipv6}\n" for one in own]
        backward.append(f"{_back(ipv4)} IN PTR {name}.{ZONE}\n")
        backward6.append(f"{_back6(ipv6)} IN PTR {name}.{ZONE}\n")
    for device, loopback in devices.select("device", "loopback").rows():
        if loopback is not None:
            forward.append(f"{device} IN A {loopback}\n")
            backward.append(f"{_back(loopback)} IN PTR {device}.{ZONE}\n")
    yield f"dns/{ZONE}zone", "".join(forward)
    yield f"dns/{BACKWARDS}zone", "".join(backward)
    yield f"dns/{BACKWARDS6}zone", "".join(backward6)


def _back(address: str) -> str:
    """`1.0.0` of 10.0.0.1, below `BACKWARDS`."""
    return ".".join(reversed(address.split(".")[1:]))


def _back6(address: str) -> str:
    """The 28 digits of an address below `BACKWARDS6`, the last first."""
    return ".".join(reversed(f"{int(IPv6Address(address)):032x}"[4:]))
