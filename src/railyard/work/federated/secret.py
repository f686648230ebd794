"""What secure aggregation costs a client and the server: bytes, stages that all wait for, and computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem

KEY_BITS = 256.0
"""Of a public key: Curve25519."""
SHARE_BITS = 256.0
"""Of one share of a secret (Bonawitz et al. 2017, section 7.2)."""
AGREE_FLOP = 2e5
"""A key agreement on Curve25519 in operations: about 60 us on a core of 3 GHz."""
STREAM_FLOP_PER_BYTE = 3.0
"""Expanding a seed to a mask with AES in hardware: about three operations a byte."""


@dataclass(frozen=True)
class Stage:
    """Messages of a stage, after which the server waits for all clients.

    Attributes:
        up_bytes: From a client.
        down_bytes: To a client.
        flop: That a client computes.
    """

    up_bytes: float
    down_bytes: float
    flop: float


class Secrecy(Protocol):
    """A protocol of secure aggregation; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        source: The paper.
    """

    kind: ClassVar[str]
    source: ClassVar[str]

    def partners(self, clients: int) -> int:
        """With how many others each client shares secrets."""

    def value_bits(self, clients: int, bits: float) -> float:
        """Of a number of a masked update, so that the sum over all clients fits."""

    def before(self, clients: int) -> tuple[Stage, ...]:
        """Stages before the masked update is sent."""

    def after(self, clients: int) -> tuple[Stage, ...]:
        """Stages behind it."""

    def mask_bytes(self, clients: int, masked_bytes: float) -> float:
        """Bytes of masks that a client makes."""

    def unmask_bytes(self, clients: int, dropped: float, masked_bytes: float) -> float:
        """Bytes of masks that the server makes: a client's own for all who stayed, pairwise ones for who left."""

    def threshold(self, clients: int) -> float:
        """Share of the clients that must stay."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""


secrecies: Registry[type[Secrecy]] = Registry("secure aggregation", package="railyard.work.federated.secrecy")


def stages(partners: int) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """Stages before and behind the masked update of the protocol of Bonawitz et al., with so many partners.

    Stage 0 sends two public keys and gets all partners'; stage 1 sends two encrypted shares to each partner and gets as
    many; stage 3 sends one share a partner and one of its own: 2 n keys and (5 n - 4) shares in all, as section 7.2
    counts with n - 1 partners.
    """
    keys = Stage(2.0 * KEY_BITS / 8.0, 2.0 * partners * KEY_BITS / 8.0, 2.0 * AGREE_FLOP)
    shares = 2.0 * partners * SHARE_BITS / 8.0
    sharing = Stage(shares, shares, (2.0 * partners + partners**2 * 2.0) * 50.0 + 2.0 * partners * AGREE_FLOP)
    reveal = Stage((partners + 1) * SHARE_BITS / 8.0, 0.0, partners * 50.0)
    return (keys, sharing), (reveal,)
