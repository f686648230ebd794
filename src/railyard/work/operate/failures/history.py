"""Recorded server failures: a table of events, each taking a server out of service or returning it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit import table
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray


WEEK = 7.0
HALF_LIFE = 12.0
"""Weeks. Chosen on cuts of one history (see tests): between 8 and 16 the forecast moves by a tenth."""
REPAIR_HALF_LIFE = 6.0
"""Weeks. Repair times change quickly, with the next delivery of parts or a visit that clears a backlog, while failure
rates drift. On cuts of one history, 6 has a smaller error than 12 once repairs had become quick (p90 of the
time after day 120: 234 h; 690 and 740 h), and no more before.
"""
Z = 1.645
"""Standard normal quantile of a band that misses one time in ten."""
LEAST_WEEKS = 4
CORRELATION = 0.5
"""Correlation of one week with the next if the history is too short to tell: that of its detrended weeks."""
_PLAYED = 200
_RUN = 4
_SEED = 0x0FA17


@dataclass(frozen=True)
class Forecast:
    """Forecast of the coming weeks.

    Attributes:
        low: Faults per week, lower end of a band that misses one time in ten.
        repair_p50_h: Median time until a server is back.
        repair_p90_h: 90th percentile of that time.
        out_p95: 95th percentile over time of the number of servers out.
    """

    low: float
    mean: float
    high: float
    repair_p50_h: float
    repair_p90_h: float
    out_mean: float
    out_p95: float

    def plain(self) -> dict[str, dict[str, float]]:
        """The history as `railyard operate failures --json` prints it."""
        return {
            "faults_per_week": {"low": self.low, "mean": self.mean, "high": self.high},
            "repair_h": {"p50": self.repair_p50_h, "p90": self.repair_p90_h},
            "servers_out": {"mean": self.out_mean, "p95": self.out_p95},
        }


def forecast(history: History) -> Forecast:
    """Forecasts as many weeks as the history covers.

    Raises:
        InputError: The history has too few weeks.
    """
    weeks = int(history.days // WEEK)
    if weeks < LEAST_WEEKS:
        allowed = f"{LEAST_WEEKS * WEEK:g} or more"
        raise InputError("too few days for a forecast", key="days", found=history.days, allowed=allowed)
    count, weight = counts(history), weights(weeks)
    mean = float(count @ weight)
    spread = float(np.exp(Z * deviation(count, weight)))
    times, share = survival(history, weight_at(history, history.start))
    mean_out, p95 = servers_out(history, weights(weeks, REPAIR_HALF_LIFE))
    half, most = (24 * quantile(times, share, q) for q in (0.5, 0.9))
    return Forecast(mean / spread, mean, mean * spread, half, most, mean_out, p95)


def counts(history: History) -> NDArray[np.int64]:
    """int64[weeks], faults of each whole week; the last week ends with the history."""
    weeks = int(history.days // WEEK)
    edges = history.days - WEEK * np.arange(weeks, -1, -1)
    return np.histogram(history.start, edges)[0]


def weights(weeks: int, half_life: float = HALF_LIFE) -> NDArray[np.float64]:
    """float64[weeks], weight of each week; they sum to 1."""
    weight = 0.5 ** (np.arange(weeks)[::-1] / half_life)
    return np.asarray(weight / weight.sum())


def weight_at(history: History, day: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[days], weight of a repair that began on each day."""
    return np.asarray(0.5 ** ((history.days - day) / WEEK / REPAIR_HALF_LIFE))


def deviation(count: NDArray[np.int64], weight: NDArray[np.float64]) -> float:
    """Standard deviation of the log ratio of the future mean to the observed mean."""
    mean = count @ weight
    if mean <= 0:
        return 0.0
    residual = count - mean
    variance = float(weight @ residual**2) / mean**2
    pairs = float((weight[1:] * residual[1:]) @ residual[:-1]) / float(weight[1:].sum())
    found = pairs / mean**2 / variance if variance > 0 else 0.0
    known = len(count) / (len(count) + LEAST_WEEKS * 2)
    correlation = min(max(known * found + (1 - known) * CORRELATION, 0.0), 0.8)
    alike = (1 + correlation) / (1 - correlation)
    seen = float(weight @ weight)
    return float(np.sqrt(max(variance, 1 / mean) * alike * (seen + 1 / len(count))))


