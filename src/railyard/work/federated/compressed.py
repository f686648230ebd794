"""What a compression of updates is: bytes of what is sent, passes over the model, and what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.work.federated.algorithm import Problem


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
