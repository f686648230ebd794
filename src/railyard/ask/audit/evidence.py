"""What follows from what devices say of themselves: counters, tables, sessions, settings, parts; one file a kind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.audit import configuration, forwarding, host_parts
from railyard.ask.audit.symptom import AuditFinding, Symptom
from railyard.cluster.network_table import MAC_DIGITS, same_port
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.asbuilt.reported.reports import Reports
    from railyard.cluster.network_table import NetworkTable, Twins


FLAPS = 1
"""A link that went down more often than once since its counters were cleared: once is its cable being plugged."""

THRESHOLD = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": FLAPS,
    "PortRcvErrors": 10,
    "PortRcvRemotePhysicalErrors": 100,
    "LocalLinkIntegrityErrors": 10,
    "ExcessiveBufferOverrunErrors": 10,
}
"""Counts above which infiniband-diags calls a port bad (its file error_thresholds, version 2.1); it takes 10 of links
that went down."""

IN_FLIGHT = 100
"""Packets under way on a connection at 400 Gb/s: 8 us of round trip in packets of 4 KiB, which are all sent again
after one is lost (go-back-N: InfiniBand Architecture, volume 1, 9.9.2.1). An estimate, as the round trip is one."""

FLAPPING = "the counter does not show how often or how long the link was down"
UNCOUNTED = "packets are not counted, so the lost share is unknown"

_SPELLED = {"LinkErrorRecovery": "LinkErrorRecoveryCounter", "LinkDowned": "LinkDownedCounter"}


def counter_symptoms(network: NetworkTable, reports: Reports) -> list[Symptom]:
    """A finding for each bad port; counters of devices that the network does not have are problems of the reports."""
    ports: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in reports.counts:
        ports[one.device, one.port][_SPELLED.get(one.name, one.name)] = one.value
    out = []
    for (where, port), counts in ports.items():
        bad = {name: counts[name] for name, most in THRESHOLD.items() if counts.get(name, 0) > most}
        device = network.number(where)
        if not bad:
            continue
        if device is None:
            out.append(
                Symptom(AuditFinding("errors", f"{where}[{port}]", "?", f"{_words(bad)}; the network has no {where}"))
            )
            continue
        lost = _lost(counts)
        share = 1.0 / (1.0 + lost * IN_FLIGHT) if lost is not None else 1.0
        words = _words(bad) + _price_words(bad, lost)
        cable = network.cable_in(device, port)
        cables = ((cable, share),) if cable is not None and share < 1 else ()
        kind = "flapping" if set(bad) == {"LinkDownedCounter"} else "errors"
        why = FLAPPING if kind == "flapping" else UNCOUNTED if lost is None else ""
        out.append(Symptom(AuditFinding(kind, *network.cable_words(device, port), words, unpriced=why), cables))
    return out


def _words(bad: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:,.0f}" for name, value in bad.items())


def _lost(counts: dict[str, float]) -> float | None:
    """Part of the packets that arrived spoilt; None where the packets were not counted."""
    packets = counts.get("PortRcvPkts", counts.get("PortRcvPackets"))
    if not packets:
        return None
    return min(counts.get("PortRcvErrors", 0.0) / (packets + counts.get("PortRcvErrors", 0.0)), 1.0)


def _price_words(bad: dict[str, float], lost: float | None) -> str:
    if lost is None:
        return ""
    if lost:
        return f"; {lost:.2g} of the packets are lost, and {IN_FLIGHT} sent again for each"
    return "" if "LinkDownedCounter" in bad else "; so far the link's own error correction fixes all of it"


KINDS = {"GUID": "duplicate-guid", "MAC address": "duplicate-address", "name": "duplicate-name"}

DO = {
    "GUID": "the subnet manager reaches only one of them: give the other its own GUID, or replace it",
    "MAC address": "switches send the traffic of one to the other: give one of them its own address",
    "name": "no traffic is lost, but no tool can distinguish them: rename one",
}


def identity_symptoms(network: NetworkTable, reports: Reports | None) -> list[Symptom]:
    """Devices that share an identity, by the discovery and by what hosts say of their parts."""
    found = [_symptom(network, one) for one in network.twins if len(one.devices) > 1]
    known = {frozenset(network.name[number] for number in one.devices) for one in network.twins}
    return found + ([] if reports is None else _of_parts(network, reports, known))


def _symptom(network: NetworkTable, twins: Twins) -> Symptom:
    ends = [_end(network, device) for device in twins.devices]
    lost = [n for one in twins.devices[1:] if twins.what != "name" for n in network.cables_of[one].values()]
    return Symptom(_finding(twins.what, twins.value, ends), tuple((number, 0.0) for number in lost))


def _end(network: NetworkTable, device: int) -> tuple[str, str]:
    ports = list(network.cables_of[device])
    if len(ports) != 1:
        return network.label[device], f"{len(ports)} cables"
    return network.cable_words(device, ports[0])


def _finding(what: str, value: str, ends: Sequence[tuple[str, str]]) -> AuditFinding:
    where = " and ".join(far for _, far in ends)
    return AuditFinding(KINDS[what], ends[0][0], ends[1][0], f"one {what} {value}, at {where}; {DO[what]}")


def _of_parts(network: NetworkTable, reports: Reports, known: set[frozenset[str]]) -> list[Symptom]:
    """Addresses that parts of several hosts share, except where that is known; those of one host may be bonded."""
    hosts: dict[str, dict[str, str]] = defaultdict(dict)
    for one in reports.parts:
        if one.address:
            hosts[one.address].setdefault(one.host, one.name)
    out = []
    for address, parts in hosts.items():
        if len(parts) < 2 or frozenset(parts) in known:
            continue
        what = "MAC address" if len(address) == MAC_DIGITS else "GUID"
        ends = [(f"{host} {part}", "reported by its host") for host, part in sorted(parts.items())]
        device = [network.number(end) for end, _ in ends[1:]]
        lost = {number for one in device if one is not None for number in network.cables_of[one].values()}
        out.append(Symptom(_finding(what, address, ends), tuple((number, 0.0) for number in sorted(lost))))
    return out


SHOWN = 3
"""Prefixes that a finding network."""


def routing_symptoms(network: NetworkTable, reports: Reports) -> list[Symptom]:
    """Symptoms of sessions and routes; missing routes over a session that is down are no symptom of their own."""
    down = _sessions(network, reports)
    dead = {cable for symptom in down for cable, _ in symptom.cables}
    return [*down, *_Paths(network, reports, dead).symptoms()]


def _sessions(network: NetworkTable, reports: Reports) -> list[Symptom]:
    """A session that is down, once for both ends: nothing is routed over its cable."""
    out = []
    seen: set[int] = set()
    for one in reports.sessions:
        device = network.number(one.device)
        if one.state == "Established":
            continue
        if device is None:
            reports.problems.append(Problem("sessions of a device that is not in the network", found=one.device))
            continue
        cable = network.cable_in(device, one.port)
        if cable is not None and cable in seen:
            continue
        a, b = network.cable_words(device, one.port)
        if cable is not None:
            seen.add(cable)
        elif one.neighbour:
            b = one.neighbour
        words = f"the BGP session is {one.state or 'not there'}: nothing is routed over it"
        out.append(Symptom(AuditFinding("session-down", a, b, words), () if cable is None else ((cable, 0.0),)))
    return out


class _Paths:
    """Next hops as installed, against all first cables of shortest paths."""

    def __init__(self, network: NetworkTable, reports: Reports, dead: set[int]) -> None:
        self.network = network
        owners: dict[str, set[int]] = defaultdict(set)
        self.hops: dict[tuple[int, str], tuple[str, ...]] = {}
        for one in reports.routes:
            device = network.number(one.device)
            if device is None:
                continue
            if one.connected:
                owners[one.prefix].add(device)
            elif one.ports:
                self.hops[device, one.prefix] = one.ports
        self.owner = {prefix: next(iter(whose)) for prefix, whose in owners.items() if len(whose) == 1}
        self.host = ~network.switch
        self.ports = [[(port, far) for port, cable, far, _ in mine if cable not in dead] for mine in network.far_ends]

    def symptoms(self) -> list[Symptom]:
        unused: dict[tuple[int, tuple[str, ...]], list[str]] = defaultdict(list)
        count: dict[int, int] = defaultdict(int)
        for owner in sorted(set(self.owner.values())):
            away = self._away(owner)
            for prefix in (prefix for prefix, whose in self.owner.items() if whose == owner):
                for device in range(len(self.ports)):
                    hops = self.hops.get((device, prefix))
                    if hops is None or device == owner or self.host[device] or device not in away:
                        continue
                    count[device] += 1
                    used = {same_port(port) for port in hops}
                    possible = [p for p, far in self.ports[device] if away.get(far, len(away)) == away[device] - 1]
                    gone = tuple(sorted(port for port in possible if same_port(port) not in used))
                    if gone and len(possible) > 1:
                        unused[device, gone].append(prefix)
        return [self._symptom(*key, prefixes, count[key[0]]) for key, prefixes in sorted(unused.items())]

    def _away(self, owner: int) -> dict[int, int]:
        """Hops from a device to all that switches lead to."""
        away, edge = {owner: 0}, [owner]
        while edge:
            reached = []
            for one in edge:
                for _, other in self.ports[one]:
                    if other not in away:
                        away[other] = away[one] + 1
                        if not self.host[other]:
                            reached.append(other)
            edge = reached
        return away

    def _symptom(self, device: int, gone: tuple[str, ...], prefixes: list[str], all_prefixes: int) -> Symptom:
        name = self.network.label[device]
        shown = ", ".join(sorted(prefixes)[:SHOWN]) + (" ..." if len(prefixes) > SHOWN else "")
        words = (
            f"{len(prefixes)} of {all_prefixes} prefixes ({shown}) do not use {', '.join(gone)}, which has the"
            " same cost as the ports in use"
        )
        cables = tuple((cable, 0.0) for port in gone if (cable := self.network.cable_in(device, port)) is not None)
        a, b = self.network.cable_words(device, gone[0])
        if len(gone) > 1:
            a, b = f"{name}[{', '.join(gone)}]", "?"
        return Symptom(AuditFinding("ecmp", a, b, words), cables, len(prefixes) / max(all_prefixes, 1))


@dataclass(frozen=True)
class Evidence:
    """Evidence of reports.

    Attributes:
        problems: What could not be read, or is of no device of the network.
    """

    symptoms: tuple[Symptom, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def evidence(found: NetworkTable, reports: Reports | None, plan: CablingPlan | None = None) -> Evidence:
    """Faults that devices tell of themselves, in the discovery and in reports."""
    twins = identity_symptoms(found, reports)
    if reports is None:
        return Evidence(tuple(twins))
    tables, figures = forwarding.symptoms(found, reports)
    listed = [
        *twins,
        *counter_symptoms(found, reports),
        *tables,
        *routing_symptoms(found, reports),
        *configuration.symptoms(found, reports, plan),
        *host_parts.symptoms(found, reports, plan),
    ]
    read: dict[str, int] = {}
    for what in reports.read.values():
        read[what] = read.get(what, 0) + 1
    return Evidence(tuple(listed), figures | {"reports": read}, tuple(reports.problems))
