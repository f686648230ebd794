"""A plan for PTM (the prescriptive topology manager of Cumulus): a graph whose edges are cables between named ports."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from railyard.ask.deploy.cabling import drawn, is_infiniband
from railyard.ask.deploy.emit import tables
from railyard.ask.deploy.emit.intent import hosts
from railyard.cluster.asbuilt.discovery import dialect
from railyard.cluster.asbuilt.ibnetdiscover import LANE_BPS, PORT_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.deploy.cabling import Plan
    from railyard.cluster.asbuilt.discovery import Discovery, FoundCable


MOST = 200
"""Devices that are worth a lab on one machine."""

FRR, HOST = "quay.io/frrouting/frr:10.2.1", "alpine:3.20"
"""Images."""


def lab(plan: Plan, name: str) -> str | None:
    """The file; None of what is too large, or has a network of InfiniBand, which no container plays."""
    networks = range(len(plan.networks))
    if len(plan.devices) > MOST or any(is_infiniband(plan, number) for number in networks):
        return None
    address = {host.name: host.interfaces for host in hosts(plan)}
    lines = [f"name: {name}", "topology:", "  nodes:"]
    for number, device in enumerate(plan.devices.name):
        if number < plan.devices.servers:
            lines += [*_host(device), "      exec:"]
            lines += [f"        - ip address add {own}/31 dev {port}" for port, own, _, _ in address[device]]
        elif plan.devices.level[number]:
            lines += _switch(device)
        else:
            lines += _host(device)
    lines += ["  links:", *_links(plan)]
    return "\n".join([*lines, ""])


def _host(name: str) -> list[str]:
    return [f"    {name}:", "      kind: linux", f'      image: "{HOST}"', "      network-mode: none"]


def _switch(name: str) -> list[str]:
    return [
        f"    {name}:",
        "      kind: linux",
        f'      image: "{FRR}"',
        "      network-mode: none",
        "      binds:",
        f"        - switches/{name}.frr.conf:/etc/frr/frr.conf",
    ]


def _links(plan: Plan) -> Iterator[str]:
    for number in range(len(plan.networks)):
        found = drawn(plan, number, dialect("frr"))
        for cable in found.cables:
            near, far = (found.devices[end].name for end in (cable.a, cable.b))
            yield f'    - endpoints: ["{near}:{cable.a_port}", "{far}:{cable.b_port}"]'


def dot(found: Discovery) -> str:
    """The graph; names hold no quotation marks, since plans make them of letters, digits and hyphens."""
    name = [device.name for device in found.devices]
    lines = [f'  "{name[c.a]}":"{c.a_port}" -- "{name[c.b]}":"{c.b_port}";' for c in found.cables]
    return "\n".join(["graph railyard {", *lines, "}", ""])


_HOST_GUID, _SWITCH_GUID = 0x0010_0000_0000, 0x0020_0000_0000


def netlist(found: Discovery) -> str:
    """The network; a device is called by a made-up address and its description, as real ones are."""
    ports: list[list[tuple[int, int, int, str]]] = [[] for _ in found.devices]
    for cable in found.cables:
        rate = _rate(cable)
        ports[cable.a].append((int(cable.a_port), cable.b, int(cable.b_port), rate))
        ports[cable.b].append((int(cable.b_port), cable.a, int(cable.a_port), rate))
    guid = [_guid(device.kind, number) for number, device in enumerate(found.devices)]
    key = [
        f"{'S' if device.kind == 'switch' else 'H'}-{guid[number]:016x}" for number, device in enumerate(found.devices)
    ]
    lines: list[str] = []
    for number, device in enumerate(found.devices):
        mine = sorted(ports[number])
        switch = device.kind == "switch"
        lines.append(f"{'switchguid' if switch else 'caguid'}=0x{guid[number]:x}({guid[number]:x})")
        most = max((port for port, *_ in mine), default=1)
        words = "base port 0 lid 0 lmc 0" if switch else ""
        lines.append(
            f'{"Switch" if switch else "Ca"}\t{most} "{key[number]}"\t\t# "{device.described}" {words}'.rstrip()
        )
        for port, far, far_port, rate in mine:
            own = "" if switch else f"({guid[number] + port:x})"
            end = f"({guid[far] + far_port:x})" if found.devices[far].kind != "switch" else ""
            begin = "" if switch else "lid 0 lmc 0 "
            far_name = found.devices[far].described
            lines.append(f'[{port}]{own}\t"{key[far]}"[{far_port}]{end}\t\t# {begin}"{far_name}" lid 0 {rate}')
        lines.append("")
    return "\n".join(lines)


def port_guids(found: Discovery) -> dict[str, int]:
    """Made-up addresses of the ports of hosts, by what the port is called."""
    return {
        device.described: _guid(device.kind, number) + 1
        for number, device in enumerate(found.devices)
        if device.kind != "switch"
    }


def _guid(kind: str, number: int) -> int:
    return (_SWITCH_GUID if kind == "switch" else _HOST_GUID) + 2 * number


def _rate(cable: FoundCable) -> str:
    """`4xNDR`: the generation whose four lanes carry at least the rate."""
    for name, lane in LANE_BPS.items():
        if PORT_LANES * lane >= cable.rate_bps * (1 - 1e-9):
            return f"{PORT_LANES}x{name}"
    return f"{PORT_LANES}xXDR"


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
