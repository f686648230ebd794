"""Ports whose counters say that bits arrive wrong, or that the link goes down and up."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.finding import Finding

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.symptom import Names
    from railyard.cluster.asbuilt.reported.reports import Reports

THRESHOLD = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 10,
    "LinkDownedCounter": 10,
    "PortRcvErrors": 10,
    "PortRcvRemotePhysicalErrors": 100,
    "LocalLinkIntegrityErrors": 10,
    "ExcessiveBufferOverrunErrors": 10,
}
"""Counts above which infiniband-diags calls a port bad (its file error_thresholds, version 2.1)."""

FLAPS = 1
"""A link that went down more often than once since its counters were cleared: once is its cable being plugged."""

IN_FLIGHT = 100
"""Packets under way on a connection at 400 Gb/s: 8 us of round trip in packets of 4 KiB, which are all sent again
after one is lost (go-back-N: InfiniBand Architecture, volume 1, 9.9.2.1). An estimate, as the round trip is one."""

FLAPPING = "how often and for how long the link was down is not in the counter"
UNCOUNTED = "packets are not counted, so that the part that is lost is not known"

_SPELLED = {"LinkErrorRecovery": "LinkErrorRecoveryCounter", "LinkDowned": "LinkDownedCounter"}


def symptoms(names: Names, reports: Reports) -> list[Symptom]:
    """A finding for each bad port; counters of devices that the network does not have are problems of the reports."""
    ports: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in reports.counts:
        ports[one.device, one.port][_SPELLED.get(one.name, one.name)] = one.value
    out = []
    for (where, port), counts in ports.items():
        bad = {name: counts[name] for name, most in THRESHOLD.items() if counts.get(name, 0) > _most(name, most)}
        device = names.device(where)
        if not bad:
            continue
        if device is None:
            out.append(
                Symptom(Finding("errors", f"{where}[{port}]", "?", f"{_words(bad)}; the network has no {where}"))
            )
            continue
        lost = _lost(counts)
        share = 1.0 / (1.0 + lost * IN_FLIGHT) if lost is not None else 1.0
        words = _words(bad) + _price_words(bad, lost)
        cable = names.at(device, port)
        cables = ((cable, share),) if cable is not None and share < 1 else ()
        kind = "flapping" if set(bad) == {"LinkDownedCounter"} else "errors"
        why = FLAPPING if kind == "flapping" else UNCOUNTED if lost is None else ""
        out.append(Symptom(Finding(kind, *names.ends(device, port), words, unpriced=why), cables))
    return out


def _most(name: str, usual: int) -> int:
    return FLAPS if name == "LinkDownedCounter" else usual


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
    return "" if "LinkDownedCounter" in bad else "; the link's own correction mends all of it so far"
