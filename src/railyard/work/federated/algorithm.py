"""Federated learning algorithms: model transfers, when the server steps, and client selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from railyard.kit.registry import Registry
from railyard.kit.schema.quantity import COUNTED, RATE, SIZE, SOME_SHARE, Bounds, CheckedRecord, bounded, limits

if TYPE_CHECKING:
    from numpy.typing import NDArray


class FederatedAlgorithm(CheckedRecord):
    """A federated learning algorithm; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        source: The paper whose messages it sends.
        models_down: Model-sized messages to a participant.
        models_up: Model-sized messages from a participant.
        copies: Model-sized tensors of a client in addition to parameters, gradients and optimizer.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    models_down: ClassVar[float] = 1.0
    models_up: ClassVar[float] = 1.0
    copies: ClassVar[float] = 0.0

    @property
    def buffer(self) -> int:
        """Updates per step of an asynchronous server; 0: it waits for its round."""
        return 0

    @property
    def edge_rounds(self) -> int:
        """Rounds at edge servers between two exchanges with the cloud; 0: clients connect to the cloud directly."""
        return 0

    @property
    def cut_bytes(self) -> float:
        """Bytes of a sample's activations sent to the server, and of the gradients returned; 0: none."""
        return 0.0

    @property
    def client_share(self) -> float:
        """Share of the model (parameters and computation) on the client."""
        return 1.0


algorithms: Registry[type[FederatedAlgorithm]] = Registry("federated algorithm")


@algorithms.register("fedavg")
@dataclass(frozen=True)
class FedAvg(FederatedAlgorithm):
    """FedAvg: local epochs of SGD, then the mean of the updates."""

    kind: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al. 2017, arXiv 1602.05629"


@algorithms.register("fedasync")
@dataclass(frozen=True)
class FedAsync(FederatedAlgorithm):
    """FedAsync: the server steps on every update, however stale; clients never wait."""

    kind: ClassVar[str] = "fedasync"
    source: ClassVar[str] = "Xie, Koyejo, Gupta 2019, arXiv 1903.03934"

    @property
    def buffer(self) -> int:
        """One update a step."""
        return 1


@algorithms.register("fedbuff")
@dataclass(frozen=True)
class FedBuff(FederatedAlgorithm):
    """FedBuff: the server steps when `size` updates have arrived; clients never wait.

    Attributes:
        size: Updates in the buffer (K).
    """

    kind: ClassVar[str] = "fedbuff"
    source: ClassVar[str] = "Nguyen et al. 2022, arXiv 2106.06639"

    size: int = field(default=10, metadata=bounded(COUNTED))

    @property
    def buffer(self) -> int:
        """Updates in the buffer."""
        return self.size


@algorithms.register("fedprox")
@dataclass(frozen=True)
class FedProx(FederatedAlgorithm):
    """FedProx: FedAvg with a term that keeps clients close to the server's model; slow ones may do part of the work.

    A client also keeps the server's model for this term.

    Attributes:
        least_work: Share of the local work after which a slow client may stop; 1 requires all of it.
    """

    kind: ClassVar[str] = "fedprox"
    source: ClassVar[str] = "Li et al. 2020, arXiv 1812.06127"
    copies: ClassVar[float] = 1.0

    least_work: float = field(default=1.0, metadata=bounded(SOME_SHARE))


@algorithms.register("hierarchical")
@dataclass(frozen=True)
class Hierarchical(FederatedAlgorithm):
    """Hierarchical FedAvg: an edge server in every region averages its clients; edges synchronize in the cloud.

    Attributes:
        rounds: Rounds at the edges between two synchronizations (kappa 2).
        backbone_bps: Rate of an edge server's line to the cloud, one way.
    """

    kind: ClassVar[str] = "hierarchical"
    source: ClassVar[str] = "Liu, Zhang, Song, Letaief 2020, arXiv 1905.06641"

    rounds: int = field(default=5, metadata=bounded(limits(1, 100_000)))
    backbone_bps: float = field(default=1e9, metadata=bounded(RATE.within("1 kb/s", "1 Pb/s")))

    @property
    def edge_rounds(self) -> int:
        """Rounds at the edges between two meetings."""
        return self.rounds


