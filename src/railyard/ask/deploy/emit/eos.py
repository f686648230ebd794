"""Arista EOS: BGP unnumbered, ECMP, BFD, and queues; tenants by VRFs, EVPN or access lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS, MAX_PATHS, headroom

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import Access, Port, SwitchIntent
    from railyard.ask.deploy.tenants import Vrf

PROFILE = "lossless"
"""Of buffers, by name."""


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
    """Of a server's port: whose it is, its address, what it may reach, and what it gets at most."""
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


def _lane(one: Port, vrf: Vrf) -> list[str]:
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


def _port(one: Port, intent: SwitchIntent, layer3: list[str]) -> list[str]:
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
