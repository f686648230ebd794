"""Junos as `set` commands: BGP unnumbered, ECMP, BFD, classes of service; tenants by instances, EVPN or filters."""

from __future__ import annotations

import math
import re
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING

from railyard.ask.deploy import system
from railyard.ask.deploy.configured import ALL, Configured, FilterRule, Line, network
from railyard.ask.deploy.emit.intent import BFD_MS, CNP, DSCP_CNP, DSCP_ROCE, FRAME, LOSSLESS, USUAL, headroom

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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
    """Filters of servers, by tenant; what no term accepts is dropped."""
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
    """Classes; Junos works out headroom itself, from the cable's length and the largest frame.

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
            "# of the queue's largest depth, which depends on buffer-partitions and the switch: for its operator"
        )
    for one in intent.ports:
        lines.append(f"{cos} interfaces {one.port} unit 0 classifiers dscp roce")
        if intent.pauses:
            lines.append(f"{cos} interfaces {one.port} congestion-notification-profile roce-{math.ceil(one.length_m)}m")
        if intent.marks:
            lines.append(f"{cos} interfaces {one.port} scheduler-map roce explicit-congestion-notification")
    return lines


def facts(text: str) -> system.Facts:
    """Reads the facts of `set` commands."""
    lines = system.lines_of(text)

    def each(pattern: str) -> list[re.Match[str]]:
        return [m for line in lines if (m := re.fullmatch(pattern, line))]

    port = r"(\S+)"
    queue = {m[1]: int(m[2]) for m in each(r"set class-of-service forwarding-classes class (\S+) queue-num (\d+).*")}
    code = {
        int(m[2], 2): queue.get(m[1])
        for m in each(r"set class-of-service classifiers dscp \S+ forwarding-class (\S+) .*code-points ([01]{6})")
    }
    return {
        "asn": int(system.first_match(r"set routing-options autonomous-system (\d+)", lines)),
        "loopback": system.first_match(r"set routing-options router-id (\S+)", lines),
        "sessions": {m[1] for m in each(r"set protocols bgp group fabric dynamic-neighbor .* interface (\S+)\.0")},
        "access": {(m[1], m[2]) for m in each(rf"set interfaces {port} unit 0 family inet address (\S+)/31")},
        "announced": {m[1] for m in each(r"set policy-options .* route-filter (\S+) exact")},
        "bfd": bool(each(r"set protocols bgp group fabric bfd-liveness-detection .*")),
        "mtu": {m[1]: int(m[2]) for m in each(rf"set interfaces {port} mtu (\d+)")},
        "rate_bps": {m[1]: int(m[2]) * 10**9 for m in each(rf"set interfaces {port} speed (\d+)g")},
        "roce": (26, code.get(26)),
        "cnp": (48, code.get(48)),
        "pfc": {m[1] for m in each(rf"set class-of-service interfaces {port} congestion-notification-profile \S+")},
        "ecn": {m[1] for m in each(rf"set class-of-service interfaces {port} .*explicit-congestion-notification")},
        "alpha": {2.0 ** (int(m[1]) - 7) for m in each(rf"{_SHARE} (\d+)")},
        "headroom": _headroom(each),
    }


_SHARE = r"set class-of-service shared-buffer ingress buffer-partition lossless dynamic-threshold"


USUAL_LENGTH_M, USUAL_MRU = 100, 2500
"""Cable and largest frame from which Junos works out the headroom of priority 3 by default (Juniper's CLI
reference: `cable-length`, `mru`)."""


def _headroom(each: Callable[[str], list[re.Match[str]]]) -> dict[str, system.Sizes]:
    """What Junos will keep for each port: it is given a length and a frame, and our law gives the size."""
    profile = r"set class-of-service congestion-notification-profile (\S+) input"
    length = {m[1]: float(m[2]) for m in each(rf"{profile} cable-length (\d+)")}
    frame = {m[1]: int(m[2]) for m in each(rf"{profile} dscp code-point \S+ pfc mru (\d+)")}
    rate = {m[1]: int(m[2]) * 10**9 for m in each(r"set interfaces (\S+) speed (\d+)g")}
    used = {m[1]: m[2] for m in each(r"set class-of-service interfaces (\S+) congestion-notification-profile (\S+)")}
    return {
        port: {
            "xoff": headroom(
                rate[port], length.get(name, USUAL_LENGTH_M), asic=USUAL, frame_bytes=frame.get(name, USUAL_MRU)
            ).xoff
        }
        for port, name in used.items()
        if port in rate
    }


def read(name: str, first: system.File, _second: system.File, _family: int) -> Configured:
    """Reads the tenants of a file; see `SwitchSystem`."""
    found = Configured(name)
    rows = list(_rows(*first))
    policies: dict[str, dict[str, Line]] = {}
    for row in rows:
        match = re.match(r"set policy-options policy-statement (\S+) term own from route-filter (\S+) exact", row.text)
        if match is not None:
            policies.setdefault(match[1], {})[match[2]] = row
    for row in rows:
        for pattern, take in _TAKES:
            match = re.fullmatch(pattern, row.text)
            if match is not None:
                take(found, match, row)
                break
    for table, name_of in _exports(rows):
        for prefix, row in policies.get(name_of, {}).items():
            found.table(table).announced[network(prefix)] = row
    return found


def _rows(file: str, text: str) -> Iterator[Line]:
    for number, row in enumerate(text.splitlines(), start=1):
        if row.startswith("set "):
            yield Line(file, number, row.strip())


def _exports(rows: list[Line]) -> Iterator[tuple[str, str]]:
    pattern = r"set (?:routing-instances (\S+) )?protocols (?:bgp group fabric|evpn ip-prefix-routes) export (\S+)"
    for row in rows:
        match = re.fullmatch(pattern, row.text)
        if match is not None:
            yield match[1] or ALL, match[2]


def _unit(unit: str) -> str:
    """A unit as other systems name it: unit 0 is the port itself."""
    return unit.removesuffix(".0")


def _read_address(found: Configured, match: re.Match[str], line: Line) -> None:
    if match[1] == "lo0":
        found.loopback = match[3].split("/")[0]
        return
    found.set_port(_unit(f"{match[1]}.{match[2]}"), "address", IPv4Interface(match[3]), line)


def _read_rule(found: Configured, match: re.Match[str], line: Line) -> None:
    found.filters.setdefault(match[1], []).append(FilterRule(permits=True, target=network(match[2]), line=line))


def _read_member(found: Configured, match: re.Match[str], line: Line) -> None:
    found.set_port(_unit(match[2]), "vrf", match[1], line)
    found.table(match[1])


def _read_asn(found: Configured, match: re.Match[str], _: Line) -> None:
    found.asn = int(match[1])


def _read_overlay(found: Configured, _: re.Match[str], line: Line) -> None:
    found.overlay = line


_BGP = r"set (?:routing-instances (\S+) )?protocols bgp group fabric"
_EVPN = r"set routing-instances (\S+) protocols evpn ip-prefix-routes"
_TAKES: tuple[tuple[str, Callable[[Configured, re.Match[str], Line], None]], ...] = (
    (r"set interfaces (\S+) unit (\d+) family inet address (\S+)", _read_address),
    (
        r"set interfaces (\S+) unit 0 family inet filter input (\S+)",
        lambda found, match, line: found.set_port(match[1], "filter", match[2], line),
    ),
    (r"set firewall family inet filter (\S+) term own from destination-address (\S+)", _read_rule),
    (r"set routing-instances (\S+) interface (\S+)", _read_member),
    (
        rf"{_BGP} dynamic-neighbor .* interface (\S+)",
        lambda found, match, line: found.table(match[1] or ALL).neighbors.update({_unit(match[2]): line}),
    ),
    (
        rf"{_BGP} family inet unicast extended-nexthop",
        lambda found, match, line: found.table(match[1] or ALL).lines.update(active=line),
    ),
    (r"set routing-options autonomous-system (\d+)", _read_asn),
    (r"set protocols bgp group fabric family evpn signaling", _read_overlay),
    (rf"{_EVPN} vni (\d+)", lambda found, match, line: found.table(match[1]).tunnel(int(match[2]), line)),
    (
        rf"{_EVPN} advertise direct-nexthop",
        lambda found, match, line: found.table(match[1]).lines.update(overlay=line),
    ),
    (
        r"set routing-instances (\S+) vrf-target (import |export )?target:(\S+)",
        lambda found, match, line: found.table(match[1]).target((match[2] or "both").strip(), [match[3]], line),
    ),
    (
        r"set (?:routing-instances (\S+) )?routing-options static route (\S+) next-table (\S+)",
        lambda found, match, line: found.table(match[1] or ALL).leak(
            network(match[2]), match[3].removesuffix(".inet.0").removesuffix("inet.0"), line
        ),
    ),
)


def _meant(intent: SwitchIntent) -> system.Facts:
    """Without marks: on Junos they are shares of a queue, and left to its operator."""
    facts = system.port_facts(intent, asic=USUAL)
    del facts["red"]
    return facts


JUNOS = system.systems.add("junos", system.SwitchSystem("junos", "junos.set", render, _meant, facts, read))
