"""What a job does about limits of the network."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import SIZE, WIDTHS, bounded, limits
from railyard.work.training.sync.compression import Compression, compressions, share_of
from railyard.work.training.sync.local import LocalUpdates, local_updates
from railyard.work.training.sync.wire import Finding, Sparse, Technique, sparsities

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class LateUpdates(Technique):
    """How late updates may be."""

    @property
    def late_steps(self) -> int:
        """Steps by which an update may be late."""
        return 1


asynchronies: Registry[type[LateUpdates]] = Registry("asynchronous update")


@asynchronies.register("delayed")
@dataclass(frozen=True)
class Delayed(LateUpdates):
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


@asynchronies.register("stale-synchronous")
@dataclass(frozen=True)
class StaleSynchronous(LateUpdates):
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


class Dispatch(Technique):
    """How tokens travel to their experts and back."""

    @abstractmethod
    def share(self) -> float:
        """Bytes of both ways as sent, over those of 16 bits."""

    @abstractmethod
    def cast_bytes(self) -> float:
        """Bytes through memory for each number that is sent there and back, to code and decode it."""


dispatches: Registry[type[Dispatch]] = Registry("dispatch of tokens")

_WIDTHS = (4, 8, 16)


@dispatches.register("quantized")
@dataclass(frozen=True)
class QuantizedDispatch(Dispatch):
    """Block-quantized all-to-all: tokens go to their experts in few bits, and come back in others.

    DeepSeek-V3 sends in 8 bits with a scale for every 128 numbers, and combines in 16 (arXiv 2412.19437, section 3.3).

    Attributes:
        dispatch_bits: Of a number on its way to an expert.
        block: Numbers that share a scale.
    """

    kind: ClassVar[str] = "quantized"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "relative loss error below 0.25 % for FP8 training with 8-bit dispatch",
            "models of 16 and 230 billion parameters on about 1 trillion tokens",
            "DeepSeek-V3, arXiv 2412.19437, section 3.3 and appendix B",
        ),
    )

    dispatch_bits: int = field(default=8, metadata=bounded(WIDTHS))
    combine_bits: int = field(default=16, metadata=bounded(WIDTHS))
    block: int = field(default=128, metadata=bounded(limits(1, 2**31 - 1)))

    def share(self) -> float:
        """Mean of both ways."""
        return (share_of(self.dispatch_bits, self.block) + share_of(self.combine_bits, self.block)) / 4.0

    def cast_bytes(self) -> float:
        """Each way that is narrow reads 16 bits and writes few, then the other way round."""
        narrow = [bits for bits in (self.dispatch_bits, self.combine_bits) if bits < 16]
        return sum(2.0 * (2.0 + share_of(bits, self.block)) for bits in narrow)

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        found = super().problems()
        for key, bits in (("dispatch_bits", self.dispatch_bits), ("combine_bits", self.combine_bits)):
            if bits not in _WIDTHS:
                found.append(("there is no such width", key, str(bits), ", ".join(map(str, _WIDTHS))))
        return found


class Scheduling(Technique):
    """The order and the pieces in which gradients are sent."""

    @property
    @abstractmethod
    def piece_bytes(self) -> int:
        """Largest piece that is sent without asking whether something more urgent has come."""


schedulings: Registry[type[Scheduling]] = Registry("communication scheduling")


@schedulings.register("priority")
@dataclass(frozen=True)
class Priority(Scheduling):
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
    asynchronous: LateUpdates | None = None
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