def survival(history: History, weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Kaplan-Meier estimate: times in days, and the share of servers still out after each."""
    length = history.end - history.start
    order = np.argsort(length, kind="stable")
    length, back, weight = length[order], history.back[order], weight[order]
    at_risk = np.cumsum(weight[::-1])[::-1]
    share = np.cumprod(np.where(back, 1 - weight / at_risk, 1.0))
    return length, np.asarray(share)


def quantile(times: NDArray[np.float64], share: NDArray[np.float64], q: float) -> float:
    """Time after which the share `q` is back; the longest observed time if it never is."""
    below = np.flatnonzero(share <= 1 - q)
    return float(times[below[0]] if len(below) else times[-1])


def servers_out(history: History, weight: NDArray[np.float64]) -> tuple[float, float]:
    """Mean and 95th percentile of servers out, over many futures of weeks drawn from the past."""
    weeks = len(weight)
    week = np.floor((history.start - (history.days - weeks * WEEK)) / WEEK).astype(np.int64)
    offset = history.start - (history.days - weeks * WEEK) - week * WEEK
    members = [np.flatnonzero(week == number) for number in range(weeks)]
    random = np.random.Generator(np.random.Philox(_SEED))
    times, share = survival(history, weight_at(history, history.start))
    grid = np.arange(weeks * WEEK * 4) / 4
    found = []
    for _ in range(_PLAYED):
        drawn = _runs_of_weeks(weight, random)
        start = [offset[members[one]] + WEEK * (place - weeks) for place, one in enumerate(drawn)]
        length = [_lengths(history, members[one], times, share, random) for one in drawn]
        begun, ended = np.concatenate(start), np.concatenate(start) + np.concatenate(length)
        out = np.searchsorted(np.sort(begun), grid, side="right") - np.searchsorted(np.sort(ended), grid, side="right")
        found.append(np.minimum(out, history.servers))
    away = np.concatenate(found)
    return float(away.mean()), float(np.percentile(away, 95))


def _runs_of_weeks(weight: NDArray[np.float64], random: np.random.Generator) -> list[int]:
    """Twice as many weeks as the history has, in runs of consecutive weeks because neighbors are correlated."""
    weeks = len(weight)
    ends = random.choice(weeks, 2 * weeks // _RUN + 1, p=weight)
    return [(int(end) - back) % weeks for end in ends for back in range(_RUN - 1, -1, -1)][: 2 * weeks]


def _lengths(
    history: History,
    members: NDArray[np.int64],
    times: NDArray[np.float64],
    share: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """Outage lengths of the weeks' faults; those without an end yet are drawn from beyond what was observed."""
    length = (history.end - history.start)[members].copy()
    for place in np.flatnonzero(~history.back[members]):
        left = np.interp(length[place], times, share)
        later = np.flatnonzero(share <= left * random.random())
        length[place] = max(length[place], times[later[0]] if len(later) else times[-1])
    return length


COLUMNS = ("day", "node", "event")
MOST_SERVERS = 10_000_000
MOST_DAYS = 36_525
"""A hundred years: the curves of repairs and of servers out have about one point per hour."""

EVENTS = ("fault_start", "fault_end")


@dataclass(frozen=True, eq=False)
class History:
    """Outages of n servers in order of start; times in days.

    Attributes:
        start: float64[n].
        end: float64[n], end of the observation if the server was not back by then.
        back: bool[n], whether it came back.
    """

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    back: NDArray[np.bool_]
    servers: int
    days: float

    def __len__(self) -> int:
        return len(self.start)

    def until(self, day: float) -> History:
        """The history as known on that day."""
        seen = self.start < day
        end = self.end[seen]
        return History(self.start[seen], np.minimum(end, day), self.back[seen] & (end <= day), self.servers, day)

    def out(self, times: NDArray[np.float64]) -> NDArray[np.int64]:
        """int64[times], servers out at each time."""
        begun = np.searchsorted(np.sort(self.start), times, side="right")
        over = np.searchsorted(np.sort(self.end[self.back]), times, side="right")
        return np.asarray(begun - over)


def read(path: Path, servers: int, days: float) -> History:
    """Reads a CSV with the columns day, node, event (fault_start, fault_end).

    Args:
        path: The file; other columns are ignored.
        servers: Number of observed servers, including those without a fault.
        days: Length of the observation from day 0.

    Raises:
        InputError: A row is invalid; names its line.
    """
    for key, value, most in (("--servers", servers, MOST_SERVERS), ("--days", days, MOST_DAYS)):
        if not 0 < value <= most:
            raise InputError("the number is out of range", key=key, found=value, allowed=f"above 0, at most {most:,}")
    away: dict[str, float] = {}
    found: list[tuple[float, float, bool]] = []
    last = 0.0
    for line, day, node, event in _rows(path):
        if day < last:
            raise InputError("days go back", file=path, line=line, found=day, allowed=f"{last:g} or more")
        if day > days:
            raise InputError("an event after the last day", file=path, line=line, found=day, allowed=f"0 to {days:g}")
        last = day
        if event == "fault_start":
            if node in away:
                raise InputError(
                    f"`{node}` fails while it is out of service", file=path, line=line, key="node", found=node
                )
            away[node] = day
        elif node not in away:
            raise InputError(f"`{node}` returns without having failed", file=path, line=line, key="node", found=node)
        else:
            found.append((away.pop(node), day, True))
    found = sorted([*found, *((day, days, False) for day in away.values())])
    if not found:
        raise InputError("no fault in the file", file=path)
    start, end, back = (np.array(column) for column in zip(*found, strict=True))
    return History(start, end, back, servers, days)


def _rows(path: Path) -> Iterator[tuple[int, float, str, str]]:
    for row in table.read(path, *COLUMNS):
        event = row.one_of("event", EVENTS)
        if not row["node"]:
            raise row.wrong("node", "not a node name")
        yield row.line, row.number("day", low=0), row["node"], event
