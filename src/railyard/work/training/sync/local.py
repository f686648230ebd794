"""Local updates: replicas step on their own and synchronize every H steps (local SGD, DiLoCo, streaming DiLoCo)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import COUNTED, WIDTHS, Bounds, bounded, limits
from railyard.work.training.sync.wire import Finding, KernelWork, Technique


class LocalUpdates(Technique):
    """How replicas with local steps synchronize.

    Attributes:
        partners: The partners of a site: `all` (a ring, all sites wait), `server` (one place, no waiting), `pairs` (one
            other site at a time, no waiting), `present` (the available ones).
        state_bytes: Bytes per parameter in addition to the inner optimizer's.
        update_bytes: Moved through memory for each parameter by an outer update: an average is read and written, in 32
            and in 16 bits.
    """

    partners: ClassVar[str] = "all"
    state_bytes: ClassVar[float] = 0.0
    update_bytes: ClassVar[float] = 10.0

    @property
    def inner_steps(self) -> int:
        """Steps between two synchronizations of the same parameters (H)."""
        return 1

    @property
    def workers(self) -> int:
        """Groups of replicas that step together; 0: every replica, or site, alone."""
        return 0

    @property
    def outer_bits(self) -> int:
        """Bits of a number as sent."""
        return 32

    @property
    def bits(self) -> float:
        """Bits of a number as sent."""
        return float(self.outer_bits)

    @property
    def fragments(self) -> int:
        """Parts of the parameters that are sent at different times."""
        return 1

    @property
    def overlap(self) -> float:
        """Steps of computation that can overlap sending a fragment."""
        return 0.0


local_updates: Registry[type[LocalUpdates]] = Registry("way of local updates")

_WIDTHS = (2, 4, 8, 16, 32)
_OVERLAP = Bounds(low=0.0)


class _Outer(LocalUpdates):
    """Outer updates in widths that kernels have."""

    def problems(self) -> list[tuple[str, str, str, str]]:
        found = super().problems()
        if self.bits not in _WIDTHS:
            found.append(("there is no such width", "outer_bits", f"{self.bits:g}", ", ".join(map(str, _WIDTHS))))
        return found


def outer_work(updates: LocalUpdates, parameters: float) -> KernelWork:
    """The outer update of so many parameters, and the two passes that encode and decode what is sent."""
    coded = 2.0 * (4.0 + updates.bits / 8.0) if updates.bits < 32 else 0.0
    return KernelWork(parameters * (updates.update_bytes + coded), 0.0, 4.0)


def exposed_s(updates: LocalUpdates, sync_s: float, step_s: float) -> float:
    """Seconds that a mean step gets longer.

    Args:
        updates: How replicas meet.
        sync_s: Time in which all parameters are sent, all fragments one after another.
        step_s: An inner step.

    Every fragment is sent once in H steps and may take `overlap` steps; what it takes longer, the step waits.
    """
    each = sync_s / updates.fragments
    late = max(0.0, each - updates.overlap * step_s)
    return updates.fragments * late / updates.inner_steps


def utilization(updates: LocalUpdates, sync_s: float, step_s: float) -> float:
    """Share of the time that is inner steps."""
    return step_s / (step_s + exposed_s(updates, sync_s, step_s))


@local_updates.register("local-sgd")
@dataclass(frozen=True)
class LocalSgd(_Outer):
    """Local SGD: replicas step by themselves and average their parameters every H steps.

    With H = 1 it is data parallelism, and is run as that.

    Attributes:
        inner_steps: Steps between two averages (H).
        workers: Groups of replicas that step together (one a site); 0 is every replica by itself.
    """

    kind: ClassVar[str] = "local-sgd"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "better test accuracy than large-batch SGD when local steps start late (post-local SGD)",
            "ResNets on CIFAR and ImageNet",
            "Lin et al. 2020, arXiv 1808.07217, abstract",
        ),
    )

    inner_steps: int = field(default=8, metadata=bounded(COUNTED))
    workers: int = 0
    outer_bits: int = field(default=32, metadata=bounded(WIDTHS))


@local_updates.register("diloco")
@dataclass(frozen=True)
class DiLoCo(_Outer):
    """DiLoCo: H steps of AdamW in every worker, then Nesterov on the mean of what the workers moved.

    Douillard et al. 2023 (arXiv 2311.08105). What is sent is the outer gradient: parameters before the H steps less
    parameters after them. A worker keeps the parameters of the last outer update and the outer momentum in 32 bits; an
    update reads parameters, anchor, momentum and gradient, and writes parameters (32 and 16 bits), anchor and momentum.

    Attributes:
        inner_steps: Steps between two outer updates (H).
        workers: Groups of replicas that step together (one a site); 0 is every replica by itself.
        outer_bits: Of an outer gradient as sent.
        overlap: Steps of computation under which it may be sent; 0 waits for it.
    """

    kind: ClassVar[str] = "diloco"
    state_bytes: ClassVar[float] = 8.0
    update_bytes: ClassVar[float] = 30.0
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "as good as fully synchronous training with 8 workers and H = 500",
            "60 to 400 million parameters on C4, from a pre-trained start",
            "Douillard et al. 2023 (DiLoCo), arXiv 2311.08105, abstract",
        ),
        Finding(
            "evaluation loss 0.00 to 0.03 above data parallelism with 2 workers and H = 30",
            "35 million to 1 billion parameters on C4, compute-optimal tokens",
            "Douillard et al. 2025 (Streaming DiLoCo), arXiv 2501.18512, table 5",
        ),
    )

    inner_steps: int = field(default=500, metadata=bounded(COUNTED))
    workers: int = 0
    outer_bits: int = field(default=32, metadata=bounded(WIDTHS))
    overlap: float = field(default=0.0, metadata=bounded(_OVERLAP))


@local_updates.register("streaming-diloco")
@dataclass(frozen=True)
class StreamingDiLoCo(_Outer):
    """Streaming DiLoCo: fragments of the layers are sent in turn, in few bits, while training goes on.

    Douillard et al. 2025 (arXiv 2501.18512). Every fragment is sent once in H steps; what arrives is mixed into
    parameters that have moved on by `overlap` steps.

    Attributes:
        inner_steps: Steps between two outer updates of the same fragment (H).
        workers: Groups of replicas that step together (one a site); 0 is every replica by itself.
        parts: Fragments into which the parameters are cut (the paper: 3 layers a fragment).
        overlap: Steps of computation under which a fragment may be sent (tau).
        outer_bits: Of an outer gradient as sent.
    """

    kind: ClassVar[str] = "streaming-diloco"
    state_bytes: ClassVar[float] = 8.0
    update_bytes: ClassVar[float] = 30.0
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "evaluation loss 0.01 below to 0.02 above data parallelism at H = 30, 0.01 to 0.05 above at H = 100",
            "2 workers, 35 million to 4 billion parameters on C4, compute-optimal tokens, 4-bit outer gradients",
            "Douillard et al. 2025, arXiv 2501.18512, table 5",
        ),
        Finding(
            "evaluation loss 2.45 with 2 workers and 2.47 with 4, against 2.45 for data parallelism",
            "1 billion parameters on 250 billion tokens of Dolma, 400 times fewer bits",
            "Douillard et al. 2025, arXiv 2501.18512, table 7",
        ),
    )

    inner_steps: int = field(default=100, metadata=bounded(COUNTED))
    workers: int = 0
    parts: int = field(default=8, metadata=bounded(limits(1, 10_000)))
    overlap: float = field(default=1.0, metadata=bounded(_OVERLAP))
    outer_bits: int = field(default=4, metadata=bounded(WIDTHS))

    @property
    def fragments(self) -> int:
        """Parts that are sent one after another."""
        return self.parts

    def problems(self) -> list[tuple[str, str, str, str]]:
        """Values out of range, and fragments that have no step of their own."""
        found = super().problems()
        if self.parts > self.inner_steps:
            found.append(
                ("more fragments than steps to send them in", "parts", str(self.parts), f"at most {self.inner_steps}")
            )
        return found
