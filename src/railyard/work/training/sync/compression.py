"""Compression of gradients."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.graph import CollectiveKind
from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import SIZE, SOME_SHARE, WIDTHS, Bounds, bounded, limits
from railyard.work.training.sync.wire import Finding, KernelWork, Leg, Reduction, Round, Technique

if TYPE_CHECKING:
    from railyard.work.training.sync.wire import Bundle, Over, Peers


class Compression(Technique):
    """A gradient compression.

    Attributes:
        stages: ZeRO stages under which it works.
    """

    stages: ClassVar[tuple[int, ...]] = (0, 1)

    @abstractmethod
    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """Traffic and computation of one reduction."""

    @abstractmethod
    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """Bytes that a rank keeps between steps for these gradients."""

    @property
    def parameter_share(self) -> float:
        """Bytes of a gathered parameter as sent, relative to 16 bits."""
        return 1.0

    @property
    def second_copy(self) -> bool:
        """Every scale-up domain keeps all parameters, so that backward gathers them inside (hpZ)."""
        return False


compressions: Registry[type[Compression]] = Registry("compression")


@compressions.register("one-bit")
@dataclass(frozen=True)
class OneBit(Compression):
    """1-bit Adam and 1-bit LAMB: the sign of every momentum and one scale a tensor, with error feedback at both ends.

    The step that is run is one of the compressed stage. Before it, while the variance settles, the job sends whole
    gradients in `warmup` of its steps, so that it sends `1 / (w + (1 - w) / 16)` times fewer bytes than in 16 bits.

    Attributes:
        warmup: Share of the job's steps that send whole gradients; reported separately, not mixed into the step.
    """

    kind: ClassVar[str] = "one-bit"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "the same convergence a sample as Adam, after a warm-up of about 15 % of the steps",
            "BERT-Base and BERT-Large pre-training, SQuAD and GLUE, up to 256 V100",
            "Tang et al. 2021 (1-bit Adam), arXiv 2102.02888",
        ),
        Finding(
            "the same convergence a sample as LAMB, at batches of 8,192 to 65,536",
            "BERT-Large pre-training, up to 256 V100",
            "Li et al. 2022 (1-bit LAMB), arXiv 2104.06069",
        ),
    )

    warmup: float = field(default=0.15, metadata=bounded(Bounds(low=0.0, below=1.0)))

    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """Compressed all-reduce: all-to-all of signs, sum of the own chunk, all-gather of the sum's signs."""
        signs = bundle.parameters / 8.0
        chunk = bundle.parameters / peers.ranks
        dense_bytes = bundle.parameters * 4.0
        # Momentum and error are read, the error written, the scale is a pass of its own.
        pack = KernelWork(4.0 * dense_bytes + signs, 0.0, 4.0)
        pack_chunk = KernelWork(signs + 4.0 * 4.0 * chunk, 0.0, 4.0)
        return Reduction(
            (
                Round(pack, (Leg(CollectiveKind.ALL_TO_ALL, signs),)),
                Round(pack_chunk, (Leg(CollectiveKind.ALL_GATHER, signs),)),
            ),
            KernelWork(signs + dense_bytes, 0.0, 1.0),
        )

    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """The rank's own error, and that of the chunk which it sums."""
        return bundle.parameters * 4.0 * (1.0 + 1.0 / peers.ranks)


# Factors travel in 32 bits, as the paper's and PyTorch's do under 32-bit gradients.
_FACTOR_BYTES = 4.0


@compressions.register("powersgd")
@dataclass(frozen=True)
class PowerSgd(Compression):
    """PowerSGD: low-rank factors of each gradient matrix, by one power iteration a step, with error feedback.

    A gradient M of n x m becomes P = M Q, summed over ranks and made orthogonal, then Q = M' P, summed again: r (n + m)
    numbers cross the network for n m. Vectors travel as they are. Both sums are all-reduces, so the bytes do not grow
    with the ranks.

    Attributes:
        rank: Rank r of the factors.
    """

    kind: ClassVar[str] = "powersgd"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "test accuracy 93.6 % at rank 1, 94.4 % at rank 2, 94.5 % at rank 4, against 94.3 % uncompressed",
            "ResNet-18 on CIFAR-10, 16 workers",
            "Vogels et al. 2019, arXiv 1905.13727",
        ),
        Finding(
            "perplexity 102 at rank 1, 93 at rank 2, 91 at rank 4, against 91 uncompressed",
            "LSTM of 3 layers on WikiText-2, 16 workers",
            "Vogels et al. 2019, arXiv 1905.13727",
        ),
        Finding(
            "no range is published for pre-training of models of billions of parameters with these ranks",
            "all larger models",
            "none found",
        ),
    )

    rank: int = field(default=32, metadata=bounded(limits(1, 65_536)))

    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """Two rounds: P with the vectors, then Q; matrices that factors would not make smaller travel as they are."""
        del peers
        left, right, flops, plain_bytes, count = self._factors(bundle)
        raw = (bundle.in_vectors + plain_bytes) * bundle.gradient_bytes
        gradient = (bundle.in_matrices - plain_bytes) * bundle.gradient_bytes
        # Error feedback: the error is added to the gradient in the buffer, and left there by the last product.
        feedback = 3.0 * gradient
        first = KernelWork(feedback + gradient + (left + right) * _FACTOR_BYTES, flops, 2.0 * count)
        # Gram-Schmidt makes r columns orthogonal one after another; each passes over what is left of P.
        turned = KernelWork(left * _FACTOR_BYTES * (self.rank + 1.0), 2.0 * left * self.rank, 2.0 * self.rank)
        second = turned + KernelWork(gradient + (left + right) * _FACTOR_BYTES, flops, count)
        after = KernelWork(2.0 * gradient + (left + right) * _FACTOR_BYTES + raw, flops, 2.0 * count)
        return Reduction(
            (
                Round(first, (Leg(CollectiveKind.ALL_REDUCE, left * _FACTOR_BYTES + raw),)),
                Round(second, (Leg(CollectiveKind.ALL_REDUCE, right * _FACTOR_BYTES),)),
            ),
            after,
        )

    def _factors(self, bundle: Bundle) -> tuple[float, float, float, float, float]:
        """Numbers in P and in Q, FLOPs of one product, numbers in matrices left whole, matrices that are factored."""
        left = right = flops = plain_bytes = count = 0.0
        for m in bundle.matrices:
            size = m.rows * m.columns
            if self.rank * (m.rows + m.columns) >= size:
                plain_bytes += m.count * size
                continue
            left += m.count * self.rank * m.rows
            right += m.count * self.rank * m.columns
            flops += m.count * 2.0 * size * self.rank
            count += m.count
        share = bundle.share
        return left * share, right * share, flops * share, plain_bytes * share, count * share

    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """The error of each matrix, and last step's Q."""
        del peers
        _, right, _, plain_bytes, _ = self._factors(bundle)
        return (bundle.in_matrices - plain_bytes) * bundle.gradient_bytes + right * _FACTOR_BYTES


