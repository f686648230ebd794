"""Lines shared by clients that each have a limit of their own: max-min fair, as a fluid, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Links = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tree:
    """Links that several clients share on their way to the server, parents first; the last on every way has none.

    Attributes:
        capacity_bps: float64[links], ONE WAY, more than zero; inf: never short.
        parent: int32[links], the next link on the way, before its children; -1: there is none.
        first: int32[clients], the first shared link on each client's way; -1: there is none.
    """

    capacity_bps: Floats
    parent: Links
    first: Links

    @staticmethod
    def line(bps: float, clients: int) -> Tree:
        """One line, shared by all."""
        none = np.full(1, -1, np.int32)
        return Tree(np.array([bps]), none, np.zeros(clients, np.int32))


def finish_s(start_s: Floats, size_bits: Floats, own_bps: Floats, tree: Tree, stop_s: Floats | None = None) -> Floats:
    """When each transfer ends; inf where it is given up before.

    Between two starts or ends rates are constant: the least of a transfer's limit and the levels of the links on its
    way. Where all limits together fit every link, nobody is slowed and the answer is immediate.

    Args:
        start_s: float64[transfers]; inf for one that never starts.
        size_bits: float64[transfers].
        own_bps: float64[transfers], limit of each, more than zero.
        tree: Shared links.
        stop_s: float64[transfers], when each is given up; inf, or None for all: never.
    """
    stop_s = np.full(len(start_s), np.inf) if stop_s is None else stop_s
    start, stop, bits, own = (
        np.ascontiguousarray(column, np.float64) for column in (start_s, stop_s, size_bits, own_bps)
    )
    out = np.empty(len(start))
    _core.rounds_shared_ends(start, stop, bits, own, tree.first, tree.capacity_bps, tree.parent, out)
    return out
