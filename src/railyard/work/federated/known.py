"""Returning clients: a client's properties are permanent and its link quality lasts a while, so neither is redrawn."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from railyard.cluster.edge import transport
from railyard.cluster.edge.transport import ClientPaths, block_of, carried_s, transfer_s
from railyard.engine.rounds import Cohort

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import Floats, Ids
    from railyard.engine.rounds import ClientTree
    from railyard.work.federated.messages import Learning
    from railyard.work.federated.updates import SecrecyStage


Found = TypeVar("Found")
_PART = 1 << 15
"""Rows that are worked on at a time: their columns fit a processor's cache."""
_DELAY = 1 << 20
"""Counters of delays lie beyond those of sessions."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Clients of a round; a row each.

    Attributes:
        who: int64, client numbers.
        link: Index of the access link.
        region: Index of the region.
        flops: FLOP/s that training reaches.
        paths: To the server, now.
    """

    who: Ids
    device: NDArray[np.intp]
    link: NDArray[np.intp]
    region: NDArray[np.intp]
    samples: Floats
    flops: Floats
    paths: ClientPaths

    def __len__(self) -> int:
        return len(self.who)

    def take(self, rows: NDArray[np.intp] | slice) -> Drawn:
        """Some of them; a slice is a view, not a copy."""
        columns = {name: value[rows] for name, value in vars(self).items() if name != "paths"}
        return Drawn(**columns, paths=self.paths.take(rows))


def drawn(job: Learning, clients: Clients, who: Ids, at_s: float) -> Drawn:
    """Properties of clients, and the current state of their links."""
    return together(in_parts(len(who), lambda part: _drawn(job, clients, who[part], at_s)))


def _drawn(job: Learning, clients: Clients, who: Ids, at_s: float) -> Drawn:
    device, link, region = clients.devices_of(who), clients.links_of(who), clients.regions_of(who)
    samples, most = clients.samples(who), job.section.round.most_samples
    return Drawn(
        who=who,
        device=device,
        link=link,
        region=region,
        samples=samples if most is None else np.minimum(samples, float(most)),
        flops=clients.flops(who, device),
        paths=clients.paths(who, link, region, at_s),
    )


def cohort(
    job: Learning, clients: Clients, rows: Drawn, number: int, trees: tuple[ClientTree, ClientTree] | None = None
) -> Cohort:
    """Seconds of each part of a round.

    Args:
        job: The learning job.
        clients: Population of the clients.
        rows: Participants.
        number: Number of the round.
        trees: Links shared towards clients and towards the server; None: no link is shared.
    """
    found = together(in_parts(len(rows), lambda part: _seconds(job, clients, rows.take(part), number, len(rows))))
    return found if trees is None else replace(found, down=trees[0], up=trees[1])


def _seconds(job: Learning, clients: Clients, rows: Drawn, number: int, participants: int) -> Cohort:
    sent, paths, section = job.sent, rows.paths, job.section.round
    down, down_lag = _carried(job, sent.down_bytes, paths.down_bps, paths, first=True)
    up, up_lag = _carried(job, sent.up_bytes, paths.up_bps, paths, first=False)
    samples = rows.samples * section.epochs
    compute = (samples * sent.flop_per_sample + sent.flop) / rows.flops
    crossing = _crossing(job, rows, samples, participants)
    total = down + down_lag + compute + crossing + up + up_lag
    if section.deadline is not None:
        compute = _shortened(job, compute, total, section.deadline)
    bits = np.ones(len(rows))
    delay, leave = passing(job, clients, rows.who, number)
    return Cohort(
        delay_s=delay,
        down_bits=bits * sent.down_bytes * 8.0,
        down_bps=_rate(sent.down_bytes, down),
        down_lag_s=down_lag,
        compute_s=compute,
        crossing_s=crossing,
        up_bits=bits * sent.up_bytes * 8.0,
        up_bps=_rate(sent.up_bytes, up),
        up_lag_s=up_lag,
        before_s=_stages(job, rows, sent.before),
        after_s=_stages(job, rows, sent.after),
        leave_s=leave,
    )


