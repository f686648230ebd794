"""From sections of a scenario to what engines take: jitter, what is fixed about collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.collective.calibrated import read_constants
from railyard.collective.measured import MEASURED
from railyard.collective.policy import CollectivePolicy
from railyard.engine import Jitter, Stall

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.scenario.conditions import CollectivesSection, JitterSection
    from railyard.workload.training.jitter import JitterLaw


def policy_of(section: CollectivesSection, folder: Path) -> CollectivePolicy:
    """What is fixed about collectives.

    Args:
        section: As written.
        folder: Where the scenario lies, from which its file of constants is found.

    Raises:
        InputError: It names an algorithm that is unknown or does not do that kind, or its constants cannot be read.
    """
    measured = MEASURED if section.constants is None else read_constants(folder / section.constants)
    return CollectivePolicy(
        measured=measured,
        algorithm=dict(section.algorithm),
        protocol=dict(section.protocol),
        selector=section.selector,
        pxn=section.pxn,
        launch_ps=section.launch,
        network_overhead_ps=section.network_overhead,
        connections=section.connections,
    )


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
