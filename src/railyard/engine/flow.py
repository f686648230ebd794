"""The engine `flow`: communications as fluids that share links fairly.

The same jobs on networks without limit: what the network tax compares a run with.

A scale-out network without limit has NICs and switches of `UNLIMITED` times their rate, no latency, no faults and no
other traffic, and the library's step through a NIC takes no time. Communications are lowered again, so that the library
chooses for that network. What still uses a scale-up link takes the time that it needs there; what uses none takes none.
Where all networks are without limit, no communication between accelerators takes any time. Storage, memory pools,
computations with their jitter, slow and late ranks stay as they are.

Packets cannot be played at rates without limit, and would show nothing: jobs of an engine that is not fluid run on
`flow`. That is the same timeline, for what is left of communication both engines take from the same cost model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.cluster.fault import LinkErrors, LinkRate, LinkSetting
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.engine.contract import engines
from railyard.engine.faults import effects_of
from railyard.engine.fluid import FluidEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.contract import Engine
    from railyard.engine.lowering import Free


FLOW = FluidEngine(
    name="flow",
    summary="Weighted max-min fair rates over all links, solved again whenever a communication starts or ends.",
    contention=True,
    left_out=(
        "packets and queues: rates change at once, there is no loss, no pause and no queueing delay",
        "the transients of congestion control: whoever shares a link shares it fairly from the first moment",
        "jitter of communications: only computations vary",
    ),
)
engines.add(FLOW.name, FLOW)


FREED: tuple[Free, Free] = ("scale-out", "all")
"""The two comparisons of the tax, in its order: T1, T0."""


class Conditions(NamedTuple):
    """Conditions of a simulation of jobs; see `Engine.simulate`."""

    engine: Engine
    cluster: Cluster
    policy: CollectivePolicy
    faults: tuple[Fault, ...]

    def unlimited(self, free: Free) -> Conditions:
        """The same without limits of the scale-out network (`scale-out`) or of all networks (`all`).

        Raises:
            InputError: A fault names a place that is not there.
        """
        engine = self.engine if isinstance(self.engine, FluidEngine) else FLOW
        policy = replace(self.policy, network_overhead_ps=0)
        return Conditions(
            replace(engine, background=(), free=free),
            self.cluster.without_scale_out_limits(),
            policy,
            kept(self.faults, self.cluster, free),
        )


def kept(faults: Sequence[Fault], cluster: Cluster, free: Free) -> tuple[Fault, ...]:
    """The faults that do something beyond the networks without limit.

    Args:
        faults: Of a run.
        cluster: As it is.
        free: See `Conditions.unlimited`.

    Raises:
        InputError: A fault names a place that is not there.
    """
    gone = {tier.name for tier in cluster.back_end.tiers} | ({"scale-up"} if free == "all" else set())
    free_link = np.isin(cluster.links.tiers, list(gone))[cluster.links.tier]
    lasting = {
        number
        for number, effect in effects_of(faults, ClusterPlaces.of(cluster))
        if not (isinstance(effect, LinkRate | LinkErrors | LinkSetting) and free_link[effect.link].all())
    }
    return tuple(fault for number, fault in enumerate(faults) if number in lasting)
