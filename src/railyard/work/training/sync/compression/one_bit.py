"""1-bit Adam and 1-bit LAMB: signs of the momentum (Tang et al. 2021, arXiv 2102.02888; Li et al. 2022, 2104.06069)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.graph import CollectiveKind
from railyard.kit.schema.bounds import Bounds, bounded
from railyard.work.training.sync.compression.scheme import compressions
from railyard.work.training.sync.published import Finding
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction, Round

if TYPE_CHECKING:
    from railyard.work.training.sync.wire import Bundle, Peers


@dataclass(frozen=True)
class OneBit:
    """1-bit Adam and 1-bit LAMB: the sign of every momentum and one scale a tensor, with error feedback at both ends.

    The step that is run is one of the compressed stage. Before it, while the variance settles, the job sends whole
    gradients in `warmup` of its steps, so that it sends `1 / (w + (1 - w) / 16)` times fewer bytes than in 16 bits.

    Attributes:
        warmup: Share of the job's steps that send whole gradients; stated beside the result, not mixed into the step.
    """

    kind: ClassVar[str] = "one-bit"
    stages: ClassVar[tuple[int, ...]] = (0, 1)
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

    def volume_reduction(self, bits: float = 16.0) -> float:
        """How many times fewer bytes a whole job sends than with gradients of `bits` bits."""
        return 1.0 / (self.warmup + (1.0 - self.warmup) / bits)

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

    @property
    def parameter_share(self) -> float:
        """Parameters are gathered as they are."""
        return 1.0

    @property
    def second_copy(self) -> bool:
        """No."""
        return False


compressions.add(OneBit.kind, OneBit)
