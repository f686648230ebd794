"""What an hour of a cluster costs while a record ran on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.measure.causes import Cause
from railyard.measure.cost.assumptions import Assumptions
from railyard.measure.cost.hourly import hourly
from railyard.measure.cost.parts import parts_of_rows
from railyard.measure.decompose import TimeRow, decompose

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.cost.power import StepShares


@dataclass(frozen=True)
class Spent:
    """How time was spent, as the price of energy needs it.

    Attributes:
        ranks: Accelerators.
        step_s: Length of what was measured.
        rows: Computation and the rest.
    """

    ranks: int
    step_s: float
    rows: tuple[TimeRow, ...]


@dataclass(frozen=True)
class PriceOfParts:
    """What the capacity behind a part costs: it stands still while the part is slow, or is taken out.

    Attributes:
        usd_per_hour: Of the cluster.
        ranks: Its accelerators.
        per_host: Accelerators of a server.
    """

    usd_per_hour: float
    ranks: int
    per_host: int

    def of(self, kind: str) -> float | None:
        """Of the accelerator, or of all of the host behind a NIC; None of a cable between switches."""
        behind = {"accelerator": 1, "nic": self.per_host, "host": self.per_host}.get(kind)
        return None if behind is None else self.usd_per_hour * behind / self.ranks


def parts_of(cluster: Cluster) -> PriceOfParts:
    """Of a cluster that computes half of its time: energy is a small part of its price."""
    return PriceOfParts(traced_usd_per_hour(cluster, 1.0, 0.5), cluster.ranks, cluster.ranks_per_server)


def traced_usd_per_hour(cluster: Cluster, span_s: float, utilization: float) -> float:
    """All of the cluster, at typical prices of the catalogue, while a trace was taken.

    Args:
        cluster: The machine.
        span_s: Length of the trace.
        utilization: Share of it in which they computed.
    """
    busy = min(max(utilization, 0.0), 1.0)
    rows = tuple(
        TimeRow(cause.name.lower(), "", "", span_s * share, share)
        for cause, share in ((Cause.COMPUTE, busy), (Cause.BANDWIDTH, 1 - busy))
    )
    return _hourly(cluster, Spent(cluster.ranks, span_s, rows))


def usd_per_hour(record: Record, cluster: Cluster) -> float:
    """All of the cluster, at typical prices of the catalogue.

    Raises:
        InputError: The record says too little of where its time went.
    """
    return _hourly(cluster, decompose(record))


def _hourly(cluster: Cluster, spent: StepShares) -> float:
    parts = parts_of_rows(bill_of(cluster))
    cost = hourly(spent, cluster.accelerator, parts, Assumptions.from_catalog(cluster.catalog))
    return cost.section().usd_per_h.typical
