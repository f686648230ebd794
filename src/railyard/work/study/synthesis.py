"""A synthesized collective on a scenario's cluster: the links for its search, and the engines that run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.algorithm import direct
from railyard.collective.policy import KINDS
from railyard.collective.synthesis.of_cluster import network_of
from railyard.collective.synthesis.written import of_schedule, of_text
from railyard.graph import Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.work.scenario.load import blaming
from railyard.work.study import compose
from railyard.work.training.prepare import engine_of, faults_of, keeps_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.algorithm import Algorithm
    from railyard.collective.policy import CollectivePolicy
    from railyard.collective.synthesis.network import LinkNetwork
    from railyard.work.scenario.load import Draft


@dataclass(frozen=True)
class Played:
    """Time of a collective alone.

    Attributes:
        algorithm: `synthesized`; `library`: the library's choice; `direct`: every rank directly to every other.
        took_us: From its start to its end, microseconds.
    """

    engine: str
    algorithm: str
    took_us: float


@dataclass(frozen=True, eq=False)
class Ground:
    """Setup of the search and of the runs of a collective."""

    draft: Draft
    cluster: Cluster
    faults: tuple[Fault, ...]
    policy: CollectivePolicy
    kind: str
    ranks: int

    @staticmethod
    def of(draft: Draft, kind: str, ranks: int | None) -> Ground:
        """The setup of a scenario.

        Raises:
            InputError: The scenario is invalid for this.
        """
        cluster = compose.cluster_of(draft, compose.catalog_of(draft))
        faults = faults_of(draft)
        section = draft.scenario.collectives.model_copy(update={"algorithm": {}, "protocol": {}})
        with blaming(draft, "collectives"):
            policy = policy_of(section, draft.folder, cluster, faults)
        return Ground(draft, cluster, faults, policy, kind, cluster.ranks if ranks is None else ranks)

    def network(self) -> LinkNetwork:
        """The links between the ranks, with the faults that are permanent from the start.

        Raises:
            InputError: There are too many ranks, or two are not connected.
        """
        keeps = keeps_of(self.cluster, self.faults)
        return network_of(self.cluster, np.arange(self.ranks), KINDS[self.kind], keeps=keeps, policy=self.policy)

    def played(
        self, text: str, size_bytes: int, engines: Sequence[str], pieces: NDArray[np.int64] | None = None
    ) -> list[Played]:
        """Runs an MSCCL schedule and the library's choice, each alone on each engine.

        Libraries send an uneven all-to-all directly from each rank to each other.

        Args:
            text: Text of the schedule's MSCCL file.
            size_bytes: As in nccl-tests; for an uneven all-to-all with room for the largest pair in each slot.
            engines: Names of engines.
            pieces: int64[ranks, ranks], chunks of each pair for an uneven all-to-all; None: all are equal.
        """
        made = of_text(text, "synthesized", pieces)
        plain = None if pieces is None else _direct(pieces)
        graph = self._graph(size_bytes)
        found = []
        for name in engines:
            engine = engine_of(self.draft, self.cluster, name)
            for word, fixed in (("synthesized", made), ("library" if plain is None else "direct", plain)):
                policy = self.policy
                if fixed is not None:
                    policy = replace(policy, algorithm={self.kind: fixed.name}, written=(fixed,))
                record = engine.simulate([Job(graph)], self.cluster, faults=self.faults, policy=policy)
                found.append(Played(name, word, float(record.end_ps.max()) / 1e6))
        return found

    def _graph(self, size_bytes: int) -> TaskGraph:
        """One collective of the first ranks."""
        return TaskGraph.of(
            self.cluster.ranks,
            kind=Kind.COLLECTIVE,
            size_bytes=size_bytes,
            collective=KINDS[self.kind],
            stream=Stream.GRADIENT,
            labels=[Label(self.kind, "alone", "all")],
            communicators=Communicators.of([range(self.ranks)], "all"),
        )


def _direct(pieces: NDArray[np.int64]) -> Algorithm:
    """The direct sends of an uneven all-to-all."""
    return of_schedule(f"direct-{sha256(pieces.tobytes()).hexdigest()[:8]}", direct(pieces))
