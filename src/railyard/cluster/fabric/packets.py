"""What a fabric is packet by packet: constants of mechanisms by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Packets:
    """A fabric as a composition of the packet engine's mechanisms.

    Attributes:
        constants: Constants of mechanisms that differ from their defaults, by name (see `railyard.engine.packet`).
        tree: The same for `railyard packet`, whose default network has no cluster that gives them: rates and latencies
            of links, how a file counts time, a faster inside.
        sources: Where the constants stand.
        left_out: What the fabric has and its packets have not.
    """

    constants: Mapping[str, Any]
    tree: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    sources: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def with_constants(
        self, *, sources: tuple[str, ...] | None = None, left_out: tuple[str, ...] | None = None, **constants: Any
    ) -> Packets:
        """A copy with other constants, and with sources and gaps where these are given."""
        return replace(
            self,
            constants={**self.constants, **constants},
            sources=self.sources if sources is None else sources,
            left_out=self.left_out if left_out is None else left_out,
        )
