"""Rounds on clients, ready to run: one variant with everything that they need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.cluster.edge.clients import Clients
    from railyard.cluster.edge.transport import Transport
    from railyard.work.federated.chosen import Selection
    from railyard.work.federated.curves import Curve
    from railyard.work.federated.messages import Messages, Model, Scheme
    from railyard.work.federated.section import FederatedSection
    from railyard.work.scenario.variants import Variant


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
