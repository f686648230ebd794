"""Requests of a serving run: rows for the waterfall, how many were in each state over time, latencies by percentile."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.face.web.views import packed, view
from railyard.kit.errors import InputError
from railyard.kit.files import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Columns = dict[str, NDArray[np.float64]]

_RUNS = 3
PARTS = ("queue_s", "compute_s", "collectives_s", "transfer_s")
"""Parts of the time to the first token; see `railyard.measure.serving.latencies`."""

_WANTED = ("arrival_s", "ttft_s", "tpot_s", "e2e_s", "input_tokens", "output_tokens", *PARTS)

POINTS = 201
"""Points of a distribution, and of the time that a run takes."""


@view("requests")
def head(question: dict[str, Any]) -> bytes:
    """Requests that waited, were read and were answered over time, and the distributions of their latencies.

    Args:
        question: `path` of the record.
    """
    found = _opened(question)
    begin, queued = found["arrival_s"], found["arrival_s"] + found["queue_s"]
    first, end = found["arrival_s"] + found["ttft_s"], found["arrival_s"] + found["e2e_s"]
    last = float(end.max(initial=0.0))
    at = np.linspace(0.0, last, POINTS)
    counts = [_among(*span, at) for span in ((begin, queued), (queued, first), (first, end))]
    share = np.linspace(0.0, 1.0, POINTS)
    several = found["tpot_s"][np.isfinite(found["tpot_s"])]
    delays = {"ttft": found["ttft_s"], "tpot": several, "e2e": found["e2e_s"]}
    return packed(
        {"requests": len(begin), "end_s": last},
        {
            "time": at.astype(np.float32),
            "count": np.concatenate(counts).astype(np.float32),
            **{
                name: (np.quantile(values, share) if len(values) else np.zeros(0)).astype(np.float32)
                for name, values in delays.items()
            },
        },
    )


@view("request-rows")
def rows(question: dict[str, Any]) -> bytes:
    """Some requests with the parts of their time, seconds.

    Args:
        question: `path`, `order` (`arrival`, or `ttft`, `e2e`: the slowest first), `first` and `count`.
    """
    found = _opened(question)
    order = _ORDERS[question["order"]](found)
    some = order[question["first"] : question["first"] + question["count"]]
    return packed(
        {"first": question["first"], "count": len(some)},
        {"row": some.astype(np.int32), **{name: found[name][some].astype(np.float32) for name in _WANTED}},
    )


_ORDERS: dict[str, Callable[[Columns], NDArray[np.int64]]] = {
    "arrival": lambda found: np.argsort(found["arrival_s"], kind="stable"),
    "ttft": lambda found: np.argsort(-found["ttft_s"], kind="stable"),
    "e2e": lambda found: np.argsort(-found["e2e_s"], kind="stable"),
}


def _among(begin: NDArray[np.float64], end: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number of intervals that contain each moment, ends excluded."""
    begun, ended = np.sort(begin), np.sort(end)
    found: NDArray[np.int64] = np.searchsorted(begun, at, "right") - np.searchsorted(ended, at, "right")
    return found


def _opened(question: dict[str, Any]) -> Columns:
    path = Path(question["path"])
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=_RUNS)
def _read(path: Path, changed_ns: int) -> Columns:
    """Requests that got all of their answer, the first arrival at 0."""
    import polars as pl
    from polars.exceptions import PolarsError

    del changed_ns
    try:
        frame = pl.read_parquet(readable(path), columns=[*_WANTED, "status"])
    except PolarsError as error:
        raise InputError("this is not a table of requests", found=str(error).splitlines()[0]) from None
    done = frame.filter(pl.col("status") == 0)
    found = {name: done[name].cast(pl.Float64).to_numpy() for name in _WANTED}
    if len(done):
        found["arrival_s"] = found["arrival_s"] - found["arrival_s"].min()
    return found
