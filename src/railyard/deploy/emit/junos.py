"""Junos as `set` commands: BGP unnumbered, ECMP, BFD, and classes of service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.deploy.emit.intent import BFD_MS, CNP, DSCP_CNP, DSCP_ROCE, LOSSLESS

if TYPE_CHECKING:
    from railyard.deploy.emit.intent import SwitchIntent


def render(intent: SwitchIntent) -> str:
    """The file of one switch; marks are in shares of the buffer on Junos, so that WRED is left to its operator."""
    group = "set protocols bgp group fabric"
    lines = [
        f"set system host-name {intent.name}",
        f"set interfaces lo0 unit 0 family inet address {intent.loopback}/32",
        f"set routing-options router-id {intent.loopback}",
        f"set routing-options autonomous-system {intent.asn}",
        "set routing-options forwarding-table export ecmp",
        "set policy-options policy-statement ecmp then load-balance per-flow",
        f"{group} type external",
        f"{group} multipath multiple-as",
        f"{group} family inet unicast extended-nexthop",
        f"{group} bfd-liveness-detection minimum-interval {BFD_MS}",
        f"{group} export announce",
    ]
    for one in intent.ports:
        lines.append(f'set interfaces {one.port} description "{one.neighbour}[{one.neighbour_port}]"')
        lines.append(f"set interfaces {one.port} mtu {intent.mtu}")
        lines.append(f"set interfaces {one.port} speed {one.rate_bps // 1_000_000_000}g")
    for session in intent.sessions:
        lines.append(f"set interfaces {session.port} unit 0 family inet6")
        lines.append(f"set protocols router-advertisement interface {session.port}.0")
        lines.append(
            f"{group} dynamic-neighbor peers peer-auto-discovery family inet6 ipv6-nd interface {session.port}.0"
        )
    lines += [f"set interfaces {one.port} unit 0 family inet address {one.address}/31" for one in intent.access]
    prefixes = [f"{intent.loopback}/32", *(f"{one.address}/31" for one in intent.access)]
    lines += [
        f"set policy-options policy-statement announce term own from route-filter {one} exact" for one in prefixes
    ]
    lines.append("set policy-options policy-statement announce term own then accept")
    return "\n".join([*lines, *_classes(intent), ""])


def _classes(intent: SwitchIntent) -> list[str]:
    cos = "set class-of-service"
    lines = [
        f"{cos} classifiers dscp roce forwarding-class lossless loss-priority low code-points {DSCP_ROCE:06b}",
        f"{cos} classifiers dscp roce forwarding-class control loss-priority low code-points {DSCP_CNP:06b}",
        f"{cos} forwarding-classes class lossless queue-num {LOSSLESS}" + (" no-loss" if intent.pauses else ""),
        f"{cos} forwarding-classes class control queue-num {CNP}",
    ]
    if intent.pauses:
        lines.append(f"{cos} forwarding-classes class lossless pfc-priority {LOSSLESS}")
        lines.append(f"{cos} congestion-notification-profile roce input dscp code-point {DSCP_ROCE:06b} pfc")
    for one in intent.ports:
        lines.append(f"{cos} interfaces {one.port} unit 0 classifiers dscp roce")
        if intent.pauses:
            lines.append(f"{cos} interfaces {one.port} congestion-notification-profile roce")
        if intent.marks:
            lines.append(f"{cos} interfaces {one.port} scheduler-map roce explicit-congestion-notification")
    return lines
