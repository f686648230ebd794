"""What the size of a collective means: bytes of a rank, of a pair of ranks, and of all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFINITIONS = {
    "all-gather": "bytes that each rank has in the end; it brings 1/N of them, which every other rank gets",
    "reduce-scatter": "bytes that each rank brings; it keeps the sum of 1/N of them",
    "all-reduce": "bytes that each rank brings, and has the sum of in the end",
    "all-to-all": "bytes that each rank sends, its own part included; each pair of ranks has 1/N of them",
}
"""Of N ranks, as nccl-tests counts: the larger of the buffers that a rank has."""
UNEVEN = "bytes of all pairs together, as the matrix has them; a pair is the heaviest"


@dataclass(frozen=True)
class SizeMeaning:
    """A size, and what it is for a pair and for all ranks.

    Attributes:
        bytes: As it is given.
        definition: What it counts.
        ranks: That take part.
        per_pair_bytes: Of it, what a rank has for (or gets from) each other rank.
        total_bytes: What all ranks bring together.
    """

    bytes: float
    definition: str
    ranks: int
    per_pair_bytes: float
    total_bytes: float

    @classmethod
    def of(cls, collective: str, size_bytes: float, ranks: int) -> SizeMeaning:
        """Of a size of a rank."""
        total = size_bytes * (1 if collective == "all-gather" else ranks)
        return cls(size_bytes, DEFINITIONS[collective], ranks, size_bytes / ranks, total)

    @classmethod
    def of_matrix(cls, matrix: NDArray[np.float64]) -> SizeMeaning:
        """Of bytes from rank to rank."""
        total = float(matrix.sum())
        return cls(total, UNEVEN, len(matrix), float(matrix.max()), total)
