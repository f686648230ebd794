"""SCAFFOLD: control variates against drift, which travel beside the model (Karimireddy et al., ICML 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railyard.work.federated.algorithm import Plain, algorithms


@dataclass(frozen=True)
class Scaffold(Plain):
    """SCAFFOLD: control variates against drift travel beside the model, so that twice the bytes go each way."""

    kind: ClassVar[str] = "scaffold"
    source: ClassVar[str] = "Karimireddy et al. 2020, arXiv 1910.06378, algorithm 1"

    @property
    def models_down(self) -> float:
        """The model and the server's control variate."""
        return 2.0

    @property
    def models_up(self) -> float:
        """The update and the change of the client's control variate."""
        return 2.0

    @property
    def copies(self) -> float:
        """The client's and the server's control variates."""
        return 2.0


algorithms.add(Scaffold.kind, Scaffold)
