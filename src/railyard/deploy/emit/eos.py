"""Arista EOS: BGP unnumbered, ECMP, BFD, and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.deploy.emit.intent import CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS, MAX_PATHS

if TYPE_CHECKING:
    from railyard.deploy.emit.intent import Port, SwitchIntent


def render(intent: SwitchIntent) -> str:
    """The file of one switch; EOS takes at most 128 paths."""
    peers = [f"   neighbor interface {one.port} peer-group FABRIC remote-as external" for one in intent.sessions]
    networks = [f"{intent.loopback}/32", *(f"{one.address}/31" for one in intent.access)]
    return "\n".join(
        [
            f"hostname {intent.name}",
            "!",
            "ip routing ipv6 interfaces",
            "ipv6 unicast-routing",
            "!",
            f"qos map dscp {DSCP_ROCE} to traffic-class {LOSSLESS}",
            f"qos map dscp {DSCP_CNP} to traffic-class {CNP}",
            *(["priority-flow-control pause watchdog default timeout 0.2"] if intent.pauses else []),
            "!",
            "interface Loopback0",
            f"   ip address {intent.loopback}/32",
            *(line for one in intent.sessions for line in _port(one, intent, ["   ipv6 enable"])),
            *(line for one in intent.access for line in _port(one, intent, [f"   ip address {one.address}/31"])),
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
            *(f"      network {prefix}" for prefix in networks),
            "!",
            "end",
            "",
        ]
    )


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
