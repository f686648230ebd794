"""The diagnosis of traces of kernels: ranks whose kernels are slow, ranks that come late, groups that are slow.

All ranks of a collective end together, so that its time names nobody. But the same kernel on other ranks says how long
it should take, and who starts a collective last lets the others wait. A rank whose kernels are slow is an
accelerator's (or, where all of a host are, the host's); one that is late while its kernels are not is held up on its
host: data, garbage collection, launches. Of groups alike in kind, size and members a slow one says that something on
its paths is slow, and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.observe.diagnosis import compute
from railyard.observe.diagnosis.verdict import UNPRICED, Diagnosis, Suspect
from railyard.observe.kernels import COMPUTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph import Record
    from railyard.observe.diagnosis.verdict import Price

    Floats = NDArray[np.float64]

PEERS = 3
"""Fewest ranks that ran a kernel for its time to be compared."""

LATE, USUALLY = 0.01, 0.5
"""Of the trace, the time that others waited for a rank, and of all collectives the share that it came last to."""

SLOWER = 1.1
"""Over the median of groups like it, from which a group is slow."""


def diagnose(record: Record, figures: dict[str, Any], per_host: int = 0, price: Price = UNPRICED) -> Diagnosis:
    """What is wrong.

    Args:
        record: Of kernels.
        figures: Its summary.
        per_host: Accelerators of a server; 0 where that is not known.
        price: What the cluster costs: a part costs the share of it that others wait for.
    """
    answer = Diagnosis()
    ranks = [one["rank"] for one in figures["ranks"]]
    pace, alike = paces(record, np.array(ranks))
    found = compute.relative(pace, alike, per_host)
    for one in compute.slow_parts(found, [], per_host if ranks == list(range(len(ranks))) else 0):
        names = {f"rank {number}": f"rank {rank}" for number, rank in enumerate(ranks)}
        words = f"its kernels take {one.ratio:.3f} times as long as the same ones elsewhere (spread {found.sigma:.2%})"
        sure = round(min(0.99, 1 - 0.5 * float(np.exp(-one.spreads / 2))), 3)
        usd = price.of((1 - 1 / one.ratio) * figures["utilization"])
        answer.verdict.append(Suspect(names.get(one.name, one.name), one.kind, sure, words, usd))
    named = {suspect.part for suspect in answer.verdict}
    if not named:
        answer.verdict += _late(figures, price)
    slow = _slow_groups(figures)
    if slow and not answer.verdict:
        answer.unknown = True
    answer.notes += slow + figures["warnings"]
    if len(ranks) < PEERS:
        answer.unknown = True
        answer.notes.append(f"{len(ranks)} ranks were traced: there are no peers to compare with")
    return answer


def paces(record: Record, ranks: NDArray[np.int64]) -> tuple[Floats, list[list[int]]]:
    """float64[ranks], time of kernels over that of the same ones elsewhere, and places of ranks that run the same ones.

    Of each kernel by name the median time of a rank over the median of all, weighted by the rank's time in it.
    """
    phase = np.array([label.phase == COMPUTE for label in record.labels], np.bool_)
    rows = np.flatnonzero(phase[record.what])
    place = np.searchsorted(ranks, record.who[rows])
    took = (record.end_ps[rows] - record.start_ps[rows]).astype(np.float64)
    key = record.what[rows].astype(np.int64) * len(ranks) + place
    order = np.lexsort((took, key))
    found, first, count = np.unique(key[order], return_index=True, return_counts=True)
    sorted_took = took[order]
    middle = (sorted_took[first + (count - 1) // 2] + sorted_took[first + count // 2]) / 2
    total = np.add.reduceat(sorted_took, first) if len(first) else np.empty(0)
    kernel, where = np.divmod(found, max(len(ranks), 1))
    spent, usual = np.zeros(len(ranks)), np.zeros(len(ranks))
    ran: dict[int, list[int]] = {number: [] for number in range(len(ranks))}
    for those in np.split(np.arange(len(found)), np.flatnonzero(np.diff(kernel)) + 1) if len(found) else []:
        typical = float(np.median(middle[those]))
        if len(those) < PEERS or typical <= 0:
            continue
        spent[where[those]] += total[those] * middle[those] / typical
        usual[where[those]] += total[those]
        for number in where[those].tolist():
            ran[number].append(int(kernel[those[0]]))
    with np.errstate(divide="ignore", invalid="ignore"):
        pace = np.where(usual > 0, spent / usual, np.nan)
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, kernels in ran.items():
        groups.setdefault(tuple(kernels), []).append(number)
    return pace, [group for kernels, group in groups.items() if kernels]


def _late(figures: dict[str, Any], price: Price) -> list[Suspect]:
    """The rank that others wait for most of the time."""
    span = max(figures["span_s"], 1e-12)
    return [
        Suspect(
            f"rank {one['rank']}",
            "rank",
            0.8,
            f"it came last to {one['last']} of {one['collectives']} collectives,"
            f" others waited {one['late_s']:.3g} s in all,"
            " and its kernels are not slow: its host, data or launches",
            price.of(min(one["late_s"] / span, 1.0)),
        )
        for one in figures["stragglers"][:1]
        if one["late_s"] > LATE * span and one["last"] > USUALLY * one["collectives"]
    ]


def _slow_groups(figures: dict[str, Any]) -> list[str]:
    like: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for one in figures["collectives"]:
        if one["traced"] == one["members"]:  # else its time holds waiting for those that were not traced
            like.setdefault((one["kind"], one["members"], one["size_bytes"]), []).append(one)
    words = []
    for (kind, members, size), those in like.items():
        usual = float(np.median([one["median_s"] for one in those]))
        slow = [one for one in those if one["median_s"] > SLOWER * usual]
        if len(those) >= PEERS and slow and len(slow) * 2 < len(those):
            names = ", ".join(f"{one['communicator']} ({one['median_s'] / usual:.2f} times)" for one in slow[:8])
            words.append(f"{kind} of {size:,} bytes over {members} ranks is slower than in groups like it in {names}")
    return words
