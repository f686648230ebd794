"""What no schedule of a collective beats: by latency, and by linear programs over the links' rates (HiGHS).

Reduce-scatter is an all-gather over the reversed links. Of an all-reduce every element of the sum crosses every cut
with ranks on both sides, if only once and already added up; see `groups` for what all groups of ranks have to take.

Cuts around groups of ranks: what enters or leaves a group crosses its border, whatever the schedule.

Ranks are grouped as networks are built: by what faster links join, by the switch that they share, by blocks of numbers.
Every grouping gives a valid bound; which is best is found by trying all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.synthesis.routes import shortest_us
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    from collections.abc import Sequence

    from railyard.collective.synthesis.symmetry import Symmetry


_ROUNDS = 6
_NOBODY = -1


@dataclass(frozen=True, eq=False)
class Border:
    """Links between groups and the rest.

    Attributes:
        group: int64[ranks], the group of each rank.
        into: float64[groups], bytes a microsecond over the links that enter each.
        out: float64[groups], the same of those that leave each.
        door_us: float64[groups], how long the first byte takes from the nearest rank outside into each at least.
        gate_us: float64[groups], the same out of each.
    """

    group: Ints
    into: Floats
    out: Floats
    door_us: Floats
    gate_us: Floats

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.into)


def borders(network: LinkNetwork) -> Iterator[Border]:
    """Borders of all groupings that are tried, each once; single ranks are one grouping."""
    near, far = _nearest_us(network), _nearest_us(network.reversed())
    seen: set[bytes] = set()
    for labels in _groupings(network):
        group = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        if group.max() > 0 and group.tobytes() not in seen:
            seen.add(group.tobytes())
            yield _border(network, group, near, far)


def sums_us(network: LinkNetwork, size: float) -> float:
    """All-reduce: a whole group knows no sum before something came from every other group, and tells it after that.

    Whatever the order of sends, all of `m` groups know everything after 2 (m - 1) one-way messages at least (Harary and
    Schwenk, The communication problem on graphs and digraphs, 1974). So borders are entered 2 (m - 1) times by every
    element, and left as often where switches do not copy, else m - 1 times. Each is entered and left once.
    """
    copies = network.switch.any() and not network.packets
    worst = 0.0
    for border in borders(network):
        often, door = 2 * (border.groups - 1), float(border.door_us.min())
        worst = max(
            worst,
            size * often / float(border.into.sum()) + door,
            size * (often / 2 if copies else often) / float(border.out.sum()) + door,
            float((size / border.into + border.door_us).max()),
            float((size / border.out + border.gate_us).max()),
        )
    return worst


def gathers_us(network: LinkNetwork, size: float) -> float:
    """All-gather: what a group lacks has to enter it."""
    worst = 0.0
    for border in borders(network):
        lacks = size * (1 - np.bincount(border.group) / len(network.ranks))
        worst = max(worst, float((lacks / border.into + border.door_us).max()))
    return worst


def exchanges_us(network: LinkNetwork, matrix: Floats) -> float:
    """All-to-all: what a group gets from others enters it, what they get from it leaves it.

    Args:
        network: The links.
        matrix: float64[ranks, ranks], bytes from each rank to each.
    """
    worst = 0.0
    for border in borders(network):
        outside = np.where(border.group[:, None] == border.group[None, :], 0.0, matrix)
        gets = np.bincount(border.group, outside.sum(axis=0), border.groups)
        gives = np.bincount(border.group, outside.sum(axis=1), border.groups)
        for bytes_, rate, late in ((gets, border.into, border.door_us), (gives, border.out, border.gate_us)):
            worst = max(worst, float(np.where(bytes_ > 0, bytes_ / rate + late, 0.0).max()))
    return worst


def _groupings(network: LinkNetwork) -> Iterator[Ints]:
    """int64[ranks] each, numbers of groups that may have gaps."""
    ranks = np.array(network.ranks)
    yield ranks
    rates = np.unique(network.bytes_per_us)
    touches = ~(network.switch[network.source] & network.switch[network.target])
    for rate in rates[:_ROUNDS]:
        yield _joined(network, network.bytes_per_us > rate)[ranks]
        yield _joined(network, touches & (network.bytes_per_us == rate))[ranks]
    for block in range(2, len(ranks)):
        if len(ranks) % block == 0:
            yield np.arange(len(ranks)) // block


def _joined(network: LinkNetwork, links: NDArray[np.bool_]) -> Ints:
    """int64[nodes], the lowest node that each is joined to over some links, in either direction."""
    label = np.arange(network.nodes)
    while True:
        before = label.copy()
        for one, other in ((network.source, network.target), (network.target, network.source)):
            np.minimum.at(label, other[links], label[one[links]])
        label = label[label]
        if (label == before).all():
            return label


def _border(network: LinkNetwork, group: Ints, near: Floats, far: Floats) -> Border:
    """See `Border`; `near`, `far`: latency from the nearest rank to each node and from each to its nearest."""
    region = _regions(network, group)
    source, target = region[network.source], region[network.target]
    count = int(group.max()) + 1
    late = near[network.source] + network.latency_us + far[network.target]
    crossing = source != target
    rates: list[Floats] = []
    lates: list[Floats] = []
    for side in (target, source):
        mine = crossing & (side != _NOBODY)
        rates.append(np.bincount(side[mine], network.bytes_per_us[mine], count).astype(np.float64))
        first = np.full(count, np.inf)
        np.minimum.at(first, side[mine], late[mine])
        lates.append(first)
    return Border(group, rates[0], rates[1], lates[0], lates[1])


def _regions(network: LinkNetwork, group: Ints) -> Ints:
    """int64[nodes], the group of each rank and of switches that are joined to one group alone; -1: of nobody."""
    region = np.full(network.nodes, _NOBODY)
    region[network.ranks] = group
    low, high = int(group.max()) + 1, _NOBODY
    left = network.switch.copy()
    for _ in range(_ROUNDS):
        least, most = np.full(network.nodes, low), np.full(network.nodes, high)
        for here, there in ((network.source, network.target), (network.target, network.source)):
            known = region[there] != _NOBODY
            np.minimum.at(least, here[known], region[there[known]])
            np.maximum.at(most, here[known], region[there[known]])
        found = left & (most != high)  # what lies between groups belongs to nobody, and is not asked again
        region[found & (least == most)] = least[found & (least == most)]
        left &= ~found
        if not found.any():
            break
    return region


def _nearest_us(network: LinkNetwork) -> Floats:
    """float64[nodes], the least latency from any rank to each node."""
    at = np.where(network.switch, np.inf, 0.0)
    while True:
        before = at.copy()
        np.minimum.at(at, network.target, at[network.source] + network.latency_us)
        if (at == before).all():
            return at


_MOST_FLOWS = 400_000
"""Variables up to which the program of an all-to-all is solved as one; above, rank by rank."""


def lower_bound_us(network: LinkNetwork, collective: str, size: float, symmetry: Symmetry | None = None) -> float:
    """Microseconds that every schedule takes at least.

    Args:
        network: The links.
        collective: One of the registry's.
        size: As the collective counts it, in bytes.
        symmetry: Of the network: programs are then those of its roots, with a constraint for each orbit.
    """
    roots = network.ranks if symmetry is None else symmetry.roots
    latency = float(shortest_us(network, roots).max())
    if collective == "all-to-all":
        even = _even(network, size)
        flows = _all_to_all(network, even) if symmetry is None else _images(network, size, symmetry)
        return max(latency, exchanges_us(network, even), flows)
    if collective == "all-reduce":
        cut = _across(network, size) if symmetry is None else 0.0
        return max(latency, cut, sums_us(network, size))
    into = network if collective == "all-gather" else network.reversed()
    return max(latency, gathers_us(into, size), _into_each(into, size, roots))


def uneven_bound_us(network: LinkNetwork, matrix: NDArray[np.float64]) -> float:
    """Microseconds that every all-to-all of uneven sizes takes at least.

    By the flows of all pairs together; and what a rank gets comes no sooner than from the nearest that sends to it,
    what it sends last has yet to go to the nearest that wants something.

    Args:
        network: The links.
        matrix: float64[ranks, ranks], bytes from each rank to each.
    """
    latency = shortest_us(network)
    near = np.where(matrix > 0, latency, np.inf)
    doors = [exchanges_us(network, matrix)]
    for axis, end in ((0, network.target), (1, network.source)):
        rate = np.bincount(end, network.bytes_per_us, network.nodes)[network.ranks]
        doors.append(np.where(matrix.any(axis=axis), matrix.sum(axis=axis) / rate + near.min(axis=axis), 0.0).max())
    return max(float(latency[matrix > 0].max()), *map(float, doors), _all_to_all(network, matrix))


def need_solver() -> None:
    """Loads the linear programs, which takes longer than small ones do.

    Raises:
        InputError: They are not installed.
    """
    try:
        import scipy.optimize
        import scipy.sparse  # noqa: F401 - loaded for those who solve
    except ImportError:
        raise InputError(
            "the lower bound needs SciPy's linear programs", hint="pip install 'railyard[synthesis]'"
        ) from None


def _images(network: LinkNetwork, size: float, symmetry: Symmetry) -> float:
    """All-to-all: the flows of the roots, whose images load every link of an orbit alike; one program."""
    part = size / len(network.ranks)
    demand = np.zeros((len(symmetry.roots), network.nodes))
    for row, root in enumerate(symmetry.roots):
        demand[row, network.ranks] = -part
        demand[row, root] = part * (len(network.ranks) - 1)
    return _least_time(network, demand, symmetry)


def _across(network: LinkNetwork, size: float) -> float:
    """The narrowest cut between ranks: that of the least maximum flow from or to one of them."""
    first, *others = network.ranks
    worst = 0.0
    for other in others:
        for source, target in ((first, other), (other, first)):
            demand = np.zeros((1, network.nodes))
            demand[0, source], demand[0, target] = size, -size
            worst = max(worst, _least_time(network, demand))
    return worst


def _into_each(network: LinkNetwork, size: float, roots: Sequence[int]) -> float:
    """Every rank has to get what it lacks: the slowest maximum flow from all others to one."""
    part = size / len(network.ranks)
    supply = np.where(network.switch, 0.0, part)
    worst = 0.0
    for rank in roots:
        demand = supply.copy()
        demand[rank] = part - size
        worst = max(worst, _least_time(network, demand[None, :]), _at_the_door(network, rank, size - part))
    return worst


def _at_the_door(network: LinkNetwork, rank: int, size: float) -> float:
    """Nothing arrives before the latency of the nearest link has passed."""
    doors = network.target == rank
    return size / float(network.bytes_per_us[doors].sum()) + float(network.latency_us[doors].min())


def _even(network: LinkNetwork, size: float) -> NDArray[np.float64]:
    """float64[ranks, ranks], bytes from each rank to each other."""
    ranks = len(network.ranks)
    return size / ranks * (1 - np.eye(ranks))


def _all_to_all(network: LinkNetwork, matrix: NDArray[np.float64]) -> float:
    rows = np.flatnonzero(matrix.any(axis=1))
    demand = np.zeros((len(rows), network.nodes))
    demand[:, network.ranks] = -matrix[rows]
    demand[np.arange(len(rows)), np.array(network.ranks)[rows]] = matrix[rows].sum(axis=1)
    if demand.shape[0] * len(network.source) <= _MOST_FLOWS:
        return _least_time(network, demand)
    return max(_least_time(network, row[None, :]) for row in demand)


def _least_time(network: LinkNetwork, demand: NDArray[np.float64], symmetry: Symmetry | None = None) -> float:
    """The least time in which flows that share the links carry bytes from where there are too many to where they lack.

    Args:
        network: The links.
        demand: float64[commodities, nodes], bytes that each node has more than it wants.
        symmetry: Each flow stands for its images too.
    """
    need_solver()
    from scipy.optimize import linprog
    from scipy.sparse import block_diag, coo_matrix, hstack

    links = len(network.source)
    at = np.arange(links)
    leaves = coo_matrix((np.ones(links), (network.source, at)), (network.nodes, links))
    enters = coo_matrix((np.ones(links), (network.target, at)), (network.nodes, links))
    kinds = len(demand)
    keep = block_diag([leaves - enters] * kinds, format="csr")
    keep = hstack([keep, coo_matrix((keep.shape[0], 1))], format="csr")
    slot = at if symmetry is None else symmetry.orbit
    images = np.ones(links) if symmetry is None else symmetry.together[slot]
    slots = int(slot.max()) + 1
    share = hstack([coo_matrix((images / network.bytes_per_us, (slot, at)), (slots, links))] * kinds, format="csr")
    scale = float(np.abs(demand).max())
    limit = hstack([share * scale, coo_matrix(-np.ones((slots, 1)))], format="csr")
    cost = np.zeros(keep.shape[1])
    cost[-1] = 1
    rows: dict[str, Any] = {"A_ub": limit, "A_eq": keep}  # sparse, which its types do not know
    found = linprog(cost, b_ub=np.zeros(slots), b_eq=demand.ravel() / scale, method="highs", **rows)
    if found.fun is None:
        raise SimulationError(f"the linear program of a lower bound was not solved: {found.message}")
    return float(found.fun)
