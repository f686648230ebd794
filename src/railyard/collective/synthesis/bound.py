"""What no schedule of a collective beats: by latency, and by linear programs over the links' rates (HiGHS).

Reduce-scatter is an all-gather over the reversed links. Of an all-reduce every element of the sum crosses every cut
with ranks on both sides, if only once and already added up; see `groups` for what all groups of ranks have to take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.synthesis.groups import exchanges_us, gathers_us, sums_us
from railyard.collective.synthesis.routes import shortest_us
from railyard.kit.errors import InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.collective.synthesis.symmetry import Symmetry

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
