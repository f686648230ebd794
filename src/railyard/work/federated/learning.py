"""Rounds on clients, ready to run: one variant with everything that they need."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from railyard.catalog import Catalog
    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import Transport
    from railyard.work.federated.algorithm import Selection
    from railyard.work.federated.messages import Messages, Model, Scheme
    from railyard.work.federated.section import FederatedSection
    from railyard.work.scenario.variants import Variant


FILE = Path(__file__).parent / "curves.csv"


@dataclass(frozen=True)
class Curve:
    """One published row.

    Attributes:
        name: Of the row.
        algorithm: Of federated learning.
        work: Model, data and how it was spread over clients.
        participants: Clients a round.
        epochs: Of local work.
        batch: Of local work.
        target: What was reached.
        rounds: In which it was.
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
        InputError: There is none.
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
    """Figures of all rounds: a list has an entry a round, all else is the sum.

    Attributes:
        at_s: When each round began.
        took_s: What each took.
        used: Updates of each that count.
        left: Clients of each that went.
        ok: Whether the server could step.
        causes: Seconds by cause.
        selected: Clients.
        late: Updates that came too late.
        queue_s: Mean of each round.
        shared: The same by tier of the links that are shared, where more is than the server's line.
        server_s: Sums, masks and noise.
        busy: Device-seconds of computation, by device.
        radio: Link-seconds of transfers, by link.
        counts: By device, link, region: selected and heard.
        there: Share of the population that was there.
        staleness: Of updates, where nobody is waited for.
        down_bytes: From the server.
        up_bytes: To it.
        wasted_bytes: Of both, that no update came of.
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
        """Adds to a cause."""
        self.causes[name] = self.causes.get(name, 0.0) + seconds

    def add_shared(self, by_tier: Mapping[str, float], rounds: int = 1) -> None:
        """Adds what sharing adds to an update, by tier, of so many rounds."""
        for tier, seconds in by_tier.items():
            self.shared[tier] = self.shared.get(tier, 0.0) + seconds * rounds


@dataclass(frozen=True, eq=False)
class Learning:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        section: As written.
        catalog: Where devices, links and prices stand.
        clients: Who learns.
        model: What is learned.
        scheme: How.
        sent: What a participant sends and computes.
        selection: Who is selected.
        transport: Over which protocol.
        curve: Published rounds to an accuracy; None where none was asked for.
    """

    variant: Variant
    section: FederatedSection
    catalog: Catalog
    clients: Clients
    model: Model
    scheme: Scheme
    sent: Messages
    selection: Selection
    transport: Transport
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
        """Updates without which a round is thrown away."""
        return max(math.ceil(self.goal * self.section.round.least - 1e-9), 1)
