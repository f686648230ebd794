"""Transfer of updates: compression, and protocols of secure aggregation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import COUNTED, SOME_SHARE, WIDTHS, CheckedRecord, bounded, limits, more_than

_SCALE_BITS = 32.0


class UpdateCompression(CheckedRecord, ABC):
    """A compression of uploaded updates; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        source: The paper.
        sums: Whether compressed updates can be added, which secure aggregation requires.
        error_feedback: Whether the part that was not sent is added to the next update.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    sums: ClassVar[bool] = False
    error_feedback: bool

    @abstractmethod
    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Bytes of an update with this many numbers of this width."""

    @abstractmethod
    def operations(self, parameters: float) -> float:
        """FLOP to encode an update."""


compressions: Registry[type[UpdateCompression]] = Registry("compression of updates")


@compressions.register("low-rank")
@dataclass(frozen=True)
class LowRank(UpdateCompression):
    """Low rank: each square matrix of a width as the product of two thin ones.

    Attributes:
        width: Rows and columns of the model's matrices.
        error_feedback: Keeps the residual for the next update.
    """

    kind: ClassVar[str] = "low-rank"
    source: ClassVar[str] = "Vogels, Karimireddy, Jaggi 2019 (PowerSGD), arXiv 1905.13727"

    rank: int = field(default=4, metadata=bounded(limits(1, 65_536)))
    width: int = field(default=512, metadata=bounded(COUNTED))
    error_feedback: bool = True

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Bytes of two thin matrices in place of a square one."""
        return parameters * min(2.0 * self.rank / self.width, 1.0) * bits / 8.0

    def operations(self, parameters: float) -> float:
        """Two products with a thin matrix, and the residual."""
        return parameters * (4.0 * self.rank + (2.0 * self.rank + 1.0 if self.error_feedback else 0.0))

    def problems(self) -> list[tuple[str, str, str, str]]:
        """Values out of range, and a rank larger than the matrices."""
        if self.rank <= self.width:
            return super().problems()
        return [("a rank is no larger than the matrix", "rank", str(self.rank), f"1 to {self.width}")]


@compressions.register("quantized")
@dataclass(frozen=True)
class QuantizedUpdate(UpdateCompression):
    """Quantized: every number in few bits, and a 32-bit scale per block.

    Attributes:
        block: Numbers that share a scale.
        error_feedback: Keeps the rounding error for the next update.
    """

    kind: ClassVar[str] = "quantized"
    source: ClassVar[str] = "Alistarh et al. 2017 (QSGD), arXiv 1610.02132"
    sums: ClassVar[bool] = True

    value_bits: int = field(default=8, metadata=bounded(WIDTHS))
    block: int = field(default=1024, metadata=bounded(COUNTED))
    error_feedback: bool = False

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Bytes of numbers and scales; never more than uncompressed."""
        coded = parameters * self.value_bits + math.ceil(parameters / self.block) * _SCALE_BITS
        return min(coded, parameters * bits) / 8.0

    def operations(self, parameters: float) -> float:
        """Maximum of a block, scale, round, and add the residual."""
        return parameters * (4.0 if self.error_feedback else 3.0)


@compressions.register("top-k")
@dataclass(frozen=True)
class TopKUpdate(UpdateCompression):
    """Top-k: the largest share of an update, each value with its index, or with a bitmap if that is smaller.

    Attributes:
        density: Share of the numbers that is sent.
        error_feedback: Keeps what was not sent for the next update.
    """

    kind: ClassVar[str] = "top-k"
    source: ClassVar[str] = "Aji, Heafield 2017, arXiv 1704.05021; Sattler et al. 2019, arXiv 1903.02891"

    density: float = field(default=0.01, metadata=bounded(SOME_SHARE))
    error_feedback: bool = True

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Bytes of values, and the smaller of indices and a bitmap."""
        chosen = math.ceil(parameters * self.density)
        where = min(chosen * math.ceil(math.log2(max(parameters, 2.0))), parameters)
        return (chosen * bits + where) / 8.0

    def operations(self, parameters: float) -> float:
        """A pass that selects, and one that adds the residual."""
        return parameters * (3.0 if self.error_feedback else 2.0)