def passing(job: Learning, clients: Clients, who: Ids, number: int) -> tuple[Floats, Floats]:
    """Round-specific delays of a cohort: seconds until each is notified, and until it leaves."""
    delay = job.section.round.delay
    until = delay * transport.uniform(clients.seed, "delay", who, _DELAY + number) if delay else np.zeros(len(who))
    return until, clients.presence.leave_s(clients.seed, who, number)


def in_parts(count: int, make: Callable[[slice], Found]) -> list[Found]:
    """Applies a function to ranges of rows in parallel; rows are independent, so the ranges do not matter."""
    parts = [slice(begin, begin + _PART) for begin in range(0, max(count, 1), _PART)]
    if len(parts) == 1:
        return [make(parts[0])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(make, parts))


def together(found: Sequence[Found]) -> Found:
    """Concatenates rows; trees are dropped, because they belong to all rows together."""
    if len(found) == 1:
        return found[0]
    columns: dict[str, Any] = {}
    for one in fields(found[0]):  # type: ignore[arg-type]
        parts = [getattr(each, one.name) for each in found]
        if isinstance(parts[0], ClientPaths):
            columns[one.name] = together(parts)
        else:
            columns[one.name] = None if parts[0] is None else np.concatenate(parts, axis=-1)
    return type(found[0])(**columns)


def expected_s(job: Learning, rows: Drawn) -> Floats:
    """Time of a participant alone, without stages and delays."""
    sent, paths = job.sent, rows.paths
    down = transfer_s(job.transport, sent.down_bytes, paths.down_bps, paths.rtt_s, paths.loss)
    up = transfer_s(job.transport, sent.up_bytes, paths.up_bps, paths.rtt_s, paths.loss)
    samples = rows.samples * job.section.round.epochs
    compute = (samples * sent.flop_per_sample + sent.flop) / rows.flops
    out: Floats = down + up + compute + _crossing(job, rows, samples, len(rows))
    return out


def _carried(
    job: Learning, size_bytes: float, rate: Floats, paths: ClientPaths, *, first: bool
) -> tuple[Floats, Floats]:
    """Seconds of a message at the steady goodput, and its additional seconds."""
    total, bits = carried_s(job.transport, size_bytes, rate, paths.rtt_s, paths.loss)
    setup = job.transport.setup_rtts * paths.rtt_s if first else 0.0
    return bits, total - bits + setup


def _rate(size_bytes: float, seconds: Floats) -> Floats:
    """Bits a second of a message; 1 where there is none."""
    return size_bytes * 8.0 / seconds if size_bytes else np.ones(len(seconds))


def _crossing(job: Learning, rows: Drawn, samples: Floats, participants: int) -> Floats:
    """Time to send activations up and gradients down for every batch, and the server's part of the work in between."""
    size = job.sent.crossing_bytes
    if not size:
        return np.zeros(len(rows))
    batch = float(job.section.round.batch)
    paths = rows.paths
    one_up = transfer_s(job.transport, size * batch, paths.up_bps, paths.rtt_s, paths.loss, warm=True)
    one_down = transfer_s(job.transport, size * batch, paths.down_bps, paths.rtt_s, paths.loss, warm=True)
    server = job.sent.server_flop_per_sample * batch * participants / job.section.server.flops
    out: Floats = np.ceil(samples / batch) * (one_up + one_down + server)
    return out


def _shortened(job: Learning, compute: Floats, total: Floats, deadline_s: float) -> Floats:
    """Computation time of clients that would be late and may stop early (FedProx)."""
    least = float(getattr(job.scheme.algorithm, "least_work", 1.0))
    return compute - np.clip(total - deadline_s, 0.0, (1.0 - least) * compute)


def _stages(job: Learning, rows: Drawn, stages: Sequence[SecrecyStage]) -> Floats:
    """float64[stages, participants], seconds of each stage of secure aggregation, over an open connection."""
    paths, found = rows.paths, np.zeros((len(stages), len(rows)))
    for number, stage in enumerate(stages):
        up = transfer_s(job.transport, stage.up_bytes, paths.up_bps, paths.rtt_s, paths.loss)
        down = transfer_s(job.transport, stage.down_bytes, paths.down_bps, paths.rtt_s, paths.loss)
        found[number] = up + down + stage.flop / rows.flops
    return found


