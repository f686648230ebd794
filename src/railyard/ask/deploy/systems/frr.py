"""FRR's `frr.conf`: BGP unnumbered (RFC 5549, RFC 7938) with ECMP and BFD; tenants as VRFs, or as VRFs with EVPN."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_interface
from typing import TYPE_CHECKING

from railyard.ask.deploy import system
from railyard.ask.deploy.configured import ALL, Configured, Line, indented, network
from railyard.ask.deploy.emit.intent import HOLD_S, KEEPALIVE_S, MAX_PATHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railyard.ask.deploy.emit.intent import Access, SwitchIntent
    from railyard.ask.deploy.tenants import Vrf


def render(intent: SwitchIntent) -> str:
    """The file of one switch; FRR cannot set queues, so that these are no part of it."""
    lines = ["frr defaults datacenter", f"hostname {intent.name}", "service integrated-vtysh-config", "!"]
    lines += [*_tables(intent), "interface lo", f" ip address {intent.loopback}/32", *_interfaces(intent), "!"]
    return "\n".join([*lines, *_instances(intent, _lane, dual=True), ""])


def routing(intent: SwitchIntent, lane: Callable[[str, Vrf], str]) -> list[str]:
    """Tables of tenants and BGP alone: where something else makes ports and gives them addresses."""
    return [*_tables(intent), *_instances(intent, lane, dual=False)]


def _lane(port: str, vrf: Vrf) -> str:
    return f"{port}.{vrf.vlan}"


def _tables(intent: SwitchIntent) -> list[str]:
    lines: list[str] = []
    for vrf in intent.vrfs:
        lines += [f"vrf {vrf.name}", *([f" vni {vrf.number}"] if intent.by == "evpn" else []), "exit-vrf", "!"]
    return lines


def _instances(intent: SwitchIntent, lane: Callable[[str, Vrf], str], *, dual: bool) -> list[str]:
    """BGP of all tables; with `dual` of servers' IPv6 too (the fabric's own addresses are IPv4's alone)."""
    prefixes6 = [f"{one.address6}/127" for one in intent.access_of("")] if dual else None
    described = [f" neighbor {one.port} description {one.neighbour}[{one.neighbour_port}]" for one in intent.sessions]
    neighbours = [*_peers(one.port for one in intent.sessions), *described]
    lines = _bgp(intent, "", neighbours, list(intent.announced), prefixes6)
    lines += ["!"] if intent.by != "evpn" else [*_overlay(intent), "!"]
    for vrf in intent.vrfs:
        lanes = _peers(lane(one.port, vrf) for one in intent.sessions if vrf in one.vrfs)
        prefixes = [f"{one.address}/31" for one in intent.access_of(vrf.name)]
        prefixes6 = [f"{one.address6}/127" for one in intent.access_of(vrf.name)] if dual else None
        lines += _bgp(intent, f" vrf {vrf.name}", lanes, prefixes, prefixes6)
        lines += [*(_exported(intent, vrf, dual=dual) if intent.by == "evpn" else []), "!"]
    return lines


def _bgp(
    intent: SwitchIntent, vrf: str, neighbours: list[str], prefixes: list[str], prefixes6: list[str] | None
) -> list[str]:
    """One instance of BGP: its neighbours, and what it announces; nothing of IPv6 where that is None."""
    return [
        f"router bgp {intent.asn}{vrf}",
        f" bgp router-id {intent.loopback}",
        " bgp bestpath as-path multipath-relax",
        " no bgp ebgp-requires-policy",
        " no bgp default ipv4-unicast",
        f" timers bgp {KEEPALIVE_S} {HOLD_S}",
        " neighbor fabric peer-group",
        " neighbor fabric remote-as external",
        " neighbor fabric capability extended-nexthop",
        " neighbor fabric bfd",
        *neighbours,
        *_family("ipv4", prefixes),
        *([] if prefixes6 is None else _family("ipv6", prefixes6)),
    ]


def _peers(ports: Iterable[str]) -> list[str]:
    return [f" neighbor {port} interface peer-group fabric" for port in ports]


def _family(name: str, prefixes: list[str]) -> list[str]:
    return [
        f" address-family {name} unicast",
        *(f"  network {prefix}" for prefix in prefixes),
        "  neighbor fabric activate",
        f"  maximum-paths {MAX_PATHS}",
        " exit-address-family",
    ]


def _overlay(intent: SwitchIntent) -> list[str]:
    """EVPN over the sessions of the fabric; spines pass its routes on and have none of its tables."""
    own = ["  advertise-all-vni"] if intent.leaf else []
    return [" address-family l2vpn evpn", "  neighbor fabric activate", *own, " exit-address-family"]


