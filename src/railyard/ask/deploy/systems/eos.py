"""Arista EOS: BGP unnumbered, ECMP, BFD, and queues; tenants by VRFs, EVPN or access lists."""

from __future__ import annotations

import re
from fractions import Fraction
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

from railyard.ask.deploy import system
from railyard.ask.deploy.configured import ALL, Configured, FilterRule, Line, RouteTable, indented, network, table_name
from railyard.ask.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS, MAX_PATHS, headroom

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import Access, SwitchIntent, SwitchPort
    from railyard.ask.deploy.tenants import Vrf

PROFILE = "lossless"
"""Buffer profiles by name."""


def render(intent: SwitchIntent) -> str:
    """The file of one switch; EOS takes at most 128 paths."""
    peers = [f"   neighbor interface {one.port} peer-group FABRIC remote-as external" for one in intent.sessions]
    return "\n".join(
        [
            f"hostname {intent.name}",
            "!",
            "ip routing ipv6 interfaces",
            "ipv6 unicast-routing",
            *(line for vrf in intent.vrfs for line in (f"vrf instance {vrf.name}", f"ip routing vrf {vrf.name}")),
            *_lists(intent),
            "!",
            f"qos map dscp {DSCP_ROCE} to traffic-class {LOSSLESS}",
            f"qos map dscp {DSCP_CNP} to traffic-class {CNP}",
            *(["priority-flow-control pause watchdog default timeout 0.2"] if intent.pauses else []),
            *_buffers(intent),
            "!",
            "interface Loopback0",
            f"   ip address {intent.loopback}/32",
            *(line for one in intent.sessions for line in _port(one, intent, ["   ipv6 enable"])),
            *(line for one in intent.sessions for vrf in one.vrfs for line in _lane(one, vrf)),
            *(line for one in intent.access for line in _port(one, intent, _attached(one))),
            *_tunnel(intent),
            "!",
            f"router bgp {intent.asn}",
            f"   router-id {intent.loopback}",
            "   bgp bestpath as-path multipath-relax",
            f"   maximum-paths {MAX_PATHS} ecmp {MAX_PATHS}",
            "   neighbor FABRIC peer group",
            "   neighbor FABRIC bfd",
            *peers,
            "   address-family ipv4",
            "      neighbor FABRIC activate",
            "      neighbor FABRIC next-hop address-family ipv6 originate",
            *(f"      network {prefix}" for prefix in intent.announced),
            *_overlay(intent),
            *(line for vrf in intent.vrfs for line in _table(intent, vrf)),
            "!",
            "end",
            "",
        ]
    )


def _attached(one: Access) -> list[str]:
    """Lines of a server's port: its owner, its address, what it may reach, and its highest rate."""
    vrf = [f"   vrf {one.vrf}"] if one.vrf else []
    bound = [f"   ip access-group {one.filter} in"] if one.permits else []
    shaped = [f"   shape rate {one.shaped_bps // 1000} kbps"] if one.shaped_bps else []
    return [*vrf, f"   ip address {one.address}/31", *bound, *shaped]


def _lists(intent: SwitchIntent) -> list[str]:
    """Access lists by the tenants of the switch; what they do not permit is dropped."""
    lines: list[str] = []
    for name, permits in sorted({(one.filter, one.permits) for one in intent.access if one.permits}):
        lines += ["!", f"ip access-list {name}"]
        lines += [f"   {10 * number} permit ip any {prefix}" for number, prefix in enumerate(permits, start=1)]
    return lines


def _lane(one: SwitchPort, vrf: Vrf) -> list[str]:
    head = ["!", f"interface {one.port}.{vrf.vlan}", f"   encapsulation dot1q vlan {vrf.vlan}"]
    return [*head, f"   vrf {vrf.name}", "   ipv6 enable"]


def _overlay(intent: SwitchIntent) -> list[str]:
    """EVPN over the sessions of the fabric; spines leave next hops as they are."""
    if intent.by != "evpn":
        return []
    kept = [] if intent.leaf else ["      bgp next-hop-unchanged"]
    return ["   address-family evpn", "      neighbor FABRIC activate", *kept]


