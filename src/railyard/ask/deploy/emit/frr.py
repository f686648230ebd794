"""FRR's `frr.conf`: BGP unnumbered (RFC 5549, RFC 7938) with ECMP and BFD; tenants as VRFs, or as VRFs with EVPN."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Tables of tenants and BGP alone: where something else makes ports and gives them addresses.

    Args:
        intent: The switch, with names of VRFs as they are there.
        lane: Name of a tenant's VLAN of a port.
    """
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
