"""Traffic and computation of a participant per round: algorithm, compression, masks and noise combined."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.federated.updates import STREAM_FLOP_PER_BYTE, SecrecyStage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import WideAreaTransport
    from railyard.work.federated.algorithm import FederatedAlgorithm, Selection
    from railyard.work.federated.section import FederatedSection, PrivacySection
    from railyard.work.federated.updates import SecAgg, UpdateCompression
    from railyard.work.scenario.load import Variant


FILE = Path(__file__).parent / "curves.csv"


@dataclass(frozen=True)
class Curve:
    """A published row.

    Attributes:
        work: Model, data and its distribution over clients.
        participants: Clients per round.
        target: Accuracy reached.
        source: Paper and table.
    """

    name: str
    algorithm: str
    work: str
    participants: int
    epochs: float
    batch: str
    target: str
    rounds: int
    source: str


@cache
def curves() -> dict[str, Curve]:
    """All rows by name."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["name"]: Curve(
            row["name"],
            row["algorithm"],
            row["work"],
            int(row["participants"]),
            float(row["epochs"]),
            row["batch"],
            row["target"],
            int(row["rounds"]),
            row["source"],
        )
        for row in rows
    }


def curve(name: str) -> Curve:
    """The row of that name.

    Raises:
        InputError: The name is unknown.
    """
    known = curves()
    if name not in known:
        raise InputError(
            f"no published row is called `{name}`",
            key="reach",
            found=name,
            allowed=list(known),
            hint=did_you_mean(name, known),
        )
    return known[name]


PARTS = ("selection and secure aggregation", "download", "computation", "crossing the cut", "uplink")


@dataclass(eq=False)
class RoundLog:
    """Figures of all rounds: lists have one entry per round, everything else is a sum.

    Attributes:
        took_s: Duration of each round.
        used: Updates of each round that count.
        left: Clients that left in each round.
        ok: Whether the server could step.
        causes: Seconds by cause.
        selected: Selected clients.
        late: Updates that arrived too late.
        queue_s: Mean queueing time of each round.
        shared: The same by tier of the shared links, if more than the server's line is shared.
        server_s: Server time for sums, masks and noise.
        busy: Device-seconds of computation, by device.
        radio: Link-seconds of transfers, by link.
        counts: By device, link, region: selected and heard.
        there: Share of the population that was available.
        staleness: Staleness of updates, for asynchronous algorithms.
        wasted_bytes: Bytes in both directions that led to no update.
    """

    at_s: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    ok: list[bool] = field(default_factory=list)
    causes: dict[str, float] = field(default_factory=dict)
    selected: int = 0
    late: int = 0
    queue_s: float = 0.0
    shared: dict[str, float] = field(default_factory=dict)
    server_s: float = 0.0
    busy: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    radio: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    there: float = 0.0
    staleness: NDArray[np.float64] | None = None
    down_bytes: float = 0.0
    up_bytes: float = 0.0
    wasted_bytes: float = 0.0

    def cause(self, name: str, seconds: float) -> None:
        """Adds seconds to a cause."""
        self.causes[name] = self.causes.get(name, 0.0) + seconds

    def add_shared(self, by_tier: Mapping[str, float], rounds: int = 1) -> None:
        """Adds the extra time from sharing per update, by tier, for a number of rounds."""
        for tier, seconds in by_tier.items():
            self.shared[tier] = self.shared.get(tier, 0.0) + seconds * rounds


@dataclass(frozen=True, eq=False)
class Learning:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        catalog: Catalog of devices, links and prices.
        scheme: How the model is trained.
        sent: Traffic and computation of a participant.
        curve: Published rounds to an accuracy; None if none was requested.
    """

    variant: Variant
    section: FederatedSection
    catalog: Catalog
    clients: Clients
    model: LearnedModel
    scheme: Scheme
    sent: Messages
    selection: Selection
    transport: WideAreaTransport
    curve: Curve | None

    @property
    def goal(self) -> int:
        """Updates that a round waits for."""
        return self.section.round.participants

    @property
    def selected(self) -> int:
        """Clients that are selected for a round."""
        return math.ceil(self.goal * (1.0 + self.section.round.over_selection) - 1e-9)

    @property
    def least(self) -> int:
        """Minimum updates of a round; with fewer it is discarded."""
        return max(math.ceil(self.goal * self.section.round.least - 1e-9), 1)


CLIP_FLOP = 4.0
"""Operations per number: its square for the norm, and its scaling."""
NOISE_FLOP = 40.0
"""Operations per normal number by Box-Muller: a logarithm, a root, a cosine."""


AGGREGATE_FLOP = 2.0
"""The server's operations per number of an update: scale and add."""


