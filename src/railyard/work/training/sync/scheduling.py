"""Order of communication: gradients that the next forward pass wants first are sent first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import bounded
from railyard.kit.schema.quantity import SIZE
from railyard.work.training.sync.published import Finding


class Scheduling(Protocol):
    """In which order and pieces gradients are sent; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    published: ClassVar[tuple[Finding, ...]]

    @property
    def piece_bytes(self) -> int:
        """Largest piece that is sent without asking whether something more urgent has come."""


schedulings: Registry[type[Scheduling]] = Registry("communication scheduling")


@dataclass(frozen=True)
class Priority:
    """Priority and partitioning: pieces of gradients, the first layers' first, under backward and the next forward.

    P3 (Jayarajan et al. 2019) and ByteScheduler (Peng et al. 2019). Wait-free backpropagation alone sends layers as
    they come, the last first, and the next step waits for all; by priority, the forward pass of each layer waits for
    that layer only.

    Attributes:
        partition_bytes: Size of a piece; each costs the latency of a collective, which is why all-reduce wants larger
            pieces than a parameter server.
    """

    kind: ClassVar[str] = "priority"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "none: the same updates are applied, in the same order of steps",
            "gradients must not be clipped by their global norm, which would wait for all of them",
            "Peng et al. 2019 (ByteScheduler), SOSP; Jayarajan et al. 2019 (P3), arXiv 1905.03960",
        ),
    )

    partition_bytes: int = field(default=64 * 2**20, metadata=bounded(SIZE.within("1 B", "1 TB")))

    @property
    def piece_bytes(self) -> int:
        """Size of a piece."""
        return self.partition_bytes


schedulings.add(Priority.kind, Priority)