def _exported(intent: SwitchIntent, vrf: Vrf, *, dual: bool) -> list[str]:
    return [
        " address-family l2vpn evpn",
        f"  rd {intent.loopback}:{vrf.vlan}",
        f"  route-target import {vrf.target}",
        f"  route-target export {vrf.target}",
        "  advertise ipv4 unicast",
        *(["  advertise ipv6 unicast"] if dual else []),
        " exit-address-family",
    ]


def _interfaces(intent: SwitchIntent) -> list[str]:
    lines: list[str] = []
    heard = [" ipv6 nd ra-interval 1", " no ipv6 nd suppress-ra"]
    for one in intent.sessions:
        lines += ["!", f"interface {one.port}", *heard]
        for vrf in one.vrfs:
            lines += ["!", f"interface {_lane(one.port, vrf)} vrf {vrf.name}", *heard]
    for access in intent.access:
        of = f" vrf {access.vrf}" if access.vrf else ""
        lines += ["!", f"interface {access.port}{of}", f" description {access.neighbour}[{access.neighbour_port}]"]
        lines += [f" ip address {access.address}/31", f" ipv6 address {access.address6}/127"]
    return lines


def interfaces(intent: SwitchIntent) -> str:
    """What tenants need of the kernel, in the words of ifupdown2: devices that FRR routes over, shares of ports.

    Returns:
        The file; empty where nobody shares the switch.
    """
    blocks = [[f"auto {vrf.name}", f"iface {vrf.name}", "    vrf-table auto"] for vrf in intent.vrfs]
    for one in intent.sessions:
        blocks += [
            [f"auto {_lane(one.port, vrf)}", f"iface {_lane(one.port, vrf)}", f"    vrf {vrf.name}"] for vrf in one.vrfs
        ]
    for access in intent.access:
        lines = [*([f"    vrf {access.vrf}"] if access.vrf else []), *_shaper(access)]
        blocks += [[f"auto {access.port}", f"iface {access.port}", *lines]] if lines else []
    if intent.by == "evpn" and intent.vrfs:
        blocks += _tunnels(intent)
    return "\n".join("\n".join([*block, ""]) for block in blocks)


