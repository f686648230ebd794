"""FedAvg: local epochs of SGD, and the mean of what came back (McMahan et al., AISTATS 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from railyard.work.federated.algorithm import Plain, algorithms


@dataclass(frozen=True)
class FedAvg(Plain):
    """FedAvg: local epochs of SGD, and the mean of what came back."""

    kind: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al. 2017, arXiv 1602.05629"


algorithms.add(FedAvg.kind, FedAvg)
