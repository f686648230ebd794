"""Routing sessions that are down, and prefixes that have fewer equal-cost paths than the cables allow."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.finding import Finding
from railyard.cluster.asbuilt.port_names import same_port
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.symptom import Names
    from railyard.cluster.asbuilt.reported.reports import Reports

SHOWN = 3
"""Prefixes that a finding names."""


def symptoms(names: Names, reports: Reports) -> list[Symptom]:
    """Of sessions and of routes; that nothing is routed over a session that is down is no finding of its own."""
    down = _sessions(names, reports)
    dead = {cable for symptom in down for cable, _ in symptom.cables}
    return [*down, *_Paths(names, reports, dead).symptoms()]


def _sessions(names: Names, reports: Reports) -> list[Symptom]:
    """A session that is down, once for both ends: nothing is routed over its cable."""
    out = []
    seen: set[int] = set()
    for one in reports.sessions:
        device = names.device(one.device)
        if one.state == "Established":
            continue
        if device is None:
            reports.problems.append(Problem("sessions of a device that the network does not have", found=one.device))
            continue
        cable = names.at(device, one.port)
        if cable is not None and cable in seen:
            continue
        a, b = names.ends(device, one.port)
        if cable is not None:
            seen.add(cable)
        elif one.neighbour:
            b = one.neighbour
        words = f"the BGP session is {one.state or 'not there'}: nothing is routed over it"
        out.append(Symptom(Finding("session-down", a, b, words), () if cable is None else ((cable, 0.0),)))
    return out


class _Paths:
    """Next hops as installed, against all first cables of shortest paths."""

    def __init__(self, names: Names, reports: Reports, dead: set[int]) -> None:
        self.names = names
        owners: dict[str, set[int]] = defaultdict(set)
        self.hops: dict[tuple[int, str], tuple[str, ...]] = {}
        for one in reports.routes:
            device = names.device(one.device)
            if device is None:
                continue
            if one.connected:
                owners[one.prefix].add(device)
            elif one.ports:
                self.hops[device, one.prefix] = one.ports
        self.owner = {prefix: next(iter(whose)) for prefix, whose in owners.items() if len(whose) == 1}
        self.host = [device.kind != "switch" for device in names.discovery.devices]
        self.near: dict[int, list[int]] = defaultdict(list)
        self.ports: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for number, cable in enumerate(names.discovery.cables):
            if number not in dead:
                for here, port, far in ((cable.a, cable.a_port, cable.b), (cable.b, cable.b_port, cable.a)):
                    self.ports[here].append((port, far))
                    self.near[here].append(far)

    def symptoms(self) -> list[Symptom]:
        unused: dict[tuple[int, tuple[str, ...]], list[str]] = defaultdict(list)
        count: dict[int, int] = defaultdict(int)
        for owner in sorted(set(self.owner.values())):
            away = self._away(owner)
            for prefix in (prefix for prefix, whose in self.owner.items() if whose == owner):
                for device in sorted(self.ports):
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
                for other in self.near[one]:
                    if other not in away:
                        away[other] = away[one] + 1
                        if not self.host[other]:
                            reached.append(other)
            edge = reached
        return away

    def _symptom(self, device: int, gone: tuple[str, ...], prefixes: list[str], all_prefixes: int) -> Symptom:
        name = self.names.discovery.devices[device].described
        shown = ", ".join(sorted(prefixes)[:SHOWN]) + (" ..." if len(prefixes) > SHOWN else "")
        words = (
            f"{len(prefixes)} of {all_prefixes} prefixes ({shown}) do not use {', '.join(gone)}, which is as near as"
            " the ports that they use"
        )
        cables = tuple((cable, 0.0) for port in gone if (cable := self.names.at(device, port)) is not None)
        a, b = self.names.ends(device, gone[0])
        if len(gone) > 1:
            a, b = f"{name}[{', '.join(gone)}]", "?"
        return Symptom(Finding("ecmp", a, b, words), cables, len(prefixes) / max(all_prefixes, 1))
