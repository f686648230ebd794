"""What a compression says of itself, and where new ones register."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from railyard.work.training.sync.published import Finding
    from railyard.work.training.sync.wire import Bundle, Peers, Reduction


class Compression(Protocol):
    """A way of sending fewer bytes for a gradient; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        kind: Its name.
        stages: ZeRO stages under which it works.
        published: What its papers report about convergence.
    """

    kind: ClassVar[str]
    stages: ClassVar[tuple[int, ...]]
    published: ClassVar[tuple[Finding, ...]]

    def reduction(self, bundle: Bundle, peers: Peers) -> Reduction:
        """What one reduction sends and computes."""

    def state_bytes(self, bundle: Bundle, peers: Peers) -> float:
        """Bytes that a rank keeps from step to step for these gradients."""

    @property
    def parameter_share(self) -> float:
        """Bytes of a gathered parameter as sent, over those of 16 bits."""

    @property
    def second_copy(self) -> bool:
        """Every scale-up domain keeps all parameters, so that backward gathers them inside (hpZ)."""


compressions: Registry[type[Compression]] = Registry("compression")
