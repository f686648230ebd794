"""F3: everybody sends to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.engine.packet import Settings, Traffic, fat_tree, run
from railyard.kit.quantities import percentile
from railyard_validation.fabric.figure import Case, Row, figure
from railyard_validation.fabric.packets import PAUSES_ALONE, RATE_BPS, SCHEDULED, microseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_SENDERS = 128
_HOSTS = 250
_BYTES = 2_000_000


def traffic() -> Traffic:
    """128 hosts send 2 MB each to host 0."""
    return Traffic.of(_HOSTS, np.arange(1, _SENDERS + 1), 0, _BYTES)


@figure(
    "F3",
    claim="An incast loses nothing and ends when the receiver's link has carried it all",
    scenario="128 hosts send 2 MB each to one at 400 Gb/s in a three-tier tree of 250 (ideal 5,242 us)",
    source="uet-htsim (commit 40ccb05), its own runs",
)
def incast() -> Iterator[Row]:
    """Last finish, fairness, and what else stands still."""
    tree = fat_tree(_HOSTS, rate_bps=RATE_BPS)
    cases = {
        "NSCC": Settings(),
        "RCCC": Settings(congestion_control="rccc"),
        "scheduled": SCHEDULED,
        "RoCE at line rate with PFC": PAUSES_ALONE,
    }
    for name, settings in cases.items():
        found = run(tree, traffic(), settings)
        times = microseconds(found)
        last = float(times[-1])
        case = Case("F3", f"{name}, last finish", "us")
        yield case.between("5,276 to 5,283", last, low=5276 * 0.98, high=5283 * 1.02, tolerance="+-2 %")
        if name in ("RCCC", "scheduled"):
            share = 100 * percentile(times, 0.5) / last
            fair = Case("F3", f"{name}, p50 over last finish", "%")
            yield fair.between("near 100: credit is fair", share, low=98, high=100, tolerance="-2 points")
        if settings.transport == "rdma":
            lost = float(found.meta["packets"]["dropped"] + found.meta["packets"]["retransmitted"])
            yield Case("F3", f"{name}, packets lost", "packets").between("none", lost, high=0)
        if settings.switching == "pfc":
            paused = Case("F3", f"{name}, links paused other than the receiver's own", "links")
            yield paused.between("pauses spread", float((found.table("links")["paused_ps"] > 0).sum()), low=10)
