"""Asynchronous updates: gradients that are applied some steps after they were computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from railyard.kit.registry import Registry
from railyard.kit.schema.bounds import bounded, limits
from railyard.work.training.sync.published import Finding


class Asynchronous(Protocol):
    """How late updates may be; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    published: ClassVar[tuple[Finding, ...]]

    @property
    def late_steps(self) -> int:
        """Steps by which an update may be late."""


asynchronies: Registry[type[Asynchronous]] = Registry("asynchronous update")


@dataclass(frozen=True)
class Delayed:
    """One step late: gradients of a step cross the network under the next step, and are applied behind it.

    ZeRO-Offload's delayed parameter update and Pipe-SGD. A step takes the longer of computation and communication; a
    second buffer of gradients is its price.
    """

    kind: ClassVar[str] = "delayed"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "loss curves that overlap the synchronous ones when the delay starts after 40 steps",
            "GPT-2 pre-training and BERT-Large fine-tuning",
            "Ren et al. 2021 (ZeRO-Offload), arXiv 2101.06840",
        ),
    )

    @property
    def late_steps(self) -> int:
        """One."""
        return 1


@dataclass(frozen=True)
class StaleSynchronous:
    """Stale-synchronous parallel: no replica runs more than `staleness` steps ahead of the slowest.

    Ho et al. 2013. Communication is as under `delayed`: a network that is slower than the computation stays the
    bottleneck, however stale updates may be. Up to so many steps of gradients wait to be sent.

    Attributes:
        staleness: Steps by which an update may be late.
    """

    kind: ClassVar[str] = "stale-synchronous"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "fewer updates a second are lost to waiting, more updates are needed: best at a staleness of some steps",
            "topic models, matrix factorization and Lasso on up to 32 machines",
            "Ho et al. 2013, NeurIPS",
        ),
        Finding(
            "no range is published for pre-training of transformers at a staleness above 1",
            "language models",
            "none found",
        ),
    )

    staleness: int = field(default=3, metadata=bounded(limits(1, 10_000)))

    @property
    def late_steps(self) -> int:
        """The staleness."""
        return self.staleness


asynchronies.add(Delayed.kind, Delayed)
asynchronies.add(StaleSynchronous.kind, StaleSynchronous)