KEY_BITS = 256.0
"""Bits of a public key: Curve25519."""
SHARE_BITS = 256.0
"""Bits of one share of a secret (Bonawitz et al. 2017, section 7.2)."""
AGREE_FLOP = 2e5
"""A key agreement on Curve25519 in operations: about 60 us on a core of 3 GHz."""
STREAM_FLOP_PER_BYTE = 3.0
"""Expanding a seed to a mask with AES in hardware: about three operations per byte."""


@dataclass(frozen=True)
class SecrecyStage:
    """Messages of a stage, after which the server waits for all clients."""

    up_bytes: float
    down_bytes: float
    flop: float


secrecies: Registry[type[SecAgg]] = Registry("secure aggregation")


@secrecies.register("secagg")
@dataclass(frozen=True)
class SecAgg(CheckedRecord):
    """SecAgg: every two clients share a mask, and shares of it with all others in case one leaves.

    Attributes:
        threshold_share: Share of the clients that must stay for the sum to be unmasked.
    """

    kind: ClassVar[str] = "secagg"
    source: ClassVar[str] = "Bonawitz et al. 2017, ePrint 2017/281, section 7.2"

    threshold_share: float = field(default=2.0 / 3.0, metadata=bounded(more_than(0.5, 1.0)))

    def partners(self, clients: int) -> int:
        """Number of other clients that each client shares secrets with: all of them."""
        return clients - 1

    def value_bits(self, clients: int, bits: float) -> float:
        """Bits per number of a masked update, so that the sum over all clients fits."""
        return bits + math.ceil(math.log2(max(clients, 1)))

    def before(self, clients: int) -> tuple[SecrecyStage, ...]:
        """Stages before the masked update is sent: keys, then shares.

        Stage 0 sends two public keys and gets all partners'; stage 1 sends two encrypted shares to each partner and
        gets as many; `after` sends one share a partner and one of its own: 2 n keys and (5 n - 4) shares in all, as
        section 7.2 counts with n - 1 partners.
        """
        partners = self.partners(clients)
        keys = SecrecyStage(2.0 * KEY_BITS / 8.0, 2.0 * partners * KEY_BITS / 8.0, 2.0 * AGREE_FLOP)
        shares = 2.0 * partners * SHARE_BITS / 8.0
        flop = (2.0 * partners + partners**2 * 2.0) * 50.0 + 2.0 * partners * AGREE_FLOP
        return keys, SecrecyStage(shares, shares, flop)

    def after(self, clients: int) -> tuple[SecrecyStage, ...]:
        """Stages after it: the shares of clients that left, and of the masks of those that stayed."""
        partners = self.partners(clients)
        return (SecrecyStage((partners + 1) * SHARE_BITS / 8.0, 0.0, partners * 50.0),)

    def mask_bytes(self, clients: int, masked_bytes: float) -> float:
        """Bytes of masks that a client makes: one per partner, and its own."""
        return (self.partners(clients) + 1) * masked_bytes

    def unmask_bytes(self, clients: int, dropped: float, masked_bytes: float) -> float:
        """Bytes of masks that the server makes: own masks of clients that stayed, pairwise ones of those that left."""
        return (clients - dropped + dropped * self.partners(clients)) * masked_bytes


@secrecies.register("secagg-plus")
@dataclass(frozen=True)
class SecAggPlus(SecAgg):
    """SecAgg+: SecAgg on a random graph in which each client has few neighbours.

    Attributes:
        neighbours: Of each client; 0 takes what grows as the paper's bound does: 20 times the logarithm to base 10 of
            the clients, which is 100 for 100,000 clients (its example of figure 3).
    """

    kind: ClassVar[str] = "secagg-plus"
    source: ClassVar[str] = "Bell et al. 2020, ePrint 2020/704"

    neighbours: int = field(default=0, metadata=bounded(limits(0, 2**31 - 1)))

    def partners(self, clients: int) -> int:
        """Number of neighbours of a client in the graph."""
        wanted = self.neighbours or math.ceil(20.0 * math.log10(max(clients, 2)))
        return min(wanted, clients - 1)
