"""Devices that give one identity as theirs: what is wrong is the identity, and no plug is to be moved for it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.finding import Finding
from railyard.cluster.asbuilt.port_names import MAC_DIGITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.audit.evidence.symptom import Names
    from railyard.cluster.asbuilt.discovery import Discovery, Twins
    from railyard.cluster.asbuilt.reported.reports import Reports

KINDS = {"GUID": "duplicate-guid", "MAC address": "duplicate-address", "name": "duplicate-name"}

DO = {
    "GUID": "the subnet manager reaches one of them: give the other a GUID of its own, or replace it",
    "MAC address": "switches send what is for one of them to the other: give one an address of its own",
    "name": "no traffic is lost, but no tool can distinguish them: rename one",
}


def symptoms(names: Names, reports: Reports | None) -> list[Symptom]:
    """Findings of a discovery, and of what hosts say of their parts.

    Args:
        names: Of the network.
        reports: What devices say; None: nothing.
    """
    discovery = names.discovery
    found = [_symptom(discovery, one) for one in discovery.twins if len(one.devices) > 1]
    known = {frozenset(discovery.devices[number].name for number in one.devices) for one in discovery.twins}
    return found + ([] if reports is None else _of_parts(names, reports, known))


def _symptom(discovery: Discovery, twins: Twins) -> Symptom:
    """All but the first of them are not reached."""
    cables: dict[int, list[int]] = defaultdict(list)
    for number, cable in enumerate(discovery.cables):
        cables[cable.a].append(number)
        cables[cable.b].append(number)
    ends = [_end(discovery, device, cables[device]) for device in twins.devices]
    lost = () if twins.what == "name" else tuple((n, 0.0) for one in twins.devices[1:] for n in cables[one])
    return Symptom(_finding(twins.what, twins.value, ends), lost)


def _end(discovery: Discovery, device: int, cables: Sequence[int]) -> tuple[str, str]:
    """A device with its port, and where that is plugged in."""
    name = discovery.devices[device].described
    if len(cables) != 1:
        return name, f"{len(cables)} cables"
    one = discovery.cables[cables[0]]
    mine, far, port = (one.a_port, one.b, one.b_port) if one.a == device else (one.b_port, one.a, one.a_port)
    return f"{name}[{mine}]", f"{discovery.devices[far].described}[{port}]"


def _finding(what: str, value: str, ends: Sequence[tuple[str, str]]) -> Finding:
    where = " and ".join(far for _, far in ends)
    return Finding(KINDS[what], ends[0][0], ends[1][0], f"one {what} {value}, at {where}; {DO[what]}")


def _of_parts(names: Names, reports: Reports, known: set[frozenset[str]]) -> list[Symptom]:
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
        ends = [(f"{host} {part}", "its host says so") for host, part in sorted(parts.items())]
        device = [names.device(end) for end, _ in ends]
        lost = tuple(
            (number, 0.0)
            for number, cable in enumerate(names.discovery.cables)
            if any(one is not None and one in (cable.a, cable.b) for one in device[1:])
        )
        out.append(Symptom(_finding(what, address, ends), lost))
    return out
