"""Times of collectives alone as curves over their size, for closed forms that ask for thousands of designs at once.

A curve is what `choose_many` finds for one shape on one machine at some sizes: latencies, steps to which the path of
the network is added, and seconds a byte on scale-up links and through NICs. Between sizes each is taken from a straight
line over the logarithm; where the library changes its mind between two, only that side of the change counts on which a
size lies. Machines that differ in their networks' paths alone share curves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import ALGORITHMS
from railyard.collective.choice import DEFAULT_POLICY, choose_many, links_gbs
from railyard.collective.lowering.paths import left_over
from railyard.collective.machine import Case, CollectiveMachine, Shape, machine_of
from railyard.collective.timing import WIRE, timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.collective.choice import Choices
    from railyard.graph import CollectiveKind

    F = NDArray[np.float64]

_FIRST, _LAST, _STEPS = 8, 40, 4
_SIZES = 2.0 ** (np.arange(_FIRST * _STEPS, _LAST * _STEPS + 1) / _STEPS)
"""Four to an octave."""

_FINER = 32
"""Parts of the space between two sizes in which a change of algorithm or protocol is looked for."""

_PATH_PS = 250_000
"""Rounding of paths when an algorithm is chosen, so that networks that are nearly alike share curves."""

_ROWS = 9
"""Latency in s, steps along mean paths and along those to the next domain, s/byte inside and outside, 1 where these
two follow one another, 1 where aggregated trees (PAT) move the bytes, latency in s that no slow edge of a ring hides;
where between this size and the next the library changes, 0 to 1, or -1."""


@dataclass(frozen=True)
class Library:
    """A collective library on a machine as curves see it.

    Attributes:
        machine: With the paths of its network, rounded, as they decide among algorithms.
        path_s: Of a mean message between domains, and of one to the next domain.
        ports: NIC ports of a rank; one over the ranks of the port that most share, where they do.
        domain: Ranks of a scale-up domain.
    """

    machine: CollectiveMachine
    path_s: tuple[float, float]
    ports: float
    domain: int

    @classmethod
    def of(cls, cluster: Cluster) -> Library | None:
        """The curve key of a cluster; None if times depend on more than the number of ranks in each domain."""
        machine = machine_of(cluster)
        if machine.scale_up == "torus":
            return None
        overhead_ps = DEFAULT_POLICY.network_overhead_ps
        paths = (1e-12 * (each + overhead_ps) for each in (machine.path_latency_ps, machine.next_latency_ps))
        owned = cluster.back_end.port_of_rank[: cluster.ranks_per_server]
        near, far = (_PATH_PS * round(each / _PATH_PS) for each in (machine.next_latency_ps, machine.path_latency_ps))
        plain = replace(machine, path_latency_ps=far, next_latency_ps=near)
        each = owned.shape[1] / int(np.unique(owned, return_counts=True)[1].max())
        return cls(plain, (next(paths), next(paths)), each, cluster.scale_up_domain)


@dataclass(frozen=True)
class Curves:
    """Libraries of d designs.

    Attributes:
        known: Each library once.
        index: int64[d], which of them a design has.
        path_s: float64[2, d], as in `Library`.
    """

    known: tuple[Library, ...]
    index: NDArray[np.int64]
    path_s: F

    @classmethod
    def of(cls, libraries: Sequence[Library]) -> Curves:
        """Side by side."""
        numbers: dict[Library, int] = {}
        index = [numbers.setdefault(each, len(numbers)) for each in libraries]
        known = tuple(numbers)
        paths = np.array([each.path_s for each in known], np.float64)
        rows = np.array(index, np.int64)
        return cls(known, rows, paths[rows].T)

    def seconds(self, kind: CollectiveKind, size_bytes: F, group: tuple[F, F], longer: tuple[F, F, F] | None) -> F:
        """Seconds of one collective of each design, 0 in groups of one.

        Args:
            kind: What it does.
            size_bytes: float64[d], as nccl-tests counts it.
            group: float64[d] each, ranks, and those in one scale-up domain.
            longer: float64[d] each, how many times longer a byte takes than alone, on scale-up links, on NICs, and on
                NICs where aggregated trees move it; None: no longer.
        """
        fixed, steps, to_next, inside, outside, phased, trees, least, _ = self._rows(kind, size_bytes, group)
        latency = fixed + steps * self.path_s[0] + to_next * self.path_s[1]
        plain = size_bytes * (np.maximum(inside, outside) + phased * np.minimum(inside, outside))
        if longer is None:
            found: F = latency + plain
            return found
        inside, outside = inside * longer[0], outside * ((1.0 - trees) * longer[1] + trees * longer[2])
        slowed = size_bytes * (np.maximum(inside, outside) + phased * np.minimum(inside, outside))
        # Of a ring's edges, one a domain is outside: who waits for these has time for the latencies of the others.
        mean = plain + (slowed - plain) / group[1]
        left = left_over(latency, least + self.path_s[1], mean, slowed)
        total: F = slowed + np.where(to_next > 0, left, latency)
        return total

    def aggregated(self, kind: CollectiveKind, size_bytes: F, group: tuple[F, F]) -> F:
        """float64[d], 1 where aggregated trees (PAT) move the bytes of one collective, 0 where others do.

        Args:
            kind: What it does.
            size_bytes: float64[d], as nccl-tests counts it.
            group: float64[d] each, ranks, and those in one scale-up domain.
        """
        found: F = self._rows(kind, size_bytes, group)[6]
        return found

    def _rows(self, kind: CollectiveKind, size_bytes: F, group: tuple[F, F]) -> F:
        """float64[rows, d], see `_ROWS`."""
        ranks, local = (np.asarray(each).astype(np.int64) for each in group)
        codes = (self.index * (1 << 24) + ranks) * (1 << 12) + local
        unique, first, row = np.unique(codes, return_index=True, return_inverse=True)
        table = np.empty((len(unique), _ROWS, len(_SIZES)))
        for number, at in enumerate(first):
            library = self.known[self.index[at]]
            nics = (library.ports, library.domain)
            table[number] = _curve(library.machine, nics, kind, int(ranks[at]), int(local[at]))
        place = np.clip((np.log2(np.maximum(size_bytes, 1.0)) - _FIRST) * _STEPS, 0.0, len(_SIZES) - 1.000001)
        low = place.astype(np.int64)
        part, change = place - low, table[row, _ROWS - 1, low]
        part = np.where(change < 0, part, part >= change)[:, None]
        found: F = ((1.0 - part) * table[row, :, low] + part * table[row, :, low + 1]).T
        return found


@lru_cache(maxsize=4096)
def _curve(machine: CollectiveMachine, nics: tuple[float, int], kind: CollectiveKind, ranks: int, local: int) -> F:
    """float64[rows, sizes]; `nics`: those of a rank, and ranks of a domain, whose groups run at the same time."""
    found = np.zeros((_ROWS, len(_SIZES)))
    if ranks < 2:
        return found
    each, domain = nics
    owned = _owned(each, domain, local)
    crowd = max(1.0, owned * domain / local / (each * domain))
    shape = _shape(machine, owned, ranks, local)
    case = Case(machine, shape, kind, DEFAULT_POLICY.version_number)
    choices = choose_many(kind, _SIZES, shape, machine, DEFAULT_POLICY)
    for row in np.unique(choices.index):
        name, protocol = choices.candidates[int(row)]
        at, algorithm = choices.index == row, ALGORITHMS.get(name)
        time = timing(case, algorithm, protocol, _SIZES[at])
        inside, outside = (rate / WIRE[protocol] for rate in links_gbs(case, name))
        launch_s = 1e-12 * DEFAULT_POLICY.launch_ps
        found[0, at] = 1e-6 * time.latency_us + launch_s
        found[2 if algorithm.to_the_next else 1, at] = time.network_steps
        found[3, at] = 1e-9 / np.minimum(time.rate_gbs, inside)
        found[4, at] = 1e-9 / outside * crowd
        found[5, at] = algorithm.phased
        found[6, at] = algorithm.family == "pat"
        found[7, at] = 1e-6 * time.least_us + launch_s
    found[8] = _changes(case, choices)
    return found


def _changes(case: Case, choices: Choices) -> F:
    """float64[sizes], where between a size and the next another algorithm or protocol begins, -1 where none does."""
    found = np.full(len(_SIZES), -1.0)
    at = np.flatnonzero(np.diff(choices.index))
    if not at.size:
        return found
    part = (np.arange(_FINER) + 0.5) / _FINER
    between = _SIZES[at, None] * 2.0 ** (part / _STEPS)
    finer = choose_many(case.kind, between.ravel(), case.shape, case.machine, DEFAULT_POLICY)
    same = finer.index.reshape(between.shape) == choices.index[at, None]
    found[at] = np.logical_and.accumulate(same, axis=1).sum(axis=1) / _FINER
    return found


def _owned(each: float, domain: int, local: int) -> int:
    """NIC ports of the members of a group in a domain, which are evenly spaced in it: each port serves as many."""
    most = max(1, round(min(local, domain * each)))
    return round(local * each) if each >= 1.0 else max(count for count in range(1, most + 1) if local % count == 0)


def _shape(machine: CollectiveMachine, owned: int, ranks: int, local: int) -> Shape:
    full, rest = divmod(ranks, local)
    return Shape(
        ranks=ranks,
        domains=full + (rest > 0),
        per_domain=local,
        uneven=(*(local for _ in range(full)), rest) if rest else (),
        aligned=not rest,
        ports=owned,
        scale_up=machine.scale_up,
    )
