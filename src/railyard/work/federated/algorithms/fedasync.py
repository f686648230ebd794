"""FedAsync: the server steps on every update that comes (Xie, Koyejo, Gupta 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railyard.work.federated.algorithm import Plain, algorithms


@dataclass(frozen=True)
class FedAsync(Plain):
    """FedAsync: the server steps on every update that comes, however old; nobody waits for anybody."""

    kind: ClassVar[str] = "fedasync"
    source: ClassVar[str] = "Xie, Koyejo, Gupta 2019, arXiv 1903.03934"

    @property
    def buffer(self) -> int:
        """One update a step."""
        return 1


algorithms.add(FedAsync.kind, FedAsync)
