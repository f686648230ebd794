"""From sections of a scenario to what engines take: jitter, what is fixed about collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.fault import LinkRate, Spell
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.collective.calibrated import read_constants
from railyard.collective.measured import MEASURED
from railyard.collective.policy import CollectivePolicy
from railyard.collective.synthesis import searched, written
from railyard.engine import Jitter, Stall
from railyard.engine.faults import effects_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.algorithm import Algorithm
    from railyard.work.scenario.conditions import CollectivesSection, JitterSection
    from railyard.work.training.jitter import JitterLaw


def policy_of(
    section: CollectivesSection, folder: Path, cluster: Cluster, faults: Sequence[Fault] = ()
) -> CollectivePolicy:
    """What is fixed about collectives.

    Args:
        section: As written.
        folder: Where the scenario lies, from which its files are found.
        cluster: For whose links `synthesized` schedules are searched.
        faults: Those that hold from the start for good are known to that search.

    Raises:
        InputError: It names an algorithm that is unknown or does not do that kind, or its constants cannot be read.
    """
    measured = MEASURED if section.constants is None else read_constants(folder / section.constants)
    made = {key: _made(word, folder, cluster, faults) for key, word in section.algorithm.items()}
    return CollectivePolicy(
        measured=measured,
        algorithm={key: one if isinstance(one, str) else one.name for key, one in made.items()},
        protocol=dict(section.protocol),
        selector=section.selector,
        pxn=section.pxn,
        launch_ps=section.launch,
        network_overhead_ps=section.network_overhead,
        connections=section.connections,
        version=section.version or CollectivePolicy.version,
        written=tuple(one for one in made.values() if not isinstance(one, str)),
    )


def _made(word: str, folder: Path, cluster: Cluster, faults: Sequence[Fault]) -> str | Algorithm:
    """The name of an algorithm of the library, or the one that a file or a search gives."""
    kind, _, rest = word.partition(":")
    if kind == "msccl" and rest:
        return written.of_file(folder / rest.strip())
    if kind != searched.NAME:
        return word
    return searched.of_cluster(cluster, searched.size_of(word), keeps_of(cluster, faults))


def keeps_of(cluster: Cluster, faults: Sequence[Fault]) -> NDArray[np.float64] | None:
    """float64[links], what links keep of their rates under faults that hold from the start for good; None: all."""
    effects = [effect for _, effect in effects_of(faults, ClusterPlaces.of(cluster))]
    slower = [one for one in effects if isinstance(one, LinkRate) and one.spell == Spell(0)]
    if not slower:
        return None
    share = np.ones(len(cluster.links))
    for one in slower:
        share[one.link] *= one.factor
    return share


def jitter_of(section: JitterSection, law: JitterLaw, micro_batches: int) -> Jitter:
    """Random differences in compute time.

    Args:
        section: As written.
        law: Of the job's device.
        micro_batches: Of a step, over which the noise of one averages out.
    """
    if section.law != "drawn":
        return Jitter(section.sigma, section.rank_sigma)
    stalls = tuple(Stall(kind.rate_hz, kind.mean_s) for kind in law.interruptions)
    return Jitter(section.sigma, section.rank_sigma, law.sigma / max(micro_batches, 1) ** 0.5, stalls)
