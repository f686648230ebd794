"""Clients that come again: what one is stays, what its link gives stays for a while, so neither is drawn anew."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.edge import draws
from railyard.cluster.edge.access import Paths, block_of
from railyard.work.federated.participants import cohort, drawn, passing

if TYPE_CHECKING:
    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.draws import Ids
    from railyard.engine.rounds.sharing import Tree
    from railyard.engine.rounds.waiting import Cohort
    from railyard.work.federated.learning import Learning
    from railyard.work.federated.participants import Drawn

_MOST_CLIENTS = 1 << 21
"""Beyond these their columns (about 200 bytes a client) are drawn anew each time."""
_NEVER = -1
_BY_ROUND = ("delay_s", "leave_s", "down", "up")


class Known:
    """Participants of one population, round after round: the same numbers as drawn anew, and sooner."""

    def __init__(self, job: Learning, clients: Clients) -> None:
        self.job, self.clients = job, clients
        again = job.section.rounds * job.selected >= 2 * clients.count
        self.pays = again and clients.count <= _MOST_CLIENTS and not job.sent.crossing_bytes
        self._kept: _Kept | None = None

    def drawn(self, who: Ids, at_s: float) -> Drawn:
        """As `participants.drawn`."""
        if not self.pays:
            return drawn(self.job, self.clients, who, at_s)
        found: Drawn = _taken(self._renewed(who, at_s).rows, who)
        return found

    def cohort(self, rows: Drawn, number: int, trees: tuple[Tree, Tree]) -> Cohort:
        """As `participants.cohort`, of clients that were drawn last."""
        if self._kept is None:
            return cohort(self.job, self.clients, rows, number, trees)
        part: Cohort = _taken(self._kept.part, rows.who)
        delay_s, leave_s = passing(self.job, self.clients, rows.who, number)
        return replace(part, delay_s=delay_s, leave_s=leave_s, down=trees[0], up=trees[1])

    def _renewed(self, who: Ids, at_s: float) -> _Kept:
        """Draws those that were never seen, or whose link gives something else by now."""
        if self._kept is None:
            one = drawn(self.job, self.clients, who[:1], at_s)
            many = self.clients.count
            part = cohort(self.job, self.clients, one, 0)
            self._kept = _Kept(_empty(one, many), _empty(part, many), np.full(many, _NEVER))
        kept = self._kept
        links, before = _chosen(kept.rows.link, who), _chosen(kept.block, who)
        starts = draws.uniform(self.clients.seed, "link block", who)
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
    """Of all clients, a row each.

    Attributes:
        rows: What they are.
        part: What they take; what is of one round is left out.
        block: int64, during which their links give the same; `_NEVER`: not seen yet.
    """

    rows: Drawn
    part: Cohort
    block: np.ndarray


def _columns(record: Any) -> list[tuple[str, Any]]:
    return [(one.name, getattr(record, one.name)) for one in fields(record) if one.name not in _BY_ROUND]


def _empty(record: Any, count: int) -> Any:
    """A record with the columns of another, for so many rows."""
    made = {
        name: _empty(value, count) if isinstance(value, Paths) else np.zeros((*value.shape[:-1], count), value.dtype)
        for name, value in _columns(record)
    }
    return replace(record, **made)


def _put(target: Any, rows: Ids, source: Any) -> None:
    for name, value in _columns(source):
        if isinstance(value, Paths):
            _put(getattr(target, name), rows, value)
        else:
            getattr(target, name)[..., rows] = value


def _taken(record: Any, rows: Ids) -> Any:
    """Some rows of a record."""
    found = {}
    for name, value in _columns(record):
        if isinstance(value, Paths):
            found[name] = _taken(value, rows)
        else:
            found[name] = _chosen(value, rows)
    return replace(record, **found)


def _chosen(column: np.ndarray, rows: Ids) -> np.ndarray:
    """Some rows of a column; itself where these are all, in order."""
    if column.shape[-1] == len(rows) and (np.diff(rows) == 1).all():
        return column
    return column[..., rows]
