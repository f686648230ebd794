"""State that a job keeps in the cluster's memory pool instead of the accelerators' own memory.

The update needs all of it once a step, and it does not fit: it comes and goes in parts. Each part is loaded, updated on
the accelerator and stored again. With overlap there are three buffers on the accelerator, so that one part is loaded
and another stored while a third is updated. The last three are stored, and the first three loaded in their place, while
the next step computes; in a run of equal steps each begins with that. Without overlap there is one buffer, and parts
follow one another behind the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from railyard.kit.schema.bounds import bounded, limits

MASTER_BYTES = 4
"""Of a parameter in 32 bits, which mixed-precision training updates."""
_BUFFERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """State kept in the cluster's memory pool, loaded for each update and stored again.

    Attributes:
        state: `optimizer`: master parameters and moments; under ZeRO 3, where the master parameters are the
            parameters, the moments alone.
        parts: Parts in which it comes and goes; three of them (without overlap one) stay on the accelerator as buffers.
        overlap: The next part is loaded and the last one stored while one is updated, and the three that have buffers
            change while the step computes; else each is loaded, updated and stored by turns.
    """

    state: Literal["optimizer"] = "optimizer"
    parts: int = field(default=8, metadata=bounded(limits(1, 10_000)))
    overlap: bool = True

    @property
    def buffers(self) -> int:
        """Parts that have room on the accelerator."""
        return min(self.parts, _BUFFERS) if self.overlap else 1

    @property
    def resident(self) -> float:
        """Share of the state that takes up memory of the accelerator."""
        return self.buffers / self.parts

    @property
    def moved(self) -> int:
        """Parts that are loaded or stored behind the computations of a step."""
        return 2 * (self.parts - (self.buffers if self.overlap else 0))

    def update_s(self, load_s: float, update_s: float, store_s: float, compute_s: float) -> float:
        """How long the update of a step takes behind its computations.

        Args:
            load_s: To load a part.
            update_s: To update it.
            store_s: To store it.
            compute_s: Of the computations, under which the buffers change.
        """
        if not self.overlap:
            return self.parts * (load_s + update_s + store_s)
        # When the buffers are free; time begins behind the computations.
        free = [(part + 1) * store_s - compute_s for part in range(self.buffers)]
        loaded, updated = -compute_s, 0.0
        for part in range(self.parts):
            loaded = max(loaded, free[part]) + load_s
            updated = max(updated, loaded) + update_s
            free.append(max(updated, free[-1]) + store_s)
        return updated
