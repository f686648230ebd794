"""What a packet-level run found, as the report draws it: completion times, tails, counts, and what was probed.

Percentiles are by nearest rank: the smallest value that at least that share of all values does not exceed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from railyard.kit.percentile import percentile
from railyard.measure.background import background
from railyard.measure.result.packet import FlowTimes, PacketFigures, QueueSeries, SenderSeries, StormFigures, TailRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record

POINTS = 200
"""Most points of the distribution of completion times."""

_TAIL = 60
"""Of them, those that the slowest flows have to themselves."""

_PS_PER_US = 10**6
_NO_TIMES = dict.fromkeys(("min", "mean", "p50", "p99", "p999", "max"))
_SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


class Probed(TypedDict, total=False):
    """What was sampled; parts that were not are absent."""

    queues: QueueSeries
    flows: SenderSeries
    storm: StormFigures


def fct_us(flows: Record) -> NDArray[np.float64]:
    """float64[n], completion times in us, to the last acknowledgement at the sender; NaN where one has not finished."""
    return np.where(flows.ended, (flows.end_ps - flows.start_ps) / _PS_PER_US, np.nan)


def host(number: int) -> str:
    """The name of a host."""
    return f"h{number}"


def packet_section(
    flows: Record,
    packets: Mapping[str, int],
    *,
    constants: Mapping[str, float] | None = None,
    left_out: Sequence[str] = (),
    probed: Probed | None = None,
    name: Callable[[int], str] = host,
) -> PacketFigures:
    """The object `packet` of a variant in `result.json`.

    Args:
        flows: What was sent and when it was done.
        packets: Counts by kind.
        constants: Those of the run, unit in the name.
        left_out: What the model leaves out.
        probed: What was sampled: queues, senders and pauses.
        name: Names a host.

    Raises:
        InputError: The record does not say where flows went.
    """
    flows.require("tails of completion times", "target")
    ended = flows.ended
    times = fct_us(flows)[ended]
    return PacketFigures(
        flows_total=len(ended),
        flows_finished=int(ended.sum()),
        last_finish_us=float(flows.end_ps[ended].max()) / _PS_PER_US if len(times) else None,
        payload_bytes=int(flows.size_bytes[ended].sum()),
        fct_us=FlowTimes(**(_times(times) if len(times) else _NO_TIMES)),
        fct_cdf=distribution(times),
        tails=tuple(_tails(flows, name)),
        background=tuple(background(flows)) or None,
        packets={kind: int(number) for kind, number in packets.items()},
        constants=dict(constants or {}),
        left_out=tuple(left_out),
        **(probed or {}),
    )


def _times(times: NDArray[np.float64]) -> dict[str, float]:
    ordered = np.sort(times)
    middle = {key: percentile(ordered, share) for key, share in _SHARES.items()}
    return {"min": float(ordered[0]), "mean": float(times.mean()), **middle, "max": float(ordered[-1])}


def distribution(times: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    """Points (time, share of all that took no longer), at most `POINTS`; the slowest flows have theirs, one each."""
    count = len(times)
    if not count:
        return ()
    tail = min(_TAIL, count)
    ranks = np.union1d(np.linspace(1, count, POINTS - tail).astype(np.int64), count - _tail_places(tail, count))
    ordered = np.sort(times)
    return tuple((float(ordered[rank - 1]), rank / count) for rank in ranks.tolist())


def _tail_places(points: int, count: int) -> NDArray[np.int64]:
    """Places from the slowest (0) on, each further from the last than that from the one before."""
    if count <= points:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, points).astype(np.int64)) - 1


def _tails(flows: Record, name: Callable[[int], str]) -> list[TailRow]:
    everyone = _tail("all", flows, flows.ended, name)
    if len(flows.labels) < 2:
        return everyone
    parts = [_tail(label.name, flows, flows.ended & (flows.what == at), name) for at, label in enumerate(flows.labels)]
    return [*everyone, *(row for part in parts for row in part)]


def _tail(group: str, flows: Record, rows: NDArray[np.bool_], name: Callable[[int], str]) -> list[TailRow]:
    """One row, or none where nothing has finished."""
    chosen = np.flatnonzero(rows)
    if not len(chosen):
        return []
    times = fct_us(flows)[chosen]
    found = _times(times)
    slowest = int(chosen[int(times.argmax())])
    source, target = int(flows.who[slowest]), int(flows.column("target")[slowest])
    return [
        TailRow(
            group=group,
            flows=len(chosen),
            mean_us=found["mean"],
            p50_us=found["p50"],
            p99_us=found["p99"],
            p999_us=found["p999"],
            max_us=found["max"],
            slowest=f"{name(source)}->{name(target)}",
        )
    ]