def _shaper(access: Access) -> list[str]:
    """A tenant's share of what the port sends: a token bucket of a millisecond, bytes by powers of two."""
    if not access.shaped_bps:
        return []
    burst = 1 << (access.shaped_bps // 8000 - 1).bit_length()
    bucket = f"root tbf rate {access.shaped_bps}bit burst {burst} latency 1ms"
    return [f"    post-up tc qdisc replace dev {access.port} {bucket}"]


def _tunnels(intent: SwitchIntent) -> list[list[str]]:
    """A bridge that knows VLANs, and of each tenant its tunnel and its interface in the VRF."""
    ports = " ".join(f"vni{vrf.number}" for vrf in intent.vrfs)
    vlans = " ".join(str(vrf.vlan) for vrf in intent.vrfs)
    bridge = ["    bridge-vlan-aware yes", f"    bridge-ports {ports}", f"    bridge-vids {vlans}"]
    blocks = [["auto bridge", "iface bridge", *bridge]]
    for vrf in intent.vrfs:
        tunnel = [f"    vxlan-id {vrf.number}", f"    vxlan-local-tunnelip {intent.loopback}"]
        tunnel += [f"    bridge-access {vrf.vlan}", "    bridge-learning off"]
        blocks.append([f"auto vni{vrf.number}", f"iface vni{vrf.number}", *tunnel])
        svi = [f"    vlan-id {vrf.vlan}", "    vlan-raw-device bridge", f"    vrf {vrf.name}"]
        blocks.append([f"auto vlan{vrf.vlan}", f"iface vlan{vrf.vlan}", *svi])
    return blocks


def facts(text: str) -> system.Facts:
    """Reads the facts of `facts.conf`."""
    lines, interfaces = system.lines_of(text), system.sections(text, "interface")
    sessions = {m[1] for line in lines if (m := re.fullmatch(r"neighbor ([^\s.]+) interface peer-group \S+", line))}
    return {
        "asn": int(system.first_match(r"router bgp (\d+)", lines)),
        "loopback": system.first_match(r"bgp router-id (\S+)", lines),
        "sessions": sessions,
        "access": system.port_addresses(interfaces, r"ip address (\S+)/31"),
        "announced": {m[1] for line in lines if (m := re.fullmatch(r"network ([\d.]+/\d+)", line))},
        "bfd": "neighbor fabric bfd" in lines,
    }


_ROUTES = {
    family: re.compile(rf"{word} route (\S+) (?:\S+ )?nexthop-vrf (\S+)") for family, word in ((4, "ip"), (6, "ipv6"))
}
"""Static routes into another table, by family."""


_WORD = {4: "ip", 6: "ipv6"}


def read(name: str, first: system.File, devices: system.File, family: int) -> Configured:
    """What files say of tenants; tables, tunnels and neighbours are of both families. See `SwitchSystem`."""
    found = Configured(name)
    kernel = _Devices()
    for above, line in indented(*devices):
        kernel.take(found, above, line)
    kernel.tunnels(found)
    frr_routing(found, *first, family)
    return found


def frr_routing(found: Configured, file: str, text: str, family: int = 4) -> None:
    """Takes what FRR's own file says into a switch whose devices are known."""
    for above, line in indented(file, text):
        head = above[0].split() if above else line.text.split()
        if head[:2] == ["router", "bgp"]:
            _read_bgp(found, head, above, line, family)
        elif head[0] == "interface":
            _read_interface(found, head, line, family)
        elif head[0] == "vrf":
            _read_vrf(found, head[1], line, family)
        elif (match := _ROUTES[family].match(line.text)) is not None:
            found.table(ALL).leak(network(match[1]), match[2], line)
    for table in found.tables.values():  # FRR exports no routes of a table whose tunnel is not there
        if table.lines.get("vni") is None:
            table.lines.pop("overlay", None)


class _Devices:
    """Tunnels, their VLANs and the tables of these: what a VNI leads to is the kernel's matter, not FRR's."""

    def __init__(self) -> None:
        self.vni: dict[str, tuple[int, Line]] = {}
        self.vlan_of: dict[str, str] = {}
        self.table_of: dict[str, str] = {}
        self.vlan: dict[str, str] = {}

    def take(self, found: Configured, above: tuple[str, ...], line: Line) -> None:
        if not above or not above[0].startswith("iface "):
            return
        device, words = above[0].split()[1], line.text.split()
        if words[0] == "vrf":
            found.set_port(device, "vrf", words[1], line)
            self.table_of[device] = words[1]
        elif words[0] == "vxlan-id":
            self.vni[device] = int(words[1]), line
        elif words[0] == "bridge-access":
            self.vlan_of[device] = words[1]
        elif words[0] == "vlan-id":
            self.vlan[words[1]] = device

    def tunnels(self, found: Configured) -> None:
        for device, (number, line) in self.vni.items():
            svi = self.vlan.get(self.vlan_of.get(device, ""), "")
            if svi in self.table_of:
                found.table(self.table_of[svi]).tunnel(number, line, "tunnel")


def _read_interface(found: Configured, head: list[str], line: Line, family: int) -> None:
    name = head[1]
    of = head[3] if len(head) > 3 and head[2] == "vrf" else None
    words = line.text.split()
    if words[1:2] != ["address"] or words[0] not in ("ip", "ipv6"):
        return
    if name == "lo" and words[0] == "ip":
        found.loopback = words[2].split("/")[0]
        return
    port = found.port(name)
    if words[0] != _WORD[family]:
        return
    if of is None or of == port.vrf:  # else it is about a device of the same name in another table
        found.set_port(name, "address", ip_interface(words[2]), line)


def _read_vrf(found: Configured, name: str, line: Line, family: int) -> None:
    table, words = found.table(name), line.text.split()
    if words[0] == "vni" and int(words[1]) == table.vni:
        table.lines["vni"] = line
    match = _ROUTES[family].match(line.text)
    if match is not None:
        table.leak(network(match[1]), match[2], line)


def _read_bgp(found: Configured, head: list[str], above: tuple[str, ...], line: Line, family: int) -> None:
    vrf = head[4] if len(head) > 4 else ALL
    table, words = found.table(vrf), line.text.split()
    if not above:
        found.asn = int(head[2]) if vrf == ALL else found.asn
        return
    within = above[1] if len(above) > 1 else ""
    mine = within.split()[1:2] == [f"ipv{family}"]
    if words[0] == "neighbor" and "interface" in words:
        table.neighbors[words[1]] = line
    elif words[0] == "neighbor" and words[-1] == "activate":
        if within.endswith("l2vpn evpn"):
            found.overlay = line
        elif mine:
            table.lines["active"] = line
    elif words[0] == "network" and mine:
        table.announced[network(words[1])] = line
    elif words[:2] == ["import", "vrf"] and words[2] != "route-map" and mine:
        table.leak(None, words[2], line)
    elif words[0] == "route-target":
        table.target(words[1], words[2:], line)
    elif line.text == f"advertise ipv{family} unicast":
        table.lines["overlay"] = line


FRR = system.systems.add(
    "frr",
    system.SwitchSystem(
        "frr",
        "frr.conf",
        render,
        system.routing_facts,
        facts,
        read,
        "interfaces",
        interfaces,
        families=(4, 6),
        filters=False,
    ),
)
