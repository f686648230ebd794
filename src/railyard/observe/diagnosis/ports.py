"""Ports that err, by their counters.

Errors of the physical layer are guilt: bits of this cable arrive wrong. Waiting and pausing are not: who waits for
credits, or was told to pause, stands behind somebody who is slow further down, and is only mentioned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from railyard.observe.diagnosis.verdict import Diagnosis, Suspect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.observe.reader import Count, Piece

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
WORSE = 5.0
"""Over the next port: below, several are as bad, and each is named with less confidence."""


def diagnose_ports(pieces: Sequence[Piece]) -> Diagnosis:
    """Which ports err, and which wait."""
    answer = Diagnosis()
    erring: dict[str, dict[str, float]] = defaultdict(dict)
    waiting: dict[str, float] = defaultdict(float)
    counts = [one for piece in pieces for one in piece.counts]
    for one in counts:
        if one.value > 0 and GUILTY.search(one.name):
            erring[one.part][one.name] = max(erring[one.part].get(one.name, 0.0), one.value)
        elif one.value > 0 and WAITING.search(one.name):
            waiting[one.part] += one.value
    usual = _usual(counts)
    sums = {
        part: sum(value / max(usual.get(name, 0.0), 1.0) for name, value in by.items()) for part, by in erring.items()
    }
    far = {part: value for part, value in sums.items() if value > FAR and max(erring[part].values()) >= LEAST}
    ranked = sorted(far.items(), key=lambda one: -one[1])
    for number, (part, value) in enumerate(ranked):
        rest = max((other for name, other in sums.items() if name != part), default=0.0)
        words = ", ".join(
            f"{name} {count:,.0f}" for name, count in sorted(erring[part].items(), key=lambda one: -one[1])[:4]
        )
        sure = 0.9 if value > WORSE * max(rest, 1.0) else 0.7
        answer.verdict.append(Suspect(part, _kind(part, erring[part]), sure, words))
        if number >= 9:
            break
    if waiting:
        most = sorted(waiting.items(), key=lambda one: -one[1])[:4]
        words = ", ".join(f"{part} ({value:,.0f})" for part, value in most)
        answer.notes.append(f"wait or were told to pause, which is not their fault (look downstream): {words}")
    if waiting and not answer.verdict:
        answer.unknown = True
    answer.notes.append(
        "counters count from when they were cleared: two captures some minutes apart settle whether they grow"
    )
    return answer


def _usual(counts: Sequence[Count]) -> dict[str, float]:
    """The median of each counter over all ports that have it."""
    values: dict[str, list[float]] = defaultdict(list)
    for one in counts:
        values[one.name].append(one.value)
    return {name: float(np.median(those)) for name, those in values.items() if len(those) > 2}


def _kind(part: str, counters: dict[str, float]) -> str:
    if any(name.startswith("DCGM_") for name in counters):
        return "accelerator"
    return "nic" if "mlx5" in part or "bnxt" in part or "eth" in part else "link"
