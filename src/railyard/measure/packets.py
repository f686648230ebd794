"""What a packet-level run found, as the report draws it: completion times, tails, counts, and what was probed.

Percentiles are by nearest rank: the smallest value that at least that share of all values does not exceed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.percentile import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.graph import Record

POINTS = 200
"""Most points of the distribution of completion times."""

_TAIL = 60
"""Of them, those that the slowest flows have to themselves."""

_PS_PER_US = 10**6
_SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


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
    probed: Mapping[str, Any] | None = None,
    name: Callable[[int], str] = host,
) -> dict[str, Any]:
    """The object `packet` of a variant in `result.json`.

    Args:
        flows: What was sent and when it was done.
        packets: Counts by kind.
        constants: Those of the run, unit in the name.
        left_out: What the model leaves out.
        probed: What was sampled: any of `queues`, `flows`, `storm`, `reorder`, as they stand in the result.
        name: Names a host.

    Raises:
        InputError: The record does not say where flows went.
    """
    flows.require("tails of completion times", "target")
    ended = flows.ended
    times = fct_us(flows)[ended]
    return {
        "flows_total": len(ended),
        "flows_finished": int(ended.sum()),
        "last_finish_us": float(flows.end_ps[ended].max()) / _PS_PER_US if len(times) else None,
        "payload_bytes": int(flows.size_bytes[ended].sum()),
        "fct_us": _times(times),
        "fct_cdf": distribution(times),
        "tails": _tails(flows, name),
        "packets": {kind: int(number) for kind, number in packets.items()},
        "constants": dict(constants or {}),
        "left_out": list(left_out),
        **(probed or {}),
    }


def _times(times: NDArray[np.float64]) -> dict[str, float | None]:
    if not len(times):
        return dict.fromkeys(("min", "mean", *_SHARES, "max"))
    ordered = np.sort(times)
    middle = {key: percentile(ordered, share) for key, share in _SHARES.items()}
    return {"min": float(ordered[0]), "mean": float(times.mean()), **middle, "max": float(ordered[-1])}


def distribution(times: NDArray[np.float64]) -> list[list[float]]:
    """Points (time, share of all that took no longer), at most `POINTS`; the slowest flows have theirs, one each."""
    count = len(times)
    if not count:
        return []
    tail = min(_TAIL, count)
    ranks = np.union1d(np.linspace(1, count, POINTS - tail).astype(np.int64), count - _tail_places(tail, count))
    ordered = np.sort(times)
    return [[float(ordered[rank - 1]), rank / count] for rank in ranks.tolist()]


def _tail_places(points: int, count: int) -> NDArray[np.int64]:
    """Places from the slowest (0) on, each further from the last than that from the one before."""
    if count <= points:
        return np.arange(count)
    return np.unique(np.geomspace(1, count, points).astype(np.int64)) - 1


def _tails(flows: Record, name: Callable[[int], str]) -> list[dict[str, Any]]:
    everyone = _tail("all", flows, flows.ended, name)
    if len(flows.labels) < 2:
        return everyone
    parts = [_tail(label.name, flows, flows.ended & (flows.what == at), name) for at, label in enumerate(flows.labels)]
    return [*everyone, *(row for part in parts for row in part)]


def _tail(group: str, flows: Record, rows: NDArray[np.bool_], name: Callable[[int], str]) -> list[dict[str, Any]]:
    """One row, or none where nothing has finished."""
    chosen = np.flatnonzero(rows)
    if not len(chosen):
        return []
    times = fct_us(flows)[chosen]
    found = _times(times)
    slowest = int(chosen[int(times.argmax())])
    source, target = int(flows.who[slowest]), int(flows.column("target")[slowest])
    return [
        {
            "group": group,
            "flows": len(chosen),
            **{f"{key}_us": found[key] for key in ("mean", *_SHARES, "max")},
            "slowest": f"{name(source)}->{name(target)}",
        }
    ]
