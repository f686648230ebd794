"""FRR's `frr.conf`: BGP unnumbered (RFC 5549, RFC 7938) with ECMP and BFD."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.deploy.emit.intent import HOLD_S, KEEPALIVE_S, MAX_PATHS

if TYPE_CHECKING:
    from railyard.deploy.emit.intent import SwitchIntent


def render(intent: SwitchIntent) -> str:
    """The file of one switch; FRR cannot set queues, so that these are no part of it."""
    sessions = [f" neighbor {one.port} interface peer-group fabric" for one in intent.sessions]
    described = [f" neighbor {one.port} description {one.neighbour}[{one.neighbour_port}]" for one in intent.sessions]
    networks = [f"  network {intent.loopback}/32", *(f"  network {one.address}/31" for one in intent.access)]
    return "\n".join(
        [
            "frr defaults datacenter",
            f"hostname {intent.name}",
            "service integrated-vtysh-config",
            "!",
            "interface lo",
            f" ip address {intent.loopback}/32",
            *_interfaces(intent),
            "!",
            f"router bgp {intent.asn}",
            f" bgp router-id {intent.loopback}",
            " bgp bestpath as-path multipath-relax",
            " no bgp ebgp-requires-policy",
            " no bgp default ipv4-unicast",
            f" timers bgp {KEEPALIVE_S} {HOLD_S}",
            " neighbor fabric peer-group",
            " neighbor fabric remote-as external",
            " neighbor fabric capability extended-nexthop",
            " neighbor fabric bfd",
            *sessions,
            *described,
            " address-family ipv4 unicast",
            *networks,
            "  neighbor fabric activate",
            f"  maximum-paths {MAX_PATHS}",
            " exit-address-family",
            "!",
            "",
        ]
    )


def _interfaces(intent: SwitchIntent) -> list[str]:
    lines: list[str] = []
    for one in intent.sessions:
        lines += ["!", f"interface {one.port}", " ipv6 nd ra-interval 1", " no ipv6 nd suppress-ra"]
    for access in intent.access:
        lines += ["!", f"interface {access.port}", f" description {access.neighbour}[{access.neighbour_port}]"]
        lines += [f" ip address {access.address}/31"]
    return lines
