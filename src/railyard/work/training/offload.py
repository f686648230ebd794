"""State that a job keeps in the cluster's memory pool instead of accelerator memory.

The update needs all of it once a step, and it does not fit: it comes and goes in parts. Each part is loaded, updated on
the accelerator and stored again. With overlap there are three buffers on the accelerator, so that one part is loaded
and another stored while a third is updated. The last three are stored, and the first three loaded in their place, while
the next step computes; in a run of equal steps each begins with that. Without overlap there is one buffer, and parts
follow one another behind the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from railyard.kit.schema.quantity import bounded, limits

MASTER_BYTES = 4
"""Bytes of a parameter's 32-bit master copy in mixed-precision training."""
_BUFFERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """State kept in the cluster's memory pool, loaded for each update and stored again.

    Attributes:
        state: `optimizer`: master parameters and moments; under ZeRO 3, where the master parameters are the
            parameters, the moments alone.
        parts: Parts in which it is moved; three of them (one without overlap) stay on the accelerator as buffers.
        overlap: Whether the next part is loaded and the last one stored while one is updated, and the three buffered
            parts are
            exchanged while the step computes; otherwise each is loaded, updated and stored in sequence.
    """

    state: Literal["optimizer"] = "optimizer"
    parts: int = field(default=8, metadata=bounded(limits(1, 10_000)))
    overlap: bool = True

    @property
    def buffers(self) -> int:
        """Parts with a buffer on the accelerator."""
        return min(self.parts, _BUFFERS) if self.overlap else 1

    @property
    def resident(self) -> float:
        """Share of the state in accelerator memory."""
        return self.buffers / self.parts

    @property
    def moved(self) -> int:
        """Parts that are loaded or stored after the computations of a step."""
        return 2 * (self.parts - (self.buffers if self.overlap else 0))

    def update_s(self, load_s: float, update_s: float, store_s: float, compute_s: float) -> float:
        """Time of a step's update after its computations.

        Args:
            load_s: To load a part.
            update_s: To update it.
            store_s: To store it.
            compute_s: Time of the computations, during which the buffers are exchanged.
        """
        if not self.overlap:
            return self.parts * (load_s + update_s + store_s)
        # Times at which buffers become free, counted from the end of the computations.
        free = [(part + 1) * store_s - compute_s for part in range(self.buffers)]
        loaded, updated = -compute_s, 0.0
        for part in range(self.parts):
            loaded = max(loaded, free[part]) + load_s
            updated = max(updated, loaded) + update_s
            free.append(max(updated, free[-1]) + store_s)
        return updated
