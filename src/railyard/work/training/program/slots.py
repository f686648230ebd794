"""The program of a step: slots and what they wait for, a table row each.

A slot stands for one task of every rank (or of every communicator) of a pipeline stage. The step of 16,384 ranks is a
few thousand slots; `expand` replicates them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import CollectiveKind, Kind, Label, Stream

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from railyard.work.training.program.lattice import Lattice

# Stands for "no slot" wherever slots are listed.
NONE = -1


@dataclass(frozen=True)
class Slots:
    """Columns of n slots.

    Attributes:
        space: int8[n], index into the lattice's spaces.
        stage: int32[n], pipeline stage (0 for spaces that reach over all).
        order: int64[n]; slots of one stage and stream run by ascending order.
        kind, stream, collective: uint8[n], as in the task graph.
        peer: int32[n], stage that receives a transfer, else -1.
        shift: int32[n]; where above 0, the rank so many further on (round the job) receives a transfer instead.
        duration_ps, size_bytes: int64[n].
        count: int32[n].
        label: int64[n], coded label.
        loss_index: int32[n], as in the task graph.
    """

    space: NDArray[np.int8]
    stage: NDArray[np.int32]
    order: NDArray[np.int64]
    kind: NDArray[np.uint8]
    stream: NDArray[np.uint8]
    collective: NDArray[np.uint8]
    peer: NDArray[np.int32]
    shift: NDArray[np.int32]
    duration_ps: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    count: NDArray[np.int32]
    label: NDArray[np.int64]
    loss_index: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.space)

    def take(self, order: NDArray[np.int64]) -> Slots:
        """The slots in another order."""
        return Slots(*(getattr(self, field.name)[order] for field in fields(self)))


_GROUPS = {Kind.LOAD: "memory", Kind.STORE: "memory"}
"""What waits for the memory pool are called, beside the classes of communicators."""
_DTYPES = {
    "space": np.int8,
    "stage": np.int32,
    "order": np.int64,
    "kind": np.uint8,
    "stream": np.uint8,
    "collective": np.uint8,
    "peer": np.int32,
    "shift": np.int32,
    "duration_ps": np.int64,
    "size_bytes": np.int64,
    "count": np.int32,
    "label": np.int64,
    "loss_index": np.int32,
}


class Program:
    """Slots as they are added, family by family.

    Args:
        lattice: The spaces over which slots are replicated.
        virtual_stages: Number of virtual pipeline stages; labels refer to them.
        micro_batches: Number of micro-batches.

    Attributes:
        loss: What computations lose to communications beside them, as in the task graph; None: nothing.
    """

    def __init__(self, lattice: Lattice, virtual_stages: int, micro_batches: int) -> None:
        self.lattice = lattice
        self._layers, self._batches = virtual_stages + 1, micro_batches + 1
        self._space_index = {name: index for index, name in enumerate(lattice.spaces)}
        self._families: list[dict[str, NDArray[np.generic]]] = []
        self._labels: dict[tuple[str, str, str], int] = {}
        self._edges: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._size = 0
        self.loss: NDArray[np.float64] | None = None

    def add(
        self,
        space: str,
        kind: Kind,
        stream: Stream,
        *,
        stage: ArrayLike,
        order: ArrayLike,
        phase: str,
        op: str,
        virtual_stage: ArrayLike = -1,
        micro_batch: ArrayLike = -1,
        duration_ps: ArrayLike = 0,
        size_bytes: ArrayLike = 0,
        count: ArrayLike = 1,
        collective: CollectiveKind = CollectiveKind.ALL_REDUCE,
        peer: ArrayLike = -1,
        shift: ArrayLike = 0,
        loss_index: ArrayLike = -1,
    ) -> NDArray[np.int64]:
        """Adds one slot an entry of `order`; the other columns are broadcast to it.

        Returns:
            int64[n], the slots' numbers, for `wait`.
        """
        order = np.atleast_1d(np.asarray(order, np.int64))
        grouped = kind == Kind.COLLECTIVE
        group = self.lattice.spaces[space].label if grouped else _GROUPS.get(kind, "pp" if phase == "pipeline" else "")
        family = self._labels.setdefault((phase, op, group), len(self._labels))
        layers, batches = np.asarray(virtual_stage, np.int64), np.asarray(micro_batch, np.int64)
        columns: dict[str, ArrayLike] = {
            "space": self._space_index[space],
            "stage": stage,
            "order": order,
            "kind": kind,
            "stream": stream,
            "collective": collective if kind == Kind.COLLECTIVE else 0,
            "peer": peer,
            "shift": shift,
            "duration_ps": duration_ps,
            "size_bytes": size_bytes,
            "count": count,
            "loss_index": loss_index,
            "label": (family * self._layers + layers + 1) * self._batches + batches + 1,
        }
        self._families.append(
            {name: np.broadcast_to(np.asarray(columns[name], kind_), order.shape) for name, kind_ in _DTYPES.items()}
        )
        self._size += len(order)
        return np.arange(self._size - len(order), self._size, dtype=np.int64)

    def wait(self, slots: NDArray[np.int64], on: NDArray[np.int64]) -> None:
        """Lets every slot wait for its counterpart in `on`; pairs with `NONE` on either side are left out."""
        slots, on = np.broadcast_arrays(slots, on)
        real = (slots != NONE) & (on != NONE)
        if real.any():
            self._edges.append((slots[real], on[real]))

    def slots(self) -> Slots:
        """All slots so far, in the order in which they were added."""
        return Slots(*(np.concatenate([family[name] for family in self._families]) for name in _DTYPES))

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Waiting slots and what each waits for."""
        if not self._edges:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate([edge[0] for edge in self._edges]), np.concatenate([edge[1] for edge in self._edges])

    def decode(self, codes: NDArray[np.int64]) -> list[Label]:
        """The labels of distinct codes."""
        families = list(self._labels)
        rest, batch = np.divmod(codes, self._batches)
        family, layer = np.divmod(rest, self._layers)
        labels = []
        for f, v, m in zip(family.tolist(), layer.tolist(), batch.tolist(), strict=True):
            phase, op, group = families[f]
            labels.append(Label(phase, op, group, v - 1, m - 1))
        return labels
