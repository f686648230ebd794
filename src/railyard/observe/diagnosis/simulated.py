"""The diagnosis of a record with its task graph: accelerators and hosts by their peers, then the network by replay.

Nothing of the record is read but what happened and what ran: not what its `meta` says of faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.observe.diagnosis import compute, network
from railyard.observe.diagnosis.verdict import Diagnosis, Suspect

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.observe.diagnosis.network import Delays, Explained

ALIKE = 0.02
"""The slowest accelerator of a slow host takes at most so much longer than its fastest."""

NEGLIGIBLE = 1e-4
"""Delays of communications that are less of the step than this name nothing."""


@dataclass(frozen=True)
class Price:
    """What the cluster costs.

    Attributes:
        usd_per_hour: All of it; None where no price is known.
    """

    usd_per_hour: float | None = None

    def of(self, share: float) -> float | None:
        """What a share of the time of all accelerators costs an hour."""
        return None if self.usd_per_hour is None else self.usd_per_hour * share


def diagnose(record: Record, cluster: Cluster | None, price: Price = Price()) -> Diagnosis:
    """What is wrong.

    Args:
        record: Of tasks, with their graph.
        cluster: On which they ran; None: only accelerators can be named.
        price: What the cluster costs.
    """
    answer = Diagnosis()
    _computing(record, cluster, price, answer)
    if cluster is None:
        answer.notes.append("without --cluster no link, NIC or host can be named")
        return answer
    graph = network.measured_graph(record)
    found = network.delays(record, graph, cluster)
    _slowdown(record, found, answer)
    lost = float((found.measured - found.expected)[found.late].sum())
    if not found.late.any() or lost < NEGLIGIBLE * record.makespan_ps:
        return answer
    _networking(found, network.explain(found, graph, cluster), record, price, answer)
    return answer


def _computing(record: Record, cluster: Cluster | None, price: Price, answer: Diagnosis) -> None:
    pace = compute.paces(record)
    slow = compute.slow_ranks(pace)
    if not slow:
        return
    per_host = 0 if cluster is None else cluster.ranks_per_server
    ideal = _worth(pace)
    for host in slow_hosts(slow, per_host):
        ranks = range(host * per_host, (host + 1) * per_host)
        mean = float(np.mean([slow.pop(rank) for rank in ranks]))
        answer.verdict.append(
            Suspect(
                f"server {host}",
                "host",
                _sure(mean),
                f"its {per_host} accelerators compute {mean:.3f} times as long as the median",
                price.of(ideal),
            )
        )
    for rank, ratio in sorted(slow.items(), key=lambda item: -item[1]):
        answer.verdict.append(
            Suspect(
                f"rank {rank}",
                "accelerator",
                _sure(ratio),
                f"it computes {ratio:.3f} times as long as the median rank",
                price.of(ideal),
            )
        )


def _worth(pace: np.ndarray) -> float:
    """The share of the step that the slowest rank costs all, at most: of a step of computation alone."""
    known = pace[np.isfinite(pace)]
    return float(1 - np.median(known) / known.max())


def slow_hosts(slow: dict[int, float], per_host: int) -> list[int]:
    """Hosts all of whose accelerators are slow, and equally."""
    if per_host < 2:
        return []
    hosts = sorted({rank // per_host for rank in slow})
    found = []
    for host in hosts:
        ratios = [slow.get(rank) for rank in range(host * per_host, (host + 1) * per_host)]
        known = [ratio for ratio in ratios if ratio is not None]
        if len(known) == per_host and max(known) < (1 + ALIKE) * min(known):
            found.append(host)
    return found


def _sure(ratio: float) -> float:
    return round(float(min(0.99, 1 - 0.5 * np.exp(-(ratio - 1) / compute.LEAST))), 3)


def _slowdown(record: Record, found: Delays, answer: Diagnosis) -> None:
    answer.what_if = {
        "S": record.makespan_ps / max(found.step_ps, 1),
        "of": "communications, with computations as measured",
    }


def _networking(found: Delays, tried: list[Explained], record: Record, price: Price, answer: Diagnosis) -> None:
    best = tried[0] if tried else None
    if best is None or best.error > 1 - network.EXPLAINED:
        answer.unknown = True
        answer.notes.append(
            f"{int(found.late.sum())} communications take longer than they should, and no part explains that"
        )
        return
    rivals = [
        one
        for one in tried[1:]
        if one.error - best.error < network.APART and not set(one.part.links) <= set(best.part.links)
    ]
    smaller = [one for one in rivals if not set(best.part.links) <= set(one.part.links)]
    if smaller:
        answer.unknown = True
        names = ", ".join(one.part.name for one in (best, *smaller[:4]))
        answer.notes.append(f"several parts explain the delays equally well: {names}")
        return
    late = int(found.late.sum())
    evidence = (
        f"{late} communications are late, {1 - best.error:.1%} of it as if it carried {best.factor:.0%} of its rate;"
        f" the step is {record.makespan_ps / max(found.step_ps, 1):.4f} times as long"
    )
    share = 1 - found.step_ps / max(record.makespan_ps, 1)
    answer.verdict.append(
        Suspect(
            best.part.name, best.part.kind, round(min(0.99, 1 - best.error), 3), evidence, price.of(max(share, 0.0))
        )
    )
