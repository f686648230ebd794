"""Task graphs of steps, shared by variants whose computations are alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.network import Network
    from railyard.graph import TaskGraph
    from railyard.work.training.spec import Training


_HASHED = frozenset({"ecmp", "flowlet"})


def hashes(cluster: Cluster) -> bool:
    """Whether a network that carries the job chooses paths between switches by hashes."""
    return any(_hashed(network) for network in (cluster.back_end, cluster.storage) if network is not None)


def _hashed(network: Network) -> bool:
    several = any(tier.kind != "access" for tier in network.tiers)
    return several and network.fabric.load_balancing in _HASHED


def redrawn(cluster: Cluster, shift: int) -> Cluster:
    """The cluster with every network's hash seed moved on by `shift`; the same cluster where nothing is hashed."""
    if shift == 0 or not hashes(cluster):
        return cluster
    copies = {id(network): replace(network, seed=network.seed + shift) for network in cluster.networks}
    return cluster.with_networks(copies)


T = TypeVar("T")
# Tables of a few rows: one a network that is tried.
_MOST_LOSSES = 64
# Of graphs that variants choose their layouts by; about 100 bytes a task.
_MOST_TASKS = 2_000_000


@dataclass
class Graphs:
    """Task graphs, built once for all variants whose computations are the same: fabrics do not change what runs.

    How much communications slow computations does depend on the network, and is filled in for each.

    Attributes:
        most: Graphs that are kept whatever their size.
        tasks: Of all that are kept until `forget`.
    """

    most: int = 4
    tasks: int = _MOST_TASKS
    _graphs: list[tuple[tuple[Any, ...], TaskGraph]] = field(default_factory=list)
    _losses: list[tuple[tuple[Any, ...], NDArray[np.float64]]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def of(self, training: Training, cluster: Cluster, *, checkpoint: bool = False, meeting: bool = False) -> TaskGraph:
        """The graph of one step.

        Raises:
            InputError: The layout does not fit the cluster.
        """
        from railyard.model.machine import Machine
        from railyard.work.training.build import build, losses

        alike, machine = _alike(training, cluster), Machine.of(cluster)
        with self._lock:
            graph = _kept(
                self._graphs,
                (*alike, checkpoint, meeting),
                lambda: build(training, cluster, checkpoint=checkpoint, meeting=meeting),
            )
            while len(self._graphs) > self.most and sum(len(kept) for _, kept in self._graphs) > self.tasks:
                del self._graphs[0]
            if graph.loss is None:
                return graph
            loss = _kept(self._losses, (*alike, machine), lambda: losses(training, cluster.accelerator, machine))
            del self._losses[:-_MOST_LOSSES]
            return replace(graph, loss=loss)

    def forget(self) -> None:
        """Lets go of all but the last few."""
        with self._lock:
            del self._graphs[: -self.most]


def _kept(table: list[tuple[tuple[Any, ...], T]], key: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What a table has under a key; made where it has nothing."""
    for known, value in table:
        if known == key:
            return value
    table.append((key, make()))
    return table[-1][1]


def _alike(training: Training, cluster: Cluster) -> tuple[Any, ...]:
    """What is equal where computations are the same."""
    return (
        training,
        cluster.accelerator,
        cluster.server,
        cluster.ranks,
        cluster.storage is None,
        cluster.spec.memory_pool,
    )