def _tunnel(intent: SwitchIntent) -> list[str]:
    if intent.by != "evpn" or not intent.vrfs:
        return []
    maps = [f"   vxlan vrf {vrf.name} vni {vrf.number}" for vrf in intent.vrfs]
    return ["!", "interface Vxlan1", "   vxlan source-interface Loopback0", "   vxlan udp-port 4789", *maps]


def _table(intent: SwitchIntent, vrf: Vrf) -> list[str]:
    lines = [f"   vrf {vrf.name}", f"      router-id {intent.loopback}"]
    if intent.by == "evpn":
        lines += [f"      rd {intent.loopback}:{vrf.vlan}", f"      route-target import evpn {vrf.target}"]
        lines += [f"      route-target export evpn {vrf.target}"]
    for one in intent.sessions:
        if vrf in one.vrfs:
            lines.append(f"      neighbor interface {one.port}.{vrf.vlan} peer-group FABRIC remote-as external")
    lines += ["      address-family ipv4"]
    lines += ["         neighbor FABRIC activate", "         neighbor FABRIC next-hop address-family ipv6 originate"]
    return [*lines, *(f"         network {one.address}/31" for one in intent.access_of(vrf.name))]


def _buffers(intent: SwitchIntent) -> list[str]:
    """Headroom of every port, as large as the one that needs most: EOS takes one profile for all."""
    if not intent.pauses or not intent.ports:
        return []
    room = max(headroom(one.rate_bps, one.length_m, asic=intent.asic).xoff for one in intent.ports)
    profile = f"platform trident mmu queue profile {PROFILE}"
    share = [] if intent.alpha == 1.0 else [f"    ingress threshold {_share(intent.alpha)}"]
    return ["!", profile, *share, f"    ingress headroom bytes {room}", "!", f"{profile} apply"]


def _share(alpha: float) -> str:
    return f"{alpha:g}" if alpha >= 1.0 else f"1/{round(1 / alpha)}"


def _port(one: SwitchPort, intent: SwitchIntent, layer3: list[str]) -> list[str]:
    low, high, most = intent.red
    lines = [
        "!",
        f"interface {one.port}",
        f"   description {one.neighbour}[{one.neighbour_port}]",
        f"   mtu {intent.mtu}",
    ]
    lines += [f"   speed {one.rate_bps // 1_000_000_000}g", "   no switchport", *layer3]
    if intent.pauses:
        lines += ["   priority-flow-control on", f"   priority-flow-control priority {LOSSLESS} no-drop"]
    if intent.marks:
        marks = f"minimum-threshold {low} bytes maximum-threshold {high} bytes max-mark-probability {most}"
        lines += [f"   uc-tx-queue {LOSSLESS}", f"      random-detect ecn {marks}"]
    return lines


def facts(text: str) -> system.Facts:
    """Facts of a running configuration of EOS."""
    lines, interfaces = system.lines_of(text), system.sections(text, "interface")
    ports = {
        port: rows
        for port, rows in interfaces.items()
        if not port.startswith(("Loopback", "Vxlan")) and "." not in port
    }
    tc = {
        int(m[1]): int(m[2])
        for line in lines
        if (m := re.fullmatch(r"qos map dscp (\d+) to traffic-class (\d+)", line))
    }
    return {
        "asn": int(system.first_match(r"router bgp (\d+)", lines)),
        "loopback": system.first_match(r"router-id (\S+)", lines),
        "sessions": {
            m[1]
            for line in lines
            if (m := re.fullmatch(r"neighbor interface ([^\s.]+) peer-group \S+ remote-as external", line))
        },
        "access": system.port_addresses(ports, r"ip address (\S+)/31"),
        "announced": {m[1] for line in lines if (m := re.fullmatch(r"network (\S+)", line))},
        "bfd": "neighbor FABRIC bfd" in lines,
        "mtu": {port: int(system.first_match(r"mtu (\d+)", rows)) for port, rows in ports.items()},
        "rate_bps": {port: int(system.first_match(r"speed (\d+)g", rows)) * 10**9 for port, rows in ports.items()},
        "roce": (26, tc.get(26)),
        "cnp": (48, tc.get(48)),
        "pfc": {port for port, rows in ports.items() if "priority-flow-control priority 3 no-drop" in rows},
        "ecn": {port for port, rows in ports.items() if any(row.startswith("random-detect ecn") for row in rows)},
        "red": {
            tuple(map(int, m.groups())) for rows in ports.values() for row in rows if (m := re.fullmatch(_MARKS, row))
        },
        "alpha": {float(Fraction(word)) for word in _profile(text, lines, r"ingress threshold (\S+)")},
        "headroom": _headroom(text, lines, list(ports)),
    }


