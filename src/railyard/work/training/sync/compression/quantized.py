"""Quantized collectives, and ZeRO++ that puts three of them together (Wang et al. 2023, arXiv 2306.10209)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.graph import CollectiveKind
from railyard.kit.schema.bounds import WIDTHS, bounded, limits
from railyard.work.training.sync.compression.scheme import compressions
from railyard.work.training.sync.published import Finding
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction, Round

if TYPE_CHECKING:
    from railyard.work.training.sync.wire import Bundle, Over, Peers

_WIDTHS = (2, 4, 8, 16)
# One 32-bit scale a block.
_SCALE_BITS = 32.0


def share_of(bits: float, block: int) -> float:
    """Bytes a number as sent: its bits and its part of the block's scale."""
    return (bits + (_SCALE_BITS / block if bits < 16 else 0.0)) / 8.0


@dataclass(frozen=True)
class _Blocks:
    """Common part: gradients by all-to-all in few bits, parameters gathered in few bits."""

    gradient_bits: int = field(default=8, metadata=bounded(WIDTHS))
    parameter_bits: int = field(default=16, metadata=bounded(WIDTHS))
    block: int = field(default=256, metadata=bounded(limits(1, 2**31 - 1)))
    hierarchical: bool = True
    secondary: bool = False

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        found = []
        for key, bits in (("gradient_bits", self.gradient_bits), ("parameter_bits", self.parameter_bits)):
            if bits not in _WIDTHS:
                found.append(("there is no such width", key, str(bits), ", ".join(map(str, _WIDTHS))))
        return found

    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """Reduce-scatter as an all-to-all of quantized chunks, summed in full precision at the owner.

        In two steps where ranks share a domain: inside it first, so that only sums leave it. All-reduce adds a gather
        of the quantized sums.
        """
        full, each = bundle.gradient_bytes, share_of(self.gradient_bits, self.block)
        count = bundle.parameters
        rounds = []
        shard, groups = count, self._groups(peers)
        work = KernelWork(count * (full + each), 0.0, 1.0)
        for over in groups:
            members = peers.of(over)
            rounds.append(Round(work, (Leg(CollectiveKind.ALL_TO_ALL, shard * each, over),)))
            before, shard = shard, shard / members
            # What comes in is read and summed; then packed again for the next step.
            work = KernelWork(before * each + shard * (full + each), 0.0, 1.0)
        if not peers.sharded:
            rounds.append(Round(work, (Leg(CollectiveKind.ALL_GATHER, count * each),)))
            work = KernelWork(count * (full + each), 0.0, 1.0)
        return Reduction(tuple(rounds), work)

    def _groups(self, peers: Peers) -> tuple[Over, ...]:
        if self.hierarchical and 1 < peers.local < peers.ranks:
            return "inside", "across"
        return ("all",)

    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """A second 16-bit copy of the parameters in every domain, where there is one. Nothing else stays."""
        return 2.0 * bundle.parameters / peers.local if self.secondary else 0.0

    @property
    def parameter_share(self) -> float:
        """Of 16 bits, that gathered parameters take."""
        return share_of(self.parameter_bits, self.block) / 2.0

    @property
    def second_copy(self) -> bool:
        """Whether backward gathers inside the domain."""
        return self.secondary


@dataclass(frozen=True)
class Quantized(_Blocks):
    """Block-quantized collectives: gradients by all-to-all, parameters by all-gather, in few bits with a scale a block.

    Attributes:
        gradient_bits: Of a gradient as sent (16: as it is, in 16 bits).
        parameter_bits: Of a gathered parameter as sent (qwZ: 8).
        block: Numbers that share a scale.
        hierarchical: Gradients are summed inside a scale-up domain before they leave it (qgZ).
        secondary: Every domain keeps a copy of all parameters, which backward gathers inside it (hpZ).
    """

    kind: ClassVar[str] = "quantized"
    stages: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "accuracy is preserved with 8-bit weights and 4-bit gradients in blocks",
            "GPT models of 350 million to 13 billion parameters; curves, no figure",
            "Wang et al. 2023 (ZeRO++), arXiv 2306.10209, abstract",
        ),
        Finding(
            "a training loss 1 to 2 points higher was reported by a user of the secondary copy (hpZ)",
            "Llama-2 7B from scratch on 4 nodes, DeepSpeed 0.12.5",
            "DeepSpeed issue 4851, 2023",
        ),
    )


@dataclass(frozen=True)
class ZeroPlusPlus(_Blocks):
    """ZeRO++: weights gathered in 8 bits (qwZ), gathered again inside the domain (hpZ), gradients in 4 bits (qgZ).

    Attributes:
        gradient_bits: Of a gradient as sent (qgZ).
        parameter_bits: Of a gathered parameter as sent (qwZ).
        block: Numbers that share a scale.
        hierarchical: Gradients are summed inside a scale-up domain before they leave it.
        secondary: Every domain keeps a copy of all parameters, which backward gathers inside it (hpZ).
    """

    kind: ClassVar[str] = "zero++"
    stages: ClassVar[tuple[int, ...]] = (3,)
    published: ClassVar[tuple[Finding, ...]] = Quantized.published

    gradient_bits: int = field(default=4, metadata=bounded(WIDTHS))
    parameter_bits: int = field(default=8, metadata=bounded(WIDTHS))
    block: int = field(default=2048, metadata=bounded(limits(1, 2**31 - 1)))
    secondary: bool = True


compressions.add(Quantized.kind, Quantized)
compressions.add(ZeroPlusPlus.kind, ZeroPlusPlus)
