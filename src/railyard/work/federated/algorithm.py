"""What an algorithm of federated learning is: how often a model goes each way, and when the server steps."""

from __future__ import annotations

from typing import ClassVar, Protocol

from railyard.kit.registry import Registry

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