_MOST_CLIENTS = 1 << 21
"""Above this, their columns (about 200 bytes per client) are redrawn each time."""
_NEVER = -1
_BY_ROUND = ("delay_s", "leave_s", "down", "up")


class Known:
    """Participants of one population over many rounds: the same numbers as when redrawn, but faster."""

    def __init__(self, job: Learning, clients: Clients) -> None:
        self.job, self.clients = job, clients
        again = job.section.rounds * job.selected >= 2 * clients.count
        self.pays = again and clients.count <= _MOST_CLIENTS and not job.sent.crossing_bytes
        self._kept: _Kept | None = None

    def drawn(self, who: Ids, at_s: float) -> Drawn:
        """The same as `participants.drawn`."""
        if not self.pays:
            return drawn(self.job, self.clients, who, at_s)
        found: Drawn = _taken(self._renewed(who, at_s).rows, who)
        return found

    def cohort(self, rows: Drawn, number: int, trees: tuple[ClientTree, ClientTree]) -> Cohort:
        """The same as `participants.cohort`, for clients that were drawn last."""
        if self._kept is None:
            return cohort(self.job, self.clients, rows, number, trees)
        part: Cohort = _taken(self._kept.part, rows.who)
        delay_s, leave_s = passing(self.job, self.clients, rows.who, number)
        return replace(part, delay_s=delay_s, leave_s=leave_s, down=trees[0], up=trees[1])

    def _renewed(self, who: Ids, at_s: float) -> _Kept:
        """Draws clients that are new, or whose link state has changed."""
        if self._kept is None:
            one = drawn(self.job, self.clients, who[:1], at_s)
            many = self.clients.count
            part = cohort(self.job, self.clients, one, 0)
            self._kept = _Kept(_empty(one, many), _empty(part, many), np.full(many, _NEVER))
        kept = self._kept
        links, before = _chosen(kept.rows.link, who), _chosen(kept.block, who)
        starts = transport.uniform(self.clients.seed, "link block", who)
        lengths = np.array([link.correlation_ps for link, _ in self.clients.links])
        stale = block_of(lengths[links], starts, at_s) != before
        if not stale.any():
            return kept
        changed = who[stale]
        fresh = drawn(self.job, self.clients, changed, at_s)
        _put(kept.rows, changed, fresh)
        _put(kept.part, changed, cohort(self.job, self.clients, fresh, 0))
        kept.block[changed] = block_of(lengths[fresh.link], starts[stale], at_s)
        return kept


@dataclass(frozen=True, eq=False)
class _Kept:
    """Cached rows of all clients.

    Attributes:
        part: Their times, without round-specific ones.
        block: int64, time block of their link state; `_NEVER`: not drawn yet.
    """

    rows: Drawn
    part: Cohort
    block: np.ndarray


def _columns(record: Any) -> list[tuple[str, Any]]:
    return [(one.name, getattr(record, one.name)) for one in fields(record) if one.name not in _BY_ROUND]


def _empty(record: Any, count: int) -> Any:
    """A record with the columns of another, for a number of rows."""
    made = {
        name: _empty(value, count)
        if isinstance(value, ClientPaths)
        else np.zeros((*value.shape[:-1], count), value.dtype)
        for name, value in _columns(record)
    }
    return replace(record, **made)


def _put(target: Any, rows: Ids, source: Any) -> None:
    for name, value in _columns(source):
        if isinstance(value, ClientPaths):
            _put(getattr(target, name), rows, value)
        else:
            getattr(target, name)[..., rows] = value


def _taken(record: Any, rows: Ids) -> Any:
    """Some rows of a record."""
    found = {}
    for name, value in _columns(record):
        if isinstance(value, ClientPaths):
            found[name] = _taken(value, rows)
        else:
            found[name] = _chosen(value, rows)
    return replace(record, **found)


def _chosen(column: np.ndarray, rows: Ids) -> np.ndarray:
    """Some rows of a column; the column itself if these are all of them, in order."""
    if column.shape[-1] == len(rows) and (np.diff(rows) == 1).all():
        return column
    return column[..., rows]
