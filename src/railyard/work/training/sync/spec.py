"""What a job does about limits of the network."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from railyard.work.training.sync.asynchronous import Asynchronous, asynchronies
from railyard.work.training.sync.compression import Compression, compressions
from railyard.work.training.sync.dispatch import Dispatch, dispatches
from railyard.work.training.sync.local import LocalUpdates, local_updates
from railyard.work.training.sync.scheduling import Scheduling, schedulings
from railyard.work.training.sync.sparse import Sparse, sparsities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.kit.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What a job does about limits of the network; each part by itself or several together.

    Attributes:
        compression: Fewer bytes for a gradient.
        local_updates: Replicas that step by themselves and meet every H steps.
        asynchronous: Gradients applied late.
        scheduling: Order and pieces in which gradients are sent.
        sparse: Rows of a table in place of all of it.
        dispatch: Tokens on their way to experts in few bits.
    """

    compression: Compression | None = None
    local_updates: LocalUpdates | None = None
    asynchronous: Asynchronous | None = None
    scheduling: Scheduling | None = None
    sparse: Sparse | None = None
    dispatch: Dispatch | None = None

    def parts(self) -> Iterator[tuple[str, Any]]:
        """Names and records of what is used."""
        for one in fields(self):
            record = getattr(self, one.name)
            if record is not None:
                yield one.name, record

    def meets(self) -> LocalUpdates | None:
        """The local updates, if replicas do not meet in every step anyway: averaging each step is data parallelism."""
        updates = self.local_updates
        return None if updates is not None and updates.kind == "local-sgd" and updates.inner_steps == 1 else updates

    @property
    def plain(self) -> bool:
        """Whether it changes nothing."""
        return self.meets() is None and not any(name != "local_updates" for name, _ in self.parts())


#: Kinds by the part of `Communication` that they are for.
KINDS: Mapping[str, Registry[Any]] = {
    "compression": compressions,
    "local_updates": local_updates,
    "asynchronous": asynchronies,
    "scheduling": schedulings,
    "sparse": sparsities,
    "dispatch": dispatches,
}
