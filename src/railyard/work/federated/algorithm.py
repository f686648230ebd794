"""What an algorithm of federated learning is: how often a model goes each way, and when the server steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Candidates:
    """Clients that are there, drawn uniformly.

    Attributes:
        expected_s: float64[candidates], what each took when all was as usual for it: its own device and data, its link
            without what passes.
        samples: float64[candidates], training samples.
        device: int64[candidates], class of its device.
        wanted: How many take part.
        deadline_s: Of the round; inf without.
    """

    expected_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    device: NDArray[np.intp]
    wanted: int
    deadline_s: float


class Selection(Protocol):
    """A policy; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        source: The paper, or the practice.
        by_time: Whether it looks at what candidates are expected to take.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    by_time: ClassVar[bool]

    @property
    def pool(self) -> float:
        """Candidates that are drawn for each participant."""

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """Rows of those who take part, at most as many as wanted."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""


selections: Registry[type[Selection]] = Registry("selection of clients", package="railyard.work.federated.selection")


class Compression(Protocol):
    """A compression of updates on their way up; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        source: The paper.
        sums: Whether updates can be added as they are sent: secure aggregation asks for that.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    sums: ClassVar[bool]

    @property
    def error_feedback(self) -> bool:
        """Whether what was not sent is kept and added to the next update."""

    def sent_bytes(self, parameters: float, bits: float) -> float:
        """Of an update with so many numbers of so many bits."""

    def operations(self, parameters: float) -> float:
        """FLOP to encode an update."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""


compressions: Registry[type[Compression]] = Registry(
    "compression of updates", package="railyard.work.federated.compression"
)


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


Problem = tuple[str, str, str, str]
"""What is wrong with a value: message, key, found, allowed."""


class Algorithm(Protocol):
    """A way of federated learning; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        source: The paper whose messages it sends.
    """

    kind: ClassVar[str]
    source: ClassVar[str]

    @property
    def models_down(self) -> float:
        """Model-sized messages to a participant."""

    @property
    def models_up(self) -> float:
        """Model-sized messages from a participant."""

    @property
    def compute(self) -> float:
        """Local computation over that of plain SGD."""

    @property
    def copies(self) -> float:
        """Model-sized tensors that a client keeps besides parameters, gradients and optimizer."""

    @property
    def buffer(self) -> int:
        """Updates after which a server steps that waits for nobody; 0: it waits for its round."""

    @property
    def edge_rounds(self) -> int:
        """Rounds at edge servers between two exchanges with the cloud; 0: clients talk to the cloud."""

    @property
    def cut_bytes(self) -> float:
        """Of the activations of a sample that cross to the server and the gradients that come back; 0: nothing does."""

    @property
    def client_share(self) -> float:
        """Of the model (parameters and computation) that is at the client."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""


algorithms: Registry[type[Algorithm]] = Registry("federated algorithm", package="railyard.work.federated.algorithms")


class Plain:
    """One model each way, a round at a time: what algorithms are where they say nothing else."""

    @property
    def models_down(self) -> float:
        """The model."""
        return 1.0

    @property
    def models_up(self) -> float:
        """The update."""
        return 1.0

    @property
    def compute(self) -> float:
        """As plain SGD."""
        return 1.0

    @property
    def copies(self) -> float:
        """None."""
        return 0.0

    @property
    def buffer(self) -> int:
        """The server waits for its round."""
        return 0

    @property
    def edge_rounds(self) -> int:
        """Clients talk to the cloud."""
        return 0

    @property
    def cut_bytes(self) -> float:
        """The model is not cut."""
        return 0.0

    @property
    def client_share(self) -> float:
        """All of the model."""
        return 1.0

    def problems(self) -> list[Problem]:
        """Nothing can be wrong."""
        return []
