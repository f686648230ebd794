"""Step times of thousands of designs with contention: the closed form of the work meets that of the network.

The work says what it sends and how long a step is, the network how much longer that takes; both know nothing of each
other but columns. A step that is longer spreads its bytes over more time, so they are asked in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.curves import Library
from railyard.engine.designs import Classes, Networks, Stretch, contention
from railyard.engine.tiers import Tiers
from railyard.model.machine import Machine, MachineColumns, Slowdowns
from railyard.work.training.columns import Columns
from railyard.work.training.estimate import Estimate, estimate
from railyard.work.training.pipeline_ranks import PipelineRanks
from railyard.work.training.traffic import CLASSES, PACED, PATTERNS, QUEUES, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.model.columns import F
    from railyard.work.training.spec import Training

ROUNDS = 2
"""Estimates after the one in which every communication has the network to itself."""


def _as_graphs(columns: Columns) -> Columns:
    return replace(columns, as_graph=True)


@dataclass(frozen=True)
class Site:
    """A cluster as closed forms see it.

    Attributes:
        machine: Its accelerators and rates. What a fabric reaches of links between switches is in the tiers.
        tiers: Its network.
    """

    machine: Machine
    tiers: Tiers

    @classmethod
    def of(cls, cluster: Cluster) -> Site:
        """The plain numbers of a cluster.

        Raises:
            InputError: Its topology has no closed form; see `Tiers.of`.
        """
        return cls(replace(Machine.of(cluster), share=1.0, library=Library.of(cluster)), Tiers.of(cluster))


@dataclass(frozen=True)
class Designs:
    """Step times of d designs.

    Attributes:
        step: Steps with contention, by cause.
        alone: The same with the network to themselves.
        stretch: What each class of communicators loses; classes as in `CLASSES`.
    """

    step: Estimate
    alone: Estimate
    stretch: Stretch


def evaluate(trainings: Sequence[Training], sites: Sequence[Site], *, others: F | None = None) -> Designs:
    """Steps of many designs.

    What jobs do about limits of the network (`Training.communication`) is timed without contention.

    Args:
        trainings: One job a design.
        sites: On what, in the same order; designs that share one share the object.
        others: float64[d, t], utilization of each tier of the network by other jobs, as `Stretch.utilization` has it.
    """
    machines = [site.machine for site in sites]
    networks, classes = _networks(sites), _classes(trainings, machines)
    alone = step = estimate(trainings, machines, change=_as_graphs)
    stretch = contention(networks, classes, step.step_s, others)
    for _ in range(ROUNDS):
        step = estimate(trainings, machines, change=_as_graphs, slowed=_slowdowns(stretch))
        stretch = contention(networks, classes, step.step_s, others)
    return Designs(step, alone, stretch)


def _networks(sites: Sequence[Site]) -> Networks:
    known: dict[int, int] = {}
    index = [known.setdefault(id(site.tiers), len(known)) for site in sites]
    first = {known[id(site.tiers)]: site.tiers for site in sites}
    return Networks.of([first[number] for number in range(len(known))], np.array(index, np.int64))


def _classes(trainings: Sequence[Training], machines: Sequence[Machine]) -> Classes:
    columns = Columns.of(trainings, [machine.accelerator for machine in machines])
    sent = traffic(columns, PipelineRanks.of(trainings), MachineColumns.of(machines))
    return Classes(
        patterns=PATTERNS,
        paced=np.array(PACED),
        queues=np.array(QUEUES),
        domains=sent.domains,
        hop=sent.hop,
        local=sent.local,
        inside_s=sent.inside_s,
        outside_s=sent.outside_s,
        ranks=columns.layout.tp * columns.layout.cp * columns.layout.dp * columns.layout.pp,
        aggregated=sent.aggregated,
        beside=sent.beside,
        hidden=sent.hidden,
        lockstep=columns.layout.pp <= 1,
    )


def _slowdowns(stretch: Stretch) -> Slowdowns:
    return Slowdowns(
        inside={name: stretch.inside[:, number] for number, name in enumerate(CLASSES)},
        outside={name: stretch.outside[:, number] for number, name in enumerate(CLASSES)},
        aggregated={name: stretch.aggregated[:, number] for number, name in enumerate(CLASSES)},
    )
