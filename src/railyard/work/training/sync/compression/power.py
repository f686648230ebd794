"""PowerSGD: two thin factors of each matrix are summed in its place (Vogels et al. 2019, arXiv 1905.13727)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.graph import CollectiveKind
from railyard.kit.schema.bounds import bounded, limits
from railyard.work.training.sync.compression.scheme import compressions
from railyard.work.training.sync.published import Finding
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction, Round

if TYPE_CHECKING:
    from railyard.work.training.sync.wire import Bundle, Peers

# Factors travel in 32 bits, as the paper's and PyTorch's do under 32-bit gradients.
_FACTOR_BYTES = 4.0


@dataclass(frozen=True)
class PowerSgd:
    """PowerSGD: low-rank factors of each gradient matrix, by one power iteration a step, with error feedback.

    A gradient M of n x m becomes P = M Q, summed over ranks and made orthogonal, then Q = M' P, summed again: r (n + m)
    numbers cross the network for n m. Vectors travel as they are. Both sums are all-reduces, so the bytes do not grow
    with the ranks.

    Attributes:
        rank: Rank r of the factors.
    """

    kind: ClassVar[str] = "powersgd"
    stages: ClassVar[tuple[int, ...]] = (0, 1)
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

    @property
    def parameter_share(self) -> float:
        """Parameters are gathered as they are."""
        return 1.0

    @property
    def second_copy(self) -> bool:
        """No."""
        return False


compressions.add(PowerSgd.kind, PowerSgd)