_WIDTHS = (2, 4, 8, 16)
# One 32-bit scale a block.
_SCALE_BITS = 32.0


def share_of(bits: float, block: int) -> float:
    """Bytes per number sent: its bits and its part of the block's scale."""
    return (bits + (_SCALE_BITS / block if bits < 16 else 0.0)) / 8.0


@dataclass(frozen=True)
class _Blocks(Compression):
    """Common part: gradients by all-to-all in few bits, parameters gathered in few bits."""

    gradient_bits: int = field(default=8, metadata=bounded(WIDTHS))
    parameter_bits: int = field(default=16, metadata=bounded(WIDTHS))
    block: int = field(default=256, metadata=bounded(limits(1, 2**31 - 1)))
    hierarchical: bool = True
    secondary: bool = False

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        found = super().problems()
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
        """Share of 16 bits that gathered parameters take."""
        return share_of(self.parameter_bits, self.block) / 2.0

    @property
    def second_copy(self) -> bool:
        """Whether backward gathers inside the domain."""
        return self.secondary


@compressions.register("quantized")
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


@compressions.register("zero++")
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


_INDEX_BYTES = 4.0


@compressions.register("top-k")
@dataclass(frozen=True)
class TopK(Compression):
    """Top-k: the largest share of the gradients as values and indices, the rest kept for later steps.

    Ranks choose different elements, so what they send is gathered, not summed: the bytes that a rank receives grow
    with the ranks.

    Attributes:
        density: Share of the gradients that is sent.
    """

    kind: ClassVar[str] = "top-k"
    published: ClassVar[tuple[Finding, ...]] = (
        Finding(
            "no loss of accuracy at a density of 0.1 %, with momentum correction, clipping, masking and warm-up",
            "ResNet-50 on ImageNet, DeepSpeech on LibriSpeech, up to 64 workers; 270 to 600 times fewer bytes",
            "Lin et al. 2018 (Deep Gradient Compression), arXiv 1712.01887, abstract",
        ),
        Finding(
            "no range is published for pre-training of models of billions of parameters at such densities",
            "all larger models",
            "none found",
        ),
    )

    density: float = field(default=0.001, metadata=bounded(SOME_SHARE))
    value_bytes: int = field(default=4, metadata=bounded(SIZE.within("1 B", "4 B")))

    def problems(self) -> list[tuple[str, str, str, str]]:
        """What is wrong with the values."""
        if self.value_bytes in (1, 2, 4):
            return super().problems()
        return [("a value has 1, 2 or 4 bytes", "value", str(self.value_bytes), "1 B, 2 B or 4 B")]

    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """One all-gather of values and indices.

        Selection estimates a threshold on a sample and compacts what lies above it (Deep Gradient Compression, section
        3): one pass adds the error, one compares, one writes what is left. Decoding adds every rank's values one by
        one, each to its own line of memory (32 bytes).
        """
        chosen = bundle.parameters * self.density
        each = chosen * (self.value_bytes + _INDEX_BYTES)
        gradient = bundle.parameters * bundle.gradient_bytes
        select = KernelWork(5.0 * gradient + each, 0.0, 6.0)
        add = KernelWork(gradient + peers.ranks * (each + 2.0 * 32.0 * chosen), 0.0, 1.0 + peers.ranks)
        gathered = Leg(CollectiveKind.ALL_GATHER, peers.ranks * each)
        return Reduction((Round(select, (gathered,)),), add)

    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """What was not sent yet, and the momentum that corrects it: the error alone where momentum is the optimizer's.

        The buffer that takes what all ranks sent counts too.
        """
        sent = bundle.parameters * self.density * (self.value_bytes + _INDEX_BYTES) * peers.ranks
        return bundle.parameters * bundle.gradient_bytes + sent
