"""A packet run that has been made, how it can be made again, and what its links are called."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import write_text
from railyard.kit.quantities import percentile
from railyard.measure.result.network import (
    PausedLink,
    QueueRow,
    QueueSeries,
    SenderRow,
    SenderSeries,
    StormFigures,
    Victim,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.engine.packet import PacketNetwork, Settings, Traffic
    from railyard.graph import Record
    from railyard.graph.record import Table
    from railyard.measure.network import Probed
    from railyard.work.traffic.htsim_topology import HtsimTree
    from railyard.work.traffic.htsim_wiring import TreeNetwork


_REPORT_PS_PER_US = 10**6
_KINDS = ("new", "retransmitted", "trimmed", "dropped", "marked")


@dataclass(frozen=True, eq=False)
class PacketReport:
    """Figures of a run.

    Attributes:
        flows: The traffic; its local work is no flow and is left out of all figures.
        cpu_s: Processor time of reading, building and running.
        peak_rss_mb: Most memory of the process, in 2^20 bytes.
        left_out: What the model and the reading of the files left out.
        probed: What was sampled: `queues`, `flows`, `storm`, `reorder` as the report draws them.
        played: The run, which can be made again.
    """

    tree: HtsimTree
    flows: Traffic
    never: tuple[int, ...]
    record: Record
    link_name: Callable[[int], str]
    cpu_s: float
    peak_rss_mb: float
    left_out: tuple[str, ...]
    probed: Probed
    played: PacketRun

    @property
    def packets(self) -> dict[str, int]:
        """How many were new, sent again, trimmed, dropped, marked."""
        return {kind: self.record.meta["packets"][kind] for kind in _KINDS}

    @property
    def sent(self) -> Record:
        """The flows alone, without the work on hosts between them."""
        rows = np.flatnonzero(self.flows.travels)
        place = np.full(len(self.record) + 1, -1, np.int32)
        place[rows] = np.arange(len(rows))
        taken = self.record.take(rows)
        return replace(taken, optional={**taken.optional, "blocker": place[self.record.column("blocker")[rows]]})

    @property
    def total(self) -> int:
        """Flows of the file, with those that nothing could start."""
        return int(self.flows.travels.sum()) + len(self.never)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """bool[n], rows that are flows and have finished."""
        return np.asarray(self.flows.travels & self.record.ended)

    @property
    def fct_ps(self) -> NDArray[np.int64]:
        """int64[finished], from a flow's start to its last acknowledgement, in the order of the file."""
        return np.asarray(self.record.duration_ps[self.ended])

    @property
    def last_finish_us(self) -> float | None:
        """End of the last flow, from the start of the run; None when none finished."""
        return float(self.record.end_ps[self.ended].max()) / _REPORT_PS_PER_US if self.ended.any() else None

    @property
    def first_finish_us(self) -> float | None:
        """End of the first flow; None when none finished."""
        return float(self.record.end_ps[self.ended].min()) / _REPORT_PS_PER_US if self.ended.any() else None

    def fct_us(self) -> dict[str, float | None]:
        """Least, mean, median, 99th percentile (nearest rank) and greatest flow completion time."""
        times = np.sort(self.fct_ps)
        if not len(times):
            return dict.fromkeys(("min", "mean", "p50", "p99", "max"))
        middle = {"p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}
        found = {"min": times[0], "mean": times.mean(), **middle, "max": times[-1]}
        return {name: float(value) / _REPORT_PS_PER_US for name, value in found.items()}

    def to_dict(self) -> dict[str, Any]:
        """The object that `railyard packet --json` prints."""
        return {
            "hosts": self.tree.hosts,
            "flows": self.total,
            "finished": int(self.ended.sum()),
            "fct_us": self.fct_us(),
            "last_finish_us": self.last_finish_us,
            "packets": self.packets,
            "events": self.record.meta["events"],
            "repeats": self.record.meta["repeats"],
            "cpu_s": round(self.cpu_s, 6),
            "peak_rss_mb": round(self.peak_rss_mb, 3),
            "digest": self.record.digest(),
        }

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def write_flows(self, path: Path) -> None:
        """Writes one row per flow as CSV, in the order of the file; times are empty where a flow did not finish.

        Raises:
            InputError: The file cannot be written.
        """
        heading = "flow,line,source,target,size_bytes,start_us,finish_us,fct_us,receiver_finish_us"
        rows = [
            self._row(number, row) for number, row in enumerate(np.flatnonzero(self.flows.travels).tolist(), start=1)
        ]
        try:
            write_text(path, "\n".join([heading, *rows, ""]))
        except InputError as error:
            raise error.located(key="--fct") from None

    def _row(self, number: int, row: int) -> str:
        flows, line = self.flows, self.record.column("line")[row]
        cells = [number, line, flows.source[row], flows.target[row], flows.size_bytes[row]]
        record = self.record
        start, finish, received = record.start_ps[row], record.end_ps[row], record.column("receiver_finish_ps")[row]
        times = [start, finish, finish - start if finish >= 0 else -1, received]
        return ",".join([*map(str, cells), *(f"{time / _REPORT_PS_PER_US:.6f}" if time >= 0 else "" for time in times)])


LINKS = 64
"""Paused links in the result: those paused longest."""

VICTIMS = 8
"""Victims in the result: those slowed most."""

LEAST = 1.1
"""Slowdown from which a flow is a victim."""

_PS_PER_US = 1e6


def storm(played: PacketRun) -> StormFigures | None:
    """The object `storm` of a packet result; None where nothing was paused."""
    links, name = played.first.table("links"), played.names.link
    if "paused_ps" not in links or not links["paused_ps"].any():
        return None
    paused_ps = links["paused_ps"]
    paused = np.flatnonzero(paused_ps > 0)
    worst = paused[np.argsort(-paused_ps[paused], kind="stable")][:LINKS]
    return StormFigures(
        paused_us_total=float(paused_ps.sum()) / _PS_PER_US,
        pauses=int(links["pauses"].sum()),
        longest_us=float(links["longest_pause_ps"].max()) / _PS_PER_US,
        links=tuple(
            PausedLink(
                link=name(link),
                paused_us=float(paused_ps[link]) / _PS_PER_US,
                pauses=int(links["pauses"][link]),
                origin=_origin(played, link),
            )
            for link in worst.tolist()
        ),
        victims=_victims(played),
    )


def _origin(played: PacketRun, link: int) -> str:
    origin = int(played.first.table("links")["pause_origin"][link])
    return played.names.link(origin) if origin >= 0 else "unknown"


def _victims(played: PacketRun) -> tuple[Victim, ...]:
    """Flows that were slowed by others which send to where pauses began; they themselves do not."""
    first, traffic = played.first, played.traffic
    rows = _innocent(played)
    if not len(rows):
        return ()
    source, target, size = traffic.source[rows], traffic.target[rows], traffic.size_bytes[rows]
    without = type(traffic).of(traffic.hosts, source, target, size, start_ps=first.start_ps[rows])
    undisturbed = played.simulate(without, played.settings).duration_ps
    slowdown = np.where(undisturbed > 0, first.duration_ps[rows] / np.maximum(undisturbed, 1), 0.0)
    return tuple(
        Victim(
            flow=f"h{source[at]}->h{target[at]}",
            fct_us=float(first.duration_ps[rows[at]]) / _PS_PER_US,
            alone_us=float(undisturbed[at]) / _PS_PER_US,
            slowdown=float(slowdown[at]),
            stopped_by=_stopper(played, int(source[at])),
        )
        for at in np.argsort(-slowdown, kind="stable")[:VICTIMS].tolist()
        if slowdown[at] >= LEAST
    )


def _innocent(played: PacketRun) -> NDArray[np.int64]:
    """Finished flows that send to no host behind a link where pauses began."""
    first, traffic = played.first, played.traffic
    origin = first.table("links")["pause_origin"]
    origins = np.unique(origin[origin >= 0])
    guilty = played.network.link_target[origins]
    innocent = first.ended & (traffic.source != traffic.target) & ~np.isin(traffic.target, guilty)
    return np.flatnonzero(innocent)


def _stopper(played: PacketRun, source: int) -> str:
    """Who stopped the host's own link longest, else the one who stopped most of the fabric."""
    paused = played.first.table("links")["paused_ps"]
    paused_links = np.flatnonzero((played.network.link_source == source) & (paused > 0))
    known = paused_links if len(paused_links) else np.flatnonzero(paused > 0)
    return _origin(played, int(known[paused[known].argmax()]))


TIMES = 200
"""Samples of a run."""

WATCHED = 8192
"""Links that are sampled at most: of more, those that carried most."""

SHOWN = 64
"""Links in the result: those with the deepest queues, then the busiest."""

FLOWS = 8
"""Flows in the result: the slowest, the fastest, and some between."""


def probe(played: PacketRun) -> tuple[Probed, dict[str, Table]]:
    """Queues and senders over time, and pauses.

    Returns:
        As the report draws them, and the queues as side tables of a record.
    """
    first = played.first
    flows = some_flows(first, played.traffic)
    links = np.sort(np.argsort(-first.table("links")["bytes"], kind="stable")[:WATCHED])
    seen = played.again(
        replace(
            played.settings,
            sample_ps=max(1, -(-first.meta["now_ps"] // TIMES)),
            sample_links=tuple(links.tolist()),
            sample_flows=tuple(flows.tolist()),
        )
    )
    paused = storm(played)
    found: Probed = {} if paused is None else {"storm": paused}
    if "queue_series" not in seen.tables or len(seen.table("queue_series")["time_ps"]) < 2:
        return found, {}
    found["queues"], tables = _queues(seen.table("queue_series"), links, played)
    senders = _senders(seen.table("flow_series"), flows, played.traffic)
    if senders.rows:
        found["flows"] = senders
    return found, tables


def some_flows(first: Record, traffic: Traffic) -> NDArray[np.int64]:
    """Finished flows from the fastest to the slowest, evenly by rank."""
    ended = np.flatnonzero(first.ended & (traffic.source != traffic.target))
    if not len(ended):
        return ended
    order = ended[np.argsort(first.duration_ps[ended], kind="stable")]
    return np.asarray(order[np.unique(np.linspace(0, len(order) - 1, FLOWS).astype(np.int64))])


def _queues(samples: Table, links: NDArray[np.int64], played: PacketRun) -> tuple[QueueSeries, dict[str, Table]]:
    time = samples["time_ps"][1:]  # the first sample is taken at the start, where nothing has happened yet
    step = np.diff(samples["time_ps"])[:, None].astype(float)
    carried, marks, paused = (
        np.diff(column, axis=0) for column in (samples["carried_bytes"], samples["marks"], samples["paused_ps"])
    )
    depth = samples["depth_bytes"][1:]
    used = np.minimum(8e12 * carried / (played.network.rate_bps[links][None, :] * step), 1.0)
    order = np.lexsort((-used.mean(axis=0), -depth.max(axis=0)))[:SHOWN]
    rows = tuple(
        QueueRow(
            link=played.names.link(int(links[at])),
            tier=played.names.tier(int(links[at])),
            depth_bytes=tuple(depth[:, at].tolist()),
            utilization=tuple(used[:, at].round(4).tolist()),
            marks=tuple(marks[:, at].tolist()),
            paused_share=tuple((paused[:, at] / step[:, 0]).round(4).tolist()),
        )
        for at in order.tolist()
    )
    tables: dict[str, Table] = {
        "sampled_links": {"link": links[order].astype(np.int32)},
        "queue_series": {"time_ps": time}
        | {name: column[1:, order] for name, column in samples.items() if name != "time_ps"},
    }
    return QueueSeries(time_us=tuple((time / _PS_PER_US).round(4).tolist()), rows=rows), tables


def _senders(samples: Table, flows: NDArray[np.int64], traffic: Traffic) -> SenderSeries:
    rows = (_sender(samples, at, flow, traffic) for at, flow in enumerate(flows.tolist()))
    return SenderSeries(
        time_us=tuple((samples["time_ps"] / _PS_PER_US).round(4).tolist()), rows=tuple(row for row in rows if row)
    )


def _sender(samples: Table, at: int, flow: int, traffic: Traffic) -> SenderRow | None:
    """Rate and window of one sender, those that its control has; None where it has neither."""
    rate, window = samples["rate_bps"][:, at] / 1e9, samples["window_bytes"][:, at] / 1e3
    found: dict[str, tuple[float, ...]] = {}
    if rate.any():
        found["rate_gbps"] = tuple(rate.round(3).tolist())
    if window.any():
        found["window_kb"] = tuple(window.round(3).tolist())
    return SenderRow(flow=f"h{traffic.source[flow]}->h{traffic.target[flow]}", **found) if found else None


class LinkNames:
    """Names of the links of a tree: `leaf3->spine1`, and their tiers.

    Args:
        tree: The tree.
        wired: Its links.
        tiers: Names of tiers.
    """

    def __init__(self, tree: HtsimTree, wired: TreeNetwork, tiers: tuple[str, ...]) -> None:
        counts = {"h": tree.hosts, "leaf": tree.pods * tree.tors, "spine": tree.pods * tree.aggs, "core": tree.cores}
        self._kinds = tuple(counts)
        self._first = np.cumsum([0, *counts.values()])
        self._wired = wired
        self._tiers = tiers

    def link(self, number: int) -> str:
        """Ends of a link."""
        return f"{self._node(int(self._wired.source[number]))}->{self._node(int(self._wired.target[number]))}"

    def number(self, name: str, key: str) -> int:
        """The node of a name.

        Args:
            name: Such as `leaf3`.
            key: That names it, for errors.

        Raises:
            InputError: There is none.
        """
        kind = name.rstrip("0123456789")
        digits = name[len(kind) :]
        if kind not in self._kinds or not digits:
            raise self._unknown(name, key)
        first, last = self._first[self._kinds.index(kind) : self._kinds.index(kind) + 2]
        if int(digits) >= last - first:
            raise self._unknown(name, key)
        return int(first) + int(digits)

    def _unknown(self, name: str, key: str) -> InputError:
        counts = [(kind, int(count)) for kind, count in zip(self._kinds, np.diff(self._first), strict=True) if count]
        allowed = ", ".join(f"{kind}0 to {kind}{count - 1}" for kind, count in counts)
        near = [f"{kind}{number}" for kind, count in counts for number in range(min(count, 1024))]
        return InputError("no such node", key=key, found=name, allowed=allowed, hint=did_you_mean(name, near))

    def tier(self, number: int) -> str:
        """`nic`, `leaf-spine` or `spine-core`."""
        return self._tiers[int(self._wired.tier[number])]

    def _node(self, number: int) -> str:
        kind = int(np.searchsorted(self._first, number, side="right")) - 1
        return f"{self._kinds[kind]}{number - int(self._first[kind])}"


@dataclass(frozen=True, eq=False)
class PacketRun:
    """A run.

    Attributes:
        simulate: Runs traffic over the same network.
    """

    simulate: Callable[[Traffic, Settings], Record]
    network: PacketNetwork
    traffic: Traffic
    settings: Settings
    first: Record
    names: LinkNames

    def again(self, settings: Settings) -> Record:
        """The same traffic under other settings."""
        return self.simulate(self.traffic, settings)
