"""Differential privacy as computation and bytes: clipping and noise; what it does to the loss is not computed."""

from __future__ import annotations

from dataclasses import dataclass

CLIP_FLOP = 4.0
"""A number: its square to the norm, and its scale."""
NOISE_FLOP = 40.0
"""A normal number by Box and Muller: a logarithm, a root, a cosine."""


@dataclass(frozen=True)
class Privacy:
    """Noise on updates.

    Attributes:
        place: `server` adds it to the sum (central), `client` each to its update (distributed).
        noise: Standard deviation over the clipping norm, of the sum.
        extra_bits: Of a number as sent, for the range that noise adds to a masked integer.
    """

    place: str = "server"
    noise: float = 1.0
    extra_bits: int = 0

    @property
    def client_flop(self) -> float:
        """Operations of a client for each number."""
        return CLIP_FLOP + (NOISE_FLOP if self.place == "client" else 0.0)

    @property
    def server_flop(self) -> float:
        """Operations of the server for each number of the sum."""
        return NOISE_FLOP if self.place == "server" else 0.0
