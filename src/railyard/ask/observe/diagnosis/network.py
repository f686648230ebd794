"""The link, NIC, host or switch that makes communications slow: every part as a guess, the likeliest ones replayed.

The measured computations are replayed on the healthy cluster. A part at a share of its rate predicts how much longer
each communication takes whose path crosses it; the others stay as they are. In closed form that is cheap enough for
every part and many shares; the likeliest are then replayed with contention at the share that fits best. Guesses are
compared, with one another and with no fault, by how likely they make the measured times (`peers.py`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.peers import observed
from railyard.ask.observe.diagnosis.ports import bad_share, pointed_at, stands_out
from railyard.cluster.names import node_name
from railyard.kit.errors import RailyardError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.observe.diagnosis.peers import Observed, Routed
    from railyard.cluster import Cluster
    from railyard.graph import Record

    Cables = dict[tuple[int, int], list[int]]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SuspectPart:
    """A candidate."""

    name: str
    kind: str
    links: tuple[int, ...]


def parts(cluster: Cluster) -> Iterator[SuspectPart]:
    """Cables, NICs, hosts and switches of the back-end, and the accelerators' links to their scale-up switches.

    A NIC with one port and its cable are one part: no measurement of their traffic distinguishes them.
    """
    network = cluster.back_end
    between = _cables(cluster, network.node_offset, network.node_offset + network.nodes)
    hosts: dict[str, list[int]] = defaultdict(list)
    nics: dict[str, list[int]] = defaultdict(list)
    switches: dict[str, list[list[int]]] = defaultdict(list)
    for (one, other), those in between.items():
        names = [node_name(cluster, node).removeprefix(f"{network.name} ") for node in (one, other)]
        for name in names:
            if not name.startswith("server "):
                switches[name].append(those)
        attached = next((name for name in names if name.startswith("server ")), None)
        if attached is None:
            yield SuspectPart(" - ".join(names), "cable", tuple(those))
            continue
        nics[attached.replace(" NIC ", " nic ")] += those
        hosts[attached.split(" NIC ")[0]] += those
    yield from _larger(nics, hosts)
    for name, cables in switches.items():
        if len(cables) > 1:
            yield SuspectPart(name, "switch", tuple(link for those in cables for link in those))
    for (one, other), those in _cables(cluster, 0, cluster.ranks + cluster.scale_up.switches).items():
        yield SuspectPart(f"{node_name(cluster, one)} - {node_name(cluster, other)}", "cable", tuple(those))


def _larger(nics: dict[str, list[int]], hosts: dict[str, list[int]]) -> Iterator[SuspectPart]:
    for name, those in nics.items():
        yield SuspectPart(name, "nic", tuple(those))
    for name, those in hosts.items():
        if len(those) > len(next(links for nic, links in nics.items() if nic.startswith(f"{name} "))):
            yield SuspectPart(name, "host", tuple(those))


def _cables(cluster: Cluster, first: int, last: int) -> Cables:
    """Physical links by their two ends, of which both lie between two node numbers."""
    links = cluster.links
    ends = np.stack([links.source[: links.physical], links.target[: links.physical]])
    found: Cables = {}
    for link in np.flatnonzero(((ends >= first) & (ends < last)).all(axis=0)).tolist():
        one, other = sorted(ends[:, link].tolist())
        found.setdefault((one, other), []).append(link)
    return found


# Each of these is derived or chosen, as it says; `tools/blind_diagnosis.py` judges all of them together on drawn traces
# with known faults (docs/validation/diagnosis-records.md).
SHARES = np.geomspace(0.02, 0.98, 28)
"""Shares of its rate that a part may have left. Chosen: 15.5 % from one to the next, which replays refine."""

COARSE = (0.06, 0.14, 0.26, 0.4, 0.55, 0.7, 0.86)
"""Shares at which a part is replayed first. Chosen: at most a factor of 2.4 between two, for golden section."""

SCREENED_AT, SCALES = 0.4, (0.1, 0.25, 0.5, 0.75, 1.0, 1.4, 2.0)
"""The share at which parts are screened by one replay, and factors on the logarithm of its slowdown that stand for
other shares: 1 / 0.4 to the powers of 0.1 and 2 are slowdowns of 1.1 and 6.3, shares of 0.91 and 0.16."""

REFINED, FINE, FINEST = 3, 10, 4
"""Replays by golden section between the neighbours of the best share; `FINE` for the `FINEST` likeliest parts.
n replays leave 0.618^(n - 1) of the bracket: 38 % after 3, 1.3 % after 10, at most 2.6 % of the rate."""

FINALISTS, POINTED = 9, 5
"""Parts that are replayed at all coarse shares: the likeliest by their times, and those that counters point at most.
Chosen for the time of a diagnosis: 14 parts at 7 shares are 98 replays at most."""

REPLAYED_TASKS, FEWEST = 500_000, 24
"""Tasks in all screening replays, and parts that are screened however long they take. Chosen for the running time."""

COUNTED = 40.0
"""Added to the log likelihood of a part at whose links alone counters point. Chosen large but finite: the times of many
communications can outweigh a counter, those of a few cannot."""

RARER = {"host": -3.0, "switch": -18.0}
"""Log prior of larger parts against a cable. Chosen: hosts 1 in 20; a switch whose links are all slow at once is so
rare that times on several of its cables must speak for it."""

ALIKE = 2.0
"""Log likelihoods that differ by less do not tell a part from one that contains it. Chosen: 7.4 to 1, while Kass and
Raftery (1995, "Bayes factors") call evidence strong from 20 to 1."""

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Guess:
    """A part at a share of its rate.

    Attributes:
        likelihood: Of what was measured, under it; log, up to a constant.
        explained: Of the time that communications lost, the share that it gives back.
        pointed_at: How much counters point at its links, 0 to 1.
    """

    part: SuspectPart
    factor: float
    likelihood: float
    explained: float = 0.0
    pointed_at: float = 0.0

    @property
    def weight(self) -> float:
        """Its likelihood with what counters say; against nothing at all only times are weighed."""
        return self.likelihood + COUNTED * self.pointed_at + RARER.get(self.part.kind, 0.0)


@dataclass(frozen=True)
class Weighed:
    """Odds of all guesses against none.

    Attributes:
        lost_ps: What communications took longer than expected, in all.
        worst: The most that one of them did, as a log of the ratio to its peers' median.
    """

    guesses: list[Guess]
    nothing: float
    tried: int
    lost_ps: float
    worst: float


def durations(record: Record) -> Floats:
    """float64[tasks], ps; nan of what has not ended."""
    return np.where(record.ended, record.end_ps - record.start_ps, np.nan).astype(np.float64)


def weigh(record: Record, routed: Routed, healthy: Record) -> Weighed:
    """Weighs how well each part explains the times of communications."""
    expected = durations(healthy)
    seen = observed(durations(record), expected, healthy.graph, routed.lowered, routed.cluster)
    if not len(seen):
        return Weighed([], 0.0, 0, 0.0, 0.0)
    nothing = seen.likelihood(np.zeros(len(seen)))
    model = _ClosedForm.of(routed, seen, expected)
    looked_at = model.touched(parts(routed.cluster))
    most = max(REPLAYED_TASKS // max(len(record), 1), FEWEST)
    if len(looked_at) > most:
        looked_at = [one.part for one in sorted(map(model.best, looked_at), key=lambda one: -one.likelihood)[:most]]
    links = routed.cluster.links
    counted = pointed_at(record, healthy, links.physical)
    carries = links.to_physical(healthy.tables["links"]["bytes"]) > 0
    guesses = _Replay(model, counted, carries, expected).likeliest(looked_at)
    guesses = _smallest_first(sorted(guesses, key=lambda one: -one.weight))
    rest = seen.ratio - float(np.median(seen.ratio))
    return Weighed(guesses, nothing, len(looked_at), float(np.maximum(seen.lost_ps, 0).sum()), float(rest.max()))


@dataclass(frozen=True)
class _Bracket:
    """A guess, and logs of the shares between which a better one lies."""

    guess: Guess
    low: float
    high: float


@dataclass(frozen=True)
class _ClosedForm:
    """Slowdowns of communications by the share that a part has left, each by itself on its links.

    Attributes:
        expected_ps: float64[m], of each communication.
        users: Rows of `seen` by link or bundle.
    """

    routed: Routed
    seen: Observed
    expected_ps: Floats
    users: dict[int, list[int]]

    @classmethod
    def of(cls, routed: Routed, seen: Observed, expected: Floats) -> _ClosedForm:
        entities, entity = routed.lowered.entities, routed.lowered.entity
        first = np.full(len(entities), -1)
        known = np.flatnonzero((entity >= 0) & np.isfinite(expected))
        first[entity[known[::-1]]] = known[::-1]
        users: dict[int, list[int]] = {}
        for row, one in enumerate(seen.entity.tolist()):
            for link in np.unique(entities.link_idx[entities.link_ptr[one] : entities.link_ptr[one + 1]]).tolist():
                users.setdefault(link, []).append(row)
        return cls(routed, seen, expected[first[seen.entity]], users)

    def touched(self, candidates: Iterable[SuspectPart]) -> list[SuspectPart]:
        lost = np.maximum(self.seen.lost_ps, 0)
        scored = [(float(lost[rows].sum()), part) for part in candidates if len(rows := self.rows(part)[0])]
        scored.sort(key=lambda one: (-one[0], len(one[1].links)))
        return [part for score, part in scored if score > 0]

    def best(self, part: SuspectPart) -> Guess:
        tried = [(self.seen.likelihood(self._slowdown(part, share)), share) for share in SHARES.tolist()]
        likelihood, share = max(tried)
        return Guess(part, share, likelihood)

    def rows(self, part: SuspectPart) -> tuple[NDArray[np.int64], list[int]]:
        bundles = self.routed.cluster.links.bundle_of[list(part.links)]
        ids = [*part.links, *{int(one) for one in bundles if one >= 0}]
        return np.array(sorted({row for one in ids for row in self.users.get(one, ())}), np.int64), ids

    def _slowdown(self, part: SuspectPart, share: float) -> Floats:
        """float64[m], log of the longer time over the expected one."""
        rows, ids = self.rows(part)
        entities = self.routed.lowered.entities
        rate = self.routed.cluster.links.degraded(np.array(part.links, np.int32), share)
        slower = np.zeros(len(rate), np.bool_)
        slower[ids] = True
        guess = np.zeros(len(self.seen))
        for row in rows.tolist():
            one = int(self.seen.entity[row])
            span = slice(entities.link_ptr[one], entities.link_ptr[one + 1])
            links = entities.link_idx[span]
            mine = slower[links]
            slowest = float((entities.link_share[span][mine] / rate[links[mine]]).max())
            took = entities.latency_ps[one] + 8e12 * entities.volume_bytes[one] * slowest
            guess[row] = max(np.log(took / self.expected_ps[row]), 0.0)
        return guess


@dataclass(frozen=True)
class _Replay:
    """Guesses with contention.

    Attributes:
        counted: float64[physical links], how much counters point at each, 0 to 1.
        carries: bool[physical links], whether anything is sent over them.
        expected: float64[tasks], ps, without any fault.
    """

    model: _ClosedForm
    counted: Floats
    carries: NDArray[np.bool_]
    expected: Floats

    def likeliest(self, candidates: Sequence[SuspectPart]) -> list[Guess]:
        first = [self._at(part, SCREENED_AT, SCALES) for part in candidates]
        by_time = sorted(first, key=lambda one: -one.likelihood)[:FINALISTS]
        by_count = sorted(first, key=lambda one: (-one.pointed_at, len(one.part.links)))[:POINTED]
        chosen = {one.part.name: one.part for one in (*by_time, *by_count) if one in by_time or one.pointed_at > 0}
        coarse = [self._coarse(part) for part in chosen.values()]
        coarse.sort(key=lambda one: -one.guess.weight)
        return [self._refined(one, FINE if number < FINEST else REFINED) for number, one in enumerate(coarse)]

    def _coarse(self, part: SuspectPart) -> _Bracket:
        grid = [self._at(part, share) for share in COARSE]
        middle = max(range(len(grid)), key=lambda number: grid[number].likelihood)
        edges = [0.02, *COARSE, 0.995]
        return _Bracket(grid[middle], float(np.log(edges[middle])), float(np.log(edges[middle + 2])))

    def _refined(self, start: _Bracket, replays: int) -> Guess:
        low, high, part = start.low, start.high, start.guess.part
        inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
        found = [self._at(part, float(np.exp(one))) for one in inner]
        best = max([start.guess, *found], key=lambda one: one.likelihood)
        for _ in range(replays - 2):
            if found[0].likelihood >= found[1].likelihood:
                high, inner = inner[1], [inner[1] - GOLDEN * (inner[1] - low), inner[0]]
                found = [self._at(part, float(np.exp(inner[0]))), found[0]]
            else:
                low, inner = inner[0], [inner[1], inner[0] + GOLDEN * (high - inner[0])]
                found = [found[1], self._at(part, float(np.exp(inner[1])))]
            best = max([best, *found], key=lambda one: one.likelihood)
        return best

    def _at(self, part: SuspectPart, share: float, scales: Sequence[float] = (1.0,)) -> Guess:
        """A guess; with scales, how well it fits at the best of other shares, to which slowdowns are scaled."""
        seen, mine = self.model.seen, self.model.rows(part)[0]
        try:
            slowdown = self._slowdown(part, share, mine)
        except RailyardError:  # a loss that the engine cannot run explains nothing
            return Guess(part, share, -np.inf)
        off = np.maximum(np.abs(seen.ratio - slowdown)[mine] - 0.005, 0)
        weight = np.abs(seen.lost_ps[mine])
        without = float((np.abs(seen.ratio[mine]) * weight).sum())
        explained = 1 - float((off * weight).sum()) / max(without, 1e-12)
        likelihood = max(seen.likelihood(scale * slowdown) for scale in scales)
        return Guess(part, share, likelihood, explained, self._pointed_at(part))

    def _pointed_at(self, part: SuspectPart) -> float:
        """How much counters point at it; of a host or switch, as far as all of its cables that carry anything do."""
        found = stands_out(self.counted, part.links)
        return found * bad_share(self.counted, self.carries, part.links) if part.kind in RARER else found

    def _slowdown(self, part: SuspectPart, share: float, mine: NDArray[np.int64]) -> Floats:
        """float64[m], medians over the runs of each communication whose paths touch the part; 0 of the others.

        What a slow part does to those that do not cross it, by queues that spread or by room that it leaves, differs
        by fabric too much to speak for a part or against it.
        """
        routed = self.model.routed
        took = durations(routed.replay(part.links, share))
        entity = routed.lowered.entity
        known = np.flatnonzero((entity >= 0) & (self.expected > 0) & np.isfinite(took) & (took > 0))
        order = known[np.argsort(entity[known], kind="stable")]
        ids, first = np.unique(entity[order], return_index=True)
        log = np.log(took[order] / self.expected[order])
        middle = np.array([np.median(one) for one in np.split(log, first[1:])])
        guess = np.zeros(len(self.model.seen))
        wanted = self.model.seen.entity[mine]
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        guess[mine] = np.where(ids[at] == wanted, middle[at], 0.0)
        return guess


def _smallest_first(guesses: list[Guess]) -> list[Guess]:
    """The best guess in front; a part of it that fits about as well goes before it."""
    if not guesses:
        return []
    top = guesses[0]
    inside = [one for one in guesses if set(one.part.links) <= set(top.part.links) and top.weight - one.weight < ALIKE]
    first = min(inside, key=lambda one: len(one.part.links))
    return [first, *(one for one in guesses if one is not first)]


def rivals(guesses: Sequence[Guess]) -> list[Guess]:
    """Guesses that say something else than the first: not those of which it is a part."""
    best = set(guesses[0].part.links)
    return [one for one in guesses[1:] if not best <= set(one.part.links)]
