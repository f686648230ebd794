"""Top-k with error feedback: each rank sends its largest gradients (Lin et al. 2018, arXiv 1712.01887)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from railyard.graph import CollectiveKind
from railyard.kit.schema.bounds import SOME_SHARE, bounded
from railyard.kit.schema.quantity import SIZE
from railyard.work.training.sync.compression.scheme import compressions
from railyard.work.training.sync.published import Finding
from railyard.work.training.sync.wire import KernelWork, Leg, Reduction, Round

if TYPE_CHECKING:
    from railyard.work.training.sync.wire import Bundle, Peers

_INDEX_BYTES = 4.0


@dataclass(frozen=True)
class TopK:
    """Top-k: the largest share of the gradients as values and indices, the rest kept for later steps.

    Ranks choose different elements, so what they send is gathered, not summed: the bytes that a rank receives grow
    with the ranks.

    Attributes:
        density: Share of the gradients that is sent.
        value_bytes: Of a value as sent.
    """

    kind: ClassVar[str] = "top-k"
    stages: ClassVar[tuple[int, ...]] = (0, 1)
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
        wrong = self.value_bytes not in (1, 2, 4)
        return [("a value has 1, 2 or 4 bytes", "value", str(self.value_bytes), "1 B, 2 B or 4 B")] if wrong else []

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

    @property
    def parameter_share(self) -> float:
        """Parameters are gathered as they are."""
        return 1.0

    @property
    def second_copy(self) -> bool:
        """No."""
        return False


compressions.add(TopK.kind, TopK)