@dataclass(frozen=True)
class LearnedModel:
    """The trained model.

    Attributes:
        parameters: Trained parameters.
        flop_per_sample: FLOP of forward and backward for one sample.
        bits: Of a parameter as sent.
    """

    parameters: float
    flop_per_sample: float
    bits: float = 32.0


@dataclass(frozen=True)
class Scheme:
    """How the model is trained.

    Attributes:
        compression: Compression of updates; None sends them in full.
        secrecy: Secure aggregation; None shows updates to the server.
        privacy: Noise on updates, by the server on their sum or by each client on its own; None adds none.
    """

    algorithm: FederatedAlgorithm
    compression: UpdateCompression | None = None
    secrecy: SecAgg | None = None
    privacy: PrivacySection | None = None

    @property
    def private_flop(self) -> tuple[float, float]:
        """Operations of clipping and noise: of a client per number, and of the server per number of the sum."""
        if self.privacy is None:
            return 0.0, 0.0
        return (CLIP_FLOP, NOISE_FLOP) if self.privacy.place == "server" else (CLIP_FLOP + NOISE_FLOP, 0.0)


@dataclass(frozen=True)
class Messages:
    """Messages of one participant; the server's part is per update.

    Attributes:
        crossing_bytes: Bytes per sample at a cut, each way; 0 without a cut.
        flop: Additional FLOP of the client, such as encoding, masks and noise.
        server_flop_per_sample: FLOP after a cut.
        unmask_bytes: Masks that the server makes for a client that left, minus those for one that stayed.
        before: Stages before the update is sent.
        after: Stages after it.
        state_bytes: State of a client: parameters, gradients, momentum, additions of algorithm and compression.
    """

    down_bytes: float
    up_bytes: float
    crossing_bytes: float
    flop_per_sample: float
    flop: float
    server_flop: float
    server_flop_per_sample: float
    server_flop_a_round: float
    unmask_bytes: float
    before: tuple[SecrecyStage, ...]
    after: tuple[SecrecyStage, ...]
    state_bytes: float


def messages(model: LearnedModel, scheme: Scheme, clients: int) -> Messages:
    """Traffic and computation of one of a number of participants per round."""
    algorithm, secrecy = scheme.algorithm, scheme.secrecy
    mine = model.parameters * algorithm.client_share
    numbers = mine * algorithm.models_up
    bits = model.bits + (0 if scheme.privacy is None else scheme.privacy.extra_bits)
    up = numbers * bits / 8.0 if scheme.compression is None else scheme.compression.sent_bytes(numbers, bits)
    flop = 0.0 if scheme.compression is None else scheme.compression.operations(numbers)
    flop += scheme.private_flop[0] * numbers
    one_mask = 0.0
    if secrecy is not None:
        up *= secrecy.value_bits(clients, up * 8.0 / numbers) / (up * 8.0 / numbers)
        one_mask = up
        flop += secrecy.mask_bytes(clients, up) * STREAM_FLOP_PER_BYTE
    partners = 0 if secrecy is None else secrecy.partners(clients)
    return Messages(
        down_bytes=mine * algorithm.models_down * model.bits / 8.0,
        up_bytes=up,
        crossing_bytes=algorithm.cut_bytes,
        flop_per_sample=model.flop_per_sample * algorithm.client_share,
        flop=flop,
        server_flop=AGGREGATE_FLOP * numbers + one_mask * STREAM_FLOP_PER_BYTE,
        server_flop_per_sample=model.flop_per_sample * (1.0 - algorithm.client_share),
        server_flop_a_round=scheme.private_flop[1] * mine,
        unmask_bytes=one_mask * partners,
        before=() if secrecy is None else secrecy.before(clients),
        after=() if secrecy is None else secrecy.after(clients),
        state_bytes=_state_bytes(mine, algorithm, scheme.compression),
    )


def _state_bytes(parameters: float, algorithm: FederatedAlgorithm, compression: UpdateCompression | None) -> float:
    """Parameters, gradients and momentum in 32 bits, and any other state."""
    kept = 1.0 if compression is not None and compression.error_feedback else 0.0
    return 4.0 * parameters * (3.0 + algorithm.copies + kept)
