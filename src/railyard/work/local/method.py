"""Ways for sites to train together, by when they meet and whom they wait for."""

from __future__ import annotations

from typing import ClassVar

from railyard.kit.registry import Registry
from railyard.work.training.sync.local import DiLoCo, LocalSgd, LocalUpdates, StreamingDiLoCo

methods: Registry[type[LocalUpdates]] = Registry("way of training on sites", package="railyard.work.local.methods")
"""Records of `LocalUpdates`; `meets`, where one has it, says with whom a site exchanges: `all` (a ring, everybody
waits), `server` (one place, nobody waits), `pairs` (one other at a time, nobody waits), `present` (those there)."""


class Apart:
    """A method that keeps nothing besides what the inner optimizer keeps, and sends all parameters at once."""

    meets: ClassVar[str] = "all"

    @property
    def workers(self) -> int:
        """Sites are the workers."""
        return 0

    @property
    def fragments(self) -> int:
        """All parameters at once."""
        return 1

    @property
    def overlap_steps(self) -> float:
        """Steps under which they may be sent."""
        return 0.0

    @property
    def state_bytes(self) -> float:
        """Nothing."""
        return 0.0

    @property
    def update_bytes(self) -> float:
        """The average is read and written, in 32 and in 16 bits."""
        return 10.0


def meets(method: LocalUpdates) -> str:
    """With whom a site of the method exchanges."""
    return str(getattr(method, "meets", "all"))


for _record in (DiLoCo, LocalSgd, StreamingDiLoCo):
    methods.add(_record.kind, _record)
