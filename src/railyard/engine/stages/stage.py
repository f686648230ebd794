"""What every stage is to those around it: requests come in at times, go out at times, and these are made of parts."""

from __future__ import annotations

import heapq
import zlib
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from railyard.cluster.routes import finalized
from railyard.engine.serving.running import STATUS
from railyard.graph import Record
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from railyard.graph import RequestTable

    Progress = Callable[[int, int], None]


def uniform(seed: int, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 to 1, both excluded, for each request.

    Args:
        seed: Of the run.
        name: What is drawn.
        rows: Numbers of the requests.
    """
    salt = np.full(1, zlib.crc32(name.encode()), np.uint64) << np.uint64(32)
    key = finalized(finalized(np.full(1, seed % 2**64, np.uint64)) ^ salt)
    bits = finalized(key ^ finalized(rows.astype(np.uint64) + np.uint64(1))) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


@dataclass(frozen=True)
class Takers:
    """Which requests take a stage; the others pass it by.

    Attributes:
        share: Of the requests.
        long_tokens: Prompts of more tokens than this have a share of their own; None: none have.
        share_long: Of those.
        unless: Only those that did not take this stage.
    """

    share: float = 1.0
    long_tokens: int | None = None
    share_long: float = 1.0
    unless: str | None = None


def takers(
    when: Takers, seed: int, name: str, input_tokens: NDArray[np.int32], others: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Which requests take a stage.

    Args:
        when: Which do.
        seed: Of the run.
        name: The stage.
        input_tokens: int32[n], of each request as it was asked.
        others: bool[n], who took the stage that excludes this one; None where there is none.
    """
    share = np.full(len(input_tokens), when.share)
    if when.long_tokens is not None:
        share[input_tokens > when.long_tokens] = when.share_long
    taken = uniform(seed, name, np.arange(len(input_tokens))) < share
    return taken if others is None else taken & ~others


def delays(mean_s: float, p99_s: float | None, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Delays in seconds: all alike, or log-normal with that mean and 99th percentile.

    With ln(p99 / mean) = z s - s^2 / 2, of the two widths s the smaller is taken.

    Raises:
        InputError: No log-normal law has this mean and percentile.
    """
    if p99_s is None:
        return np.full(len(u), mean_s)
    law = NormalDist()
    z = law.inv_cdf(0.99)
    if not mean_s <= p99_s <= mean_s * np.exp(z**2 / 2):
        raise InputError(
            "no log-normal law has this mean and 99th percentile",
            key="p99",
            found=f"{p99_s:g} s",
            allowed=f"{mean_s:g} s to {mean_s * float(np.exp(z**2 / 2)):.3g} s",
        )
    sigma = z - (z**2 - 2 * np.log(p99_s / mean_s)) ** 0.5
    normal = np.array([law.inv_cdf(one) for one in u.tolist()], np.float64)
    found: NDArray[np.float64] = mean_s * np.exp(sigma * normal - sigma**2 / 2)
    return found


def starts(arrival_ps: NDArray[np.int64], service_ps: NDArray[np.int64], servers: int | None) -> NDArray[np.int64]:
    """When each request's service begins.

    Args:
        arrival_ps: int64[n], ascending.
        service_ps: int64[n].
        servers: How many; None: one for everybody.
    """
    if servers is None:
        return arrival_ps.copy()
    begins = np.empty_like(arrival_ps)
    free = [0] * min(servers, max(len(arrival_ps), 1))
    for row, (arrives, takes) in enumerate(zip(arrival_ps.tolist(), service_ps.tolist(), strict=True)):
        begin = max(arrives, free[0])
        begins[row] = begin
        heapq.heapreplace(free, begin + takes)
    return begins


CAUSES = ("queue", "compute", "collectives", "transfer")
"""Of which every time is made: waiting, computing, collectives that nothing hides, data on its way."""
PS = 1e12


SPENT = tuple(f"{cause}_s" for cause in CAUSES)
"""Columns of a request's time at a stage."""
FIRST = tuple(f"first_{cause}_s" for cause in CAUSES)
"""The same up to the first token of a language model."""
SERVING = "serving"
"""Part of a record of visits: the run of the serving engine, where the stage has one."""


class Stage(Protocol):
    """A stage, ready to run."""

    @property
    def nic_bps(self) -> float:
        """Rate at which one of its requests' data may come and go; infinite where nothing bounds it."""

    def sends_bytes(self, requests: RequestTable) -> NDArray[np.float64]:
        """f64[n], what each request carries on from here."""

    def run(self, requests: RequestTable, rows: NDArray[np.int64], seed: int, progress: Progress | None) -> Record:
        """Serves requests.

        Args:
            requests: Those that take the stage, with the times at which they come, ascending.
            rows: int64[m], their numbers among all requests.
            seed: Of everything random.
            progress: Called with how many have left, and the simulated time in ps.

        Returns:
            What `visits` makes.
        """


def parts(**seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """f64[m, 4] of columns by cause; causes that are left out are zero."""
    count = len(next(iter(seconds.values())))
    return np.column_stack([seconds.get(cause, np.zeros(count)) for cause in CAUSES])


def columns(names: tuple[str, ...], seconds: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The parts of a time as columns of a record.

    Args:
        names: `SPENT` or `FIRST`.
        seconds: f64[m, 4], by `CAUSES`.
    """
    return {name: np.ascontiguousarray(seconds[:, place]) for place, name in enumerate(names)}


def visits(
    rows: NDArray[np.int64],
    start_ps: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    spent: NDArray[np.float64],
    *,
    refused: NDArray[np.bool_] | None = None,
    overloaded: bool = False,
    optional: Mapping[str, NDArray[Any]] | None = None,
    run: Record | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Record:
    """What became of the requests of one stage; a row a request, in the order in which they came.

    Args:
        rows: int64[m], their numbers among all requests.
        start_ps: int64[m], when they came.
        end_ps: int64[m], when the stage was through with them; -1 where it never was.
        spent: f64[m, 4], seconds from start to end by `CAUSES`.
        refused: bool[m], it can never be served here; None: all can.
        overloaded: The stage's queue grew without bound.
        optional: Further columns.
        run: Of the serving engine; None where the stage has none.
        meta: What else is known of the stage.
    """
    left = np.where(False if refused is None else refused, STATUS.index("dropped"), STATUS.index("unfinished"))
    status = np.where(end_ps >= 0, STATUS.index("done"), left).astype(np.uint8)
    return Record(
        rows="visits",
        who=rows.astype(np.int32),
        what=np.zeros(len(rows), np.int32),
        start_ps=start_ps,
        end_ps=end_ps,
        size_bytes=np.zeros(len(rows), np.int64),
        optional={**columns(SPENT, spent), "status": status, **(optional or {})},
        parts={} if run is None else {SERVING: run},
        meta={"overloaded": overloaded, **(meta or {})},
    )