@algorithms.register("scaffold")
@dataclass(frozen=True)
class Scaffold(FederatedAlgorithm):
    """SCAFFOLD: control variates against drift travel with the model, which doubles the bytes each way.

    A client keeps its own control variate and the server's.
    """

    kind: ClassVar[str] = "scaffold"
    source: ClassVar[str] = "Karimireddy et al. 2020, arXiv 1910.06378, algorithm 1"
    models_down: ClassVar[float] = 2.0
    models_up: ClassVar[float] = 2.0
    copies: ClassVar[float] = 2.0


@algorithms.register("split")
@dataclass(frozen=True)
class SplitLearning(FederatedAlgorithm):
    """Split learning: the client has the first layers, activations cross to the server and gradients come back.

    All participants run at the same time, and their parts are averaged at the end of the round (SplitFed).

    Attributes:
        at_client: Share of the model (parameters and computation) before the cut.
    """

    kind: ClassVar[str] = "split"
    source: ClassVar[str] = "Gupta, Raskar 2018, arXiv 1810.06060; Thapa et al. 2022, arXiv 2004.12088 (SplitFed V1)"

    activation_bytes: int = field(default=50_000, metadata=bounded(SIZE.within("1 B", "1 TB")))
    at_client: float = field(default=0.1, metadata=bounded(Bounds(above=0.0, below=1.0)))

    @property
    def cut_bytes(self) -> float:
        """Bytes per sample, one way."""
        return float(self.activation_bytes)

    @property
    def client_share(self) -> float:
        """Share in front of the cut."""
        return self.at_client


@dataclass(frozen=True, eq=False)
class Candidates:
    """Available clients, drawn uniformly.

    Attributes:
        expected_s: float64[candidates], expected time of each under its usual conditions: its own device and data, its
            link without temporary effects.
        samples: float64[candidates], training samples.
        device: int64[candidates], class of its device.
        wanted: Number of participants.
        deadline_s: Deadline of the round; inf without one.
    """

    expected_s: NDArray[np.float64]
    samples: NDArray[np.float64]
    device: NDArray[np.intp]
    wanted: int
    deadline_s: float


class Selection(CheckedRecord, ABC):
    """A selection policy; a frozen dataclass whose fields are its keys in a scenario.

    Attributes:
        source: The paper, or the practice.
        by_time: Whether it uses the candidates' expected time.
    """

    kind: ClassVar[str]
    source: ClassVar[str]
    by_time: ClassVar[bool] = True
    candidates: float

    @abstractmethod
    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """Rows of the selected candidates, at most as many as wanted."""


selections: Registry[type[Selection]] = Registry("selection of clients")


@selections.register("random")
@dataclass(frozen=True)
class Uniform(Selection):
    """Uniform among available clients: biased only by availability and by who finishes in time."""

    kind: ClassVar[str] = "random"
    source: ClassVar[str] = "McMahan et al. 2017, arXiv 1602.05629"
    by_time: ClassVar[bool] = False
    candidates: ClassVar[float] = 1.0  # type: ignore[misc]

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """The first ones: candidates come in random order."""
        return np.arange(min(candidates.wanted, len(candidates.expected_s)))


@selections.register("fastest")
@dataclass(frozen=True)
class FastestCandidates(Selection):
    """The fastest of a larger pool of candidates: shorter rounds, but slow clients rarely take part.

    Attributes:
        candidates: Candidates drawn per participant.
    """

    kind: ClassVar[str] = "fastest"
    source: ClassVar[str] = "the system half of Oort, Lai et al. OSDI 2021, arXiv 2010.06081"

    candidates: float = field(default=3.0, metadata=bounded(limits(1.0, 1000.0)))

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """Chooses the clients that are expected to finish first."""
        return np.argsort(candidates.expected_s, kind="stable")[: candidates.wanted]


@selections.register("within-deadline")
@dataclass(frozen=True)
class WithinDeadline(Selection):
    """Only clients that are expected back before the deadline, in random order (FedCS).

    Attributes:
        candidates: Candidates drawn per participant.
    """

    kind: ClassVar[str] = "within-deadline"
    source: ClassVar[str] = "Nishio, Yonetani 2019 (FedCS), arXiv 1804.08333"

    candidates: float = field(default=2.0, metadata=bounded(limits(1.0, 1000.0)))

    def choose(self, candidates: Candidates) -> NDArray[np.intp]:
        """The first candidates that meet the deadline."""
        return np.flatnonzero(candidates.expected_s <= candidates.deadline_s)[: candidates.wanted]
