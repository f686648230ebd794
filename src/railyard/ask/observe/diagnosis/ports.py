"""Ports that err, by their counters.

Errors of the physical layer are guilt: bits of this cable arrive wrong. Waiting and pausing are not: who waits for
credits, or was told to pause, stands behind somebody who is slow further down, and is only mentioned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.downstream import MAIN, SURE, ends, located, summed
from railyard.ask.observe.diagnosis.verdict import Diagnosis, Suspect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.ask.observe.price import PriceOfParts
    from railyard.ask.observe.reader import Count, Piece
    from railyard.cluster.asbuilt.discovery import Discovery

GUILTY = re.compile(
    r"symbol_?error|link_?downed|link_?error_?recovery|local_?link_?integrity|PortRcvErrors|port_rcv_errors|fcs_?err|crc_err|"
    r"_crc_|icrc|in_?errors|IN_ERRORS|carrier_changes|phy_.*err|XID_ERRORS|ECC_DBE|PCIE_REPLAY|REPLAY_ERROR|RECOVERY_ERROR",
    re.IGNORECASE,
)
WAITING = re.compile(
    r"xmit_?wait|pause|PFC_\d_RX|out_of_sequence|xmit_?discards|out_?discards|ecn_marked|cnp_", re.IGNORECASE
)
FAR = 20.0
"""Over the median of all ports that have any, and `LEAST` at least, from which errors are far too many."""
LEAST = 100.0
MOST_NAMED = 10
"""Ports at most that are named: where more err, something else is wrong."""

WORSE = 5.0
"""Over the next port: below, several are as bad, and each is named with less confidence."""


def diagnose_ports(pieces: Sequence[Piece], price: PriceOfParts | None = None) -> Diagnosis:
    """Which ports err, and which wait, and for whom.

    Args:
        pieces: Counters, and cables where a discovery is among them.
        price: What an hour of accelerators costs, where that is known.
    """
    answer = Diagnosis()
    cabling = next((piece.cabling for piece in pieces if piece.cabling), None)
    counts = [one for piece in pieces for one in piece.counts]
    erring: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    waiting: dict[tuple[str, str], float] = defaultdict(float)
    for one in counts:
        key = one.where, one.port
        if one.value > 0 and GUILTY.search(one.name):
            erring[key][one.name] = max(erring[key].get(one.name, 0.0), one.value)
        elif one.value > 0 and WAITING.search(one.name):
            waiting[key] += one.value
    _errors(erring, _usual(counts), cabling, price, answer)
    if waiting:
        _waits(waiting, cabling, price, answer)
    answer.notes.append(
        "counters count from when they were cleared: two captures some minutes apart settle whether they grow"
    )
    return answer


def _errors(
    erring: Mapping[tuple[str, str], dict[str, float]],
    usual: Mapping[str, float],
    cabling: Discovery | None,
    price: PriceOfParts | None,
    answer: Diagnosis,
) -> None:
    """Names ports with far more errors of the physical layer than others."""
    sums = {
        key: sum(value / max(usual.get(name, 0.0), 1.0) for name, value in by.items()) for key, by in erring.items()
    }
    far = {key: value for key, value in sums.items() if value > FAR and max(erring[key].values()) >= LEAST}
    for key, value in sorted(far.items(), key=lambda one: -one[1])[:MOST_NAMED]:
        rest = max((other for name, other in sums.items() if name != key), default=0.0)
        listed = sorted(erring[key].items(), key=lambda one: -one[1])[:4]
        words = ", ".join(f"{name} {count:,.0f}" for name, count in listed) + _leads_to(cabling, *key)
        part = " ".join(word for word in key if word)
        kind = _kind(part, erring[key])
        usd = None if price is None else price.of(kind)
        answer.verdict.append(Suspect(part, kind, 0.9 if value > WORSE * max(rest, 1.0) else 0.7, words, usd))


def _leads_to(cabling: Discovery | None, where: str, port: str) -> str:
    """The two ends of a port's cable, in words."""
    here = None if cabling is None else located(cabling, where, port)
    if cabling is None or here is None:
        return ""
    for cable in cabling.cables:
        for mine, far in (((cable.a, cable.a_port), cable.b), ((cable.b, cable.b_port), cable.a)):
            if mine == here:
                near = cabling.devices[here[0]].described
                return f"; the cable from {near} port {here[1]} to {cabling.devices[far].described}"
    return ""


def _waits(
    waiting: Mapping[tuple[str, str], float],
    cabling: Discovery | None,
    price: PriceOfParts | None,
    answer: Diagnosis,
) -> None:
    """Follows ports that wait downstream, where cables are known."""
    most = sorted(waiting.items(), key=lambda one: -one[1])[:4]
    words = ", ".join(f"{' '.join(filter(None, key))} ({value:,.0f})" for key, value in most)
    answer.notes.append(f"wait or were told to pause, which is not their fault (look downstream): {words}")
    found = []
    if cabling is not None:
        placed = [(located(cabling, *key), value) for key, value in waiting.items()]
        found = ends(cabling, summed([(port, value) for port, value in placed if port is not None]))
    if found and found[0].is_host and found[0].share >= MAIN:
        end = found[0]
        words = f"{end.share:.0%} of all waiting leads to it: {' -> '.join(end.way)}; it takes data slowly"
        answer.verdict.append(Suspect(end.part, "nic", SURE, words, None if price is None else price.of("nic")))
        return
    answer.notes += [
        f"{one.share:.0%} of all waiting leads to {one.part} by {' -> '.join(one.way)}" for one in found[:3]
    ]
    if cabling is None:
        answer.notes.append("with the output of ibnetdiscover beside the counters it is followed to its end")
    answer.unknown = answer.unknown or not answer.verdict


def _usual(counts: Sequence[Count]) -> dict[str, float]:
    """The median of each counter over all ports that have it."""
    values: dict[str, list[float]] = defaultdict(list)
    for one in counts:
        values[one.name].append(one.value)
    return {name: float(np.median(those)) for name, those in values.items() if len(those) > 2}


def _kind(part: str, counters: dict[str, float]) -> str:
    if any(name.startswith("DCGM_") for name in counters):
        return "accelerator"
    return "nic" if "mlx5" in part or "bnxt" in part or "eth" in part else "cable"
