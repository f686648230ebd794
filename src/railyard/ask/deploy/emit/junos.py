"""Junos as `set` commands: BGP unnumbered, ECMP, BFD, classes of service; tenants by instances, EVPN or filters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.intent import BFD_MS, CNP, DSCP_CNP, DSCP_ROCE, FRAME, LOSSLESS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.tenants import Vrf


THRESHOLD_OF_ONE = 7
"""Junos' dynamic-threshold that is once the free buffer; each step more is twice as much (0: 1/128, 10: 8)."""


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
    lines += [f"set interfaces {one.port} flexible-vlan-tagging" for one in intent.sessions if one.vrfs]
    lines += [f"set interfaces {one.port} unit 0 family inet address {one.address}/31" for one in intent.access]
    shaped = "set class-of-service interfaces {} shaping-rate {}"
    lines += [shaped.format(one.port, one.shaped_bps) for one in intent.access if one.shaped_bps]
    lines += _announced("announce", intent.announced)
    if intent.by == "evpn":
        lines.append(f"{group} family evpn signaling")
        lines += [] if intent.leaf else [f"{group} multihop no-nexthop-change"]
    for vrf in intent.vrfs:
        lines += _instance(intent, vrf)
    return "\n".join([*lines, *_filters(intent), *_classes(intent), ""])


def _announced(policy: str, prefixes: Iterable[str]) -> list[str]:
    statement = f"set policy-options policy-statement {policy} term own"
    return [*(f"{statement} from route-filter {one} exact" for one in prefixes), f"{statement} then accept"]


def _instance(intent: SwitchIntent, vrf: Vrf) -> list[str]:
    """A tenant's instance of routing: its ports, and how its routes come to other switches."""
    head, mine = f"set routing-instances {vrf.name}", intent.access_of(vrf.name)
    lines = [f"{head} instance-type {'vrf' if intent.by == 'evpn' else 'virtual-router'}"]
    lines += [f"{head} interface {one.port}.0" for one in mine]
    policy = f"announce-{vrf.name}"
    lines += _announced(policy, [f"{one.address}/31" for one in mine])
    if intent.by == "evpn":
        lines += [f"{head} route-distinguisher {intent.loopback}:{vrf.vlan}"]
        lines += [f"{head} vrf-target import target:{vrf.target}", f"{head} vrf-target export target:{vrf.target}"]
        routes = f"{head} protocols evpn ip-prefix-routes"
        lines += [f"{routes} advertise direct-nexthop", f"{routes} encapsulation vxlan", f"{routes} vni {vrf.number}"]
        return [*lines, f"{routes} export {policy}", f"{head} vtep-source-interface lo0.0"]
    group = f"{head} protocols bgp group fabric"
    lines += [f"{group} type external", f"{group} multipath multiple-as", f"{group} export {policy}"]
    lines += [f"{group} family inet unicast extended-nexthop"]
    for one in intent.sessions:
        if vrf not in one.vrfs:
            continue
        unit = f"set interfaces {one.port} unit {vrf.vlan}"
        lines += [f"{unit} vlan-id {vrf.vlan}", f"{unit} family inet6", f"{head} interface {one.port}.{vrf.vlan}"]
        lines += [f"set protocols router-advertisement interface {one.port}.{vrf.vlan}"]
        peers = f"{group} dynamic-neighbor peers peer-auto-discovery family inet6 ipv6-nd interface"
        lines.append(f"{peers} {one.port}.{vrf.vlan}")
    return lines


def _filters(intent: SwitchIntent) -> list[str]:
    """What servers may reach, by tenant; what no term accepts is dropped."""
    lines: list[str] = []
    for name, permits in sorted({(one.filter, one.permits) for one in intent.access if one.permits}):
        term = f"set firewall family inet filter {name} term own"
        lines += [f"{term} from destination-address {prefix}" for prefix in permits]
        lines.append(f"{term} then accept")
    for one in intent.access:
        if one.permits:
            lines.append(f"set interfaces {one.port} unit 0 family inet filter input {one.filter}")
    return lines


def _classes(intent: SwitchIntent) -> list[str]:
    """Classes; Junos reckons headroom itself, of the cable's length and of the largest frame.

    It takes that to be 2,500 bytes for priority 3 where nobody says otherwise (Juniper, CLI reference: `mru`).
    """
    cos = "set class-of-service"
    lines = [
        f"{cos} classifiers dscp roce forwarding-class lossless loss-priority low code-points {DSCP_ROCE:06b}",
        f"{cos} classifiers dscp roce forwarding-class control loss-priority low code-points {DSCP_CNP:06b}",
        f"{cos} forwarding-classes class lossless queue-num {LOSSLESS}" + (" no-loss" if intent.pauses else ""),
        f"{cos} forwarding-classes class control queue-num {CNP}",
    ]
    if intent.pauses:
        lines.append(f"{cos} forwarding-classes class lossless pfc-priority {LOSSLESS}")
        if intent.alpha != 1.0:
            share = f"{cos} shared-buffer ingress buffer-partition lossless dynamic-threshold"
            lines.append(f"{share} {THRESHOLD_OF_ONE + round(math.log2(intent.alpha))}")
        for length in sorted({math.ceil(one.length_m) for one in intent.ports}):
            profile = f"{cos} congestion-notification-profile roce-{length}m input"
            lines.append(f"{profile} dscp code-point {DSCP_ROCE:06b} pfc mru {FRAME}")
            lines.append(f"{profile} cable-length {length}")
    if intent.marks:
        low, high, most = intent.red
        lines.append(
            f"# drop-profile of queue {LOSSLESS}: {most} % from {low} to {high} bytes. Junos takes whole percent"
        )
        lines.append(
            "# of the queue's largest depth, which hangs on buffer-partitions and the switch: for its operator"
        )
    for one in intent.ports:
        lines.append(f"{cos} interfaces {one.port} unit 0 classifiers dscp roce")
        if intent.pauses:
            lines.append(f"{cos} interfaces {one.port} congestion-notification-profile roce-{math.ceil(one.length_m)}m")
        if intent.marks:
            lines.append(f"{cos} interfaces {one.port} scheduler-map roce explicit-congestion-notification")
    return lines
