"""What an hour of the cluster costs, at the use that a run made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.bill import bill_of
from railyard.measure.causes import CAUSES, Cause
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.hourly import hourly
from railyard.measure.cost.parts import parts_of_rows
from railyard.measure.decompose import Decomposition, TimeRow

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.measure.cost.sources import Source
    from railyard.measure.result.section import Band
    from railyard.work.scenario.model import Scenario

SECOND_PS = 10**12
_CAUSE = {"work": Cause.COMPUTE, "contention": Cause.CONTENTION, "straggler": Cause.STRAGGLER}
"""What is neither work nor one of these is time in which accelerators wait."""


def usd_per_h(cluster: Cluster, scenario: Scenario, time: dict[str, float]) -> tuple[Band, tuple[Source, ...]]:
    """Dollars an hour, and the sources of every price.

    Args:
        cluster: The machine.
        scenario: Whose prices.
        time: Shares of the accelerators' time, as `accounts.shares` gives them.
    """
    assumptions = Assumptions.from_catalog(cluster.catalog, scenario.economics.given())
    parts = parts_of_rows(bill_of(cluster))
    cost = hourly(_spent(time, cluster.ranks), cluster.accelerator, parts, assumptions)
    return cost.section().usd_per_h, cost.sources


def _spent(time: dict[str, float], ranks: int) -> Decomposition:
    """The shares as a second of a step, the same of every accelerator."""
    shares = np.zeros(CAUSES)
    for name, share in time.items():
        shares[_CAUSE.get(name, Cause.DEPENDENCY)] += max(share, 0.0)
    exact = np.rint(shares / shares.sum() * SECOND_PS).astype(np.int64)
    exact[Cause.DEPENDENCY] += SECOND_PS - exact.sum()
    rows = tuple(
        TimeRow(Cause(number).word, "", "", value / SECOND_PS, value / SECOND_PS, int(value) * ranks)
        for number, value in enumerate(exact.tolist())
        if value
    )
    return Decomposition(SECOND_PS, rows, np.tile(exact, (ranks, 1)), np.zeros(ranks, np.int64), 0)
