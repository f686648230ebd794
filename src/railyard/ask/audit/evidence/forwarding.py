"""What the forwarding tables of an InfiniBand fabric do with the cables that are there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.audit.design.port_map import UNKNOWN
from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.evidence.tables import NO_CABLE, dumped, min_hop
from railyard.ask.audit.finding import Finding
from railyard.ask.audit.reference import MOST
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.tables import Matrix
    from railyard.ask.audit.network import Found
    from railyard.cluster.asbuilt.reported.reports import Reports

UNEVEN = 1.1
"""Tables under which shift permutations take longer than this, against min-hop's on the same cables, are a fault."""


def symptoms(found: Found, reports: Reports) -> tuple[list[Symptom], dict[str, Any]]:
    """Destinations that are not reached, and tables that are worse than min-hop's would be; with figures."""
    matrix = dumped(found, reports.forwarding) if reports.forwarding else None
    if matrix is None:
        if reports.forwarding:
            reports.problems.append(Problem("forwarding tables of no switch of this network"))
        return [], {}
    figures: dict[str, Any] = {
        "switches": int(matrix.known.sum()),
        "destinations": len(matrix.host),
        "pairs_reached": float(matrix.reached.mean()),
    }
    out = _unreached(matrix)
    unknown = len(matrix.known) - int(matrix.known.sum())
    if unknown:
        words = (
            f"{unknown} of {len(matrix.known)} switches have no forwarding table in the files: loads are not counted"
        )
        reports.problems.append(Problem(words))
    elif matrix.next.size <= MOST:
        speed = _speeds(found)
        best = min_hop(found)
        worst, groups, _ = matrix.loads(speed)
        predicted, least, _ = best.loads(speed)
        figures |= {
            "worst_shift_load": [float(worst.min(initial=1)), float(worst.max(initial=1))],
            "worst_shift_load_min_hop": [float(predicted.min(initial=1)), float(predicted.max(initial=1))],
            "destinations_a_port": _spread(matrix),
            "destinations_a_port_min_hop": _spread(best),
        }
        slower = float(groups.mean() / least.mean()) if len(groups) else 1.0
        figures["slower_than_min_hop"] = slower
        if slower > UNEVEN:
            out.append(_uneven(matrix, slower))
    return out, {"forwarding": figures}


def _speeds(found: Found) -> dict[int, float]:
    """Cables between switches that are slower than most."""
    rate = found.rate_bps[found.between]
    usual = np.median(rate[rate > 0]) if (rate > 0).any() else 0
    slow = (rate > 0) & (rate < usual)
    return dict(zip(found.between[slow].tolist(), (rate[slow] / max(usual, 1)).tolist(), strict=True))


def _spread(matrix: Matrix) -> list[int]:
    """Fewest and most destinations of a cable between switches, over the switches with hosts."""
    leafs = {int(matrix.switch[row]) for row in matrix.leafs}
    counts = [count for device, count in matrix.destinations().items() if device in leafs and len(count)]
    return [min(int(one.min()) for one in counts), max(int(one.max()) for one in counts)] if counts else []


def _unreached(matrix: Matrix) -> list[Symptom]:
    """By the switch at which packets are lost, or from which on they go round."""
    stuck = matrix.walks[1]
    out = []
    for row in np.unique(stuck[stuck >= 0]).tolist():
        gone = np.flatnonzero((stuck == row).any(axis=0))
        kinds = matrix.next[row, gone]
        device = matrix.found.device(int(matrix.switch[row]))
        names = [matrix.found.device(int(matrix.host[one])).described for one in gone[:2].tolist()]
        shown = ", ".join(names) + (" ..." if len(gone) > 2 else "")
        count = Counter(_why(int(kind)) for kind in kinds.tolist())
        words = f"{len(gone)} of {len(matrix.host)} destinations ({shown}): {', '.join(count)}"
        finding = Finding("no-route", device.described, UNKNOWN, words, idle=float(len(gone)))
        out.append(Symptom(finding))
    return out


def _why(kind: int) -> str:
    if kind == NO_CABLE:
        return "its table leads into a port without a cable"
    return "its table has no port for them" if kind < 0 else "its table leads in a circle, or to another host"


def _uneven(matrix: Matrix, slower: float) -> Symptom:
    """The switch whose cables are used least evenly stands for all."""
    leafs = {int(matrix.switch[row]) for row in matrix.leafs}
    counts = {d: c for d, c in matrix.destinations().items() if d in leafs and len(c)}
    worst = max(counts, key=lambda one: (int(counts[one].max() - counts[one].min()), -one))
    name = matrix.found.device(worst).described
    least, most = int(counts[worst].min()), int(counts[worst].max())
    words = (
        f"its cables upwards carry {least} to {most} destinations; all shift permutations take {slower:.2f} times as"
        " long as under min-hop's tables for the same cables: let the subnet manager route anew"
    )
    return Symptom(Finding("unbalanced", name, UNKNOWN, words, slower=slower))