_MARKS = r"random-detect ecn minimum-threshold (\d+) bytes maximum-threshold (\d+) bytes max-mark-probability (\d+)"


def _profile(text: str, lines: list[str], pattern: str) -> list[str]:
    head = "platform trident mmu queue profile"
    active = system.first_match(rf"{head} (\S+) apply", lines)
    return [m[1] for line in system.sections(text, head).get(active, []) if (m := re.fullmatch(pattern, line))]


def _headroom(text: str, lines: list[str], ports: list[str]) -> dict[str, system.Sizes]:
    """Headroom of the applied buffer profile; empty if there is none, or its unit is cells."""
    rooms = [int(word) for word in _profile(text, lines, r"ingress headroom bytes (\d+)")]
    return {port: {"xoff": rooms[0]} for port in ports} if rooms else {}


_ROUTE = re.compile(r"ip route (?:vrf (\S+) )?(\S+) egress-vrf (\S+)")


_RULE = re.compile(r"(?:\d+ )?(permit|deny) ip any (any|host \S+|\S+)")


def read(name: str, first: system.File, _second: system.File, _family: int) -> Configured:
    """Reads the tenants of a file; see `SwitchSystem`."""
    found = Configured(name)
    for above, line in indented(*first):
        head = above[0].split() if above else line.text.split()
        if head[:2] == ["router", "bgp"]:
            _read_bgp(found, head, above, line)
        elif head[0] == "interface":
            _read_interface(found, head[1], line)
        elif head[:2] == ["ip", "access-list"] and above:
            _read_rule(found, head[-1], line)
        elif (match := _ROUTE.match(line.text)) is not None:
            found.table(table_name(match[1] or "default")).leak(network(match[2]), match[3], line)
    return found


def _read_interface(found: Configured, name: str, line: Line) -> None:
    words = line.text.split()
    if name.startswith("Loopback"):
        if words[:2] == ["ip", "address"]:
            found.loopback = words[2].split("/")[0]
    elif words[:2] == ["vxlan", "vrf"]:
        found.table(words[2]).tunnel(int(words[4]), line)
    elif words[0] == "vrf":
        found.set_port(name, "vrf", table_name(words[1]), line)
    elif words[:2] == ["ip", "address"]:
        found.set_port(name, "address", IPv4Interface(words[2]), line)
    elif words[:2] == ["ip", "access-group"] and words[-1] == "in":
        found.set_port(name, "filter", words[2], line)


def _read_rule(found: Configured, name: str, line: Line) -> None:
    match = _RULE.fullmatch(line.text)
    if match is None:
        return
    target = "0.0.0.0/0" if match[2] == "any" else match[2].removeprefix("host ")
    found.filters.setdefault(name, []).append(FilterRule(match[1] == "permit", network(target), line))


def _read_bgp(found: Configured, head: list[str], above: tuple[str, ...], line: Line) -> None:
    if not above:
        found.asn = int(head[2])
        return
    inner = list(above[1:])
    vrf = ALL
    if inner and inner[0].startswith("vrf "):
        vrf = table_name(inner.pop(0).split()[1])
    _read_instance(found, found.table(vrf), inner[0] if inner else "", line)


def _read_instance(found: Configured, table: RouteTable, family: str, line: Line) -> None:
    words = line.text.split()
    if words[:2] == ["neighbor", "interface"]:
        table.neighbors[words[2]] = line
    elif words[0] == "neighbor" and words[-1] == "activate":
        if family == "address-family evpn":
            found.overlay = line
        else:
            table.lines["active"] = line
    elif words[0] == "network":
        table.announced[network(words[1])] = line
    elif words[0] == "route-target":
        table.target(words[1], words[-1:], line)
        if words[1] == "export":
            table.lines["overlay"] = line  # EOS puts routes into EVPN where they have a target


EOS = system.systems.add("eos", system.SwitchSystem("eos", "eos.cfg", render, system.port_facts, facts, read))
