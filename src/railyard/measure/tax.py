"""The network tax: the share of tokens that a step loses to the scale-out network, and what it consists of.

Three steps of one job define it: T as it is, T1 on a scale-out network without limit, T0 on networks without limit
(`railyard.engine.unlimited`).

    tax = 1 - T1 / T             of T's tokens per second, had the scale-out network no limit
    scale-up tax = (T1 - T0) / T
    rest = T0 / T                what no network can change

The three add up to the step. A tax is divided by what its removal shortens. Every step is a sum of causes, so that
T - T1 is the sum of the differences of all causes. Of these, the causes that a network acts on directly carry the tax:

    exposed, by cause   bandwidth, latency, contention, straggler: how much longer ranks wait for communication, and
                        for ranks that communication made late; outage: until the job goes on after faults of the
                        network, which one without limit does not have
    slowed kernels      how much longer the same kernels run during communication, where it slows them

All other differences are consequences. Pipeline bubbles and waits for computations elsewhere grow with what delays
others, and what a wait hid before (samples that were loaded meanwhile) comes to light when it is gone. An outage hides
nothing, because all ranks stand still: it counts in full. Of what is left of T - T1, each other direct cause has the
part that its own growth has in the growth of them all; a cause that shrank has none. What storage, checkpoints or
meetings of workers wait longer for came over the network too, and counts as bandwidth.

A network without limit cannot be slower. Where simulation says so (another order of events), T1 counts as T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.causes import OUTAGE
from railyard.measure.result.tax import EXPOSED, TaxFigures, TaxShares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.cluster import Cluster
    from railyard.graph import Record

_CARRIED = ("data", "checkpoint", "outer update")
"""Causes that the network may be behind, by what crosses it; what is lost so is bandwidth."""
_KERNELS = "compute"


def crosses(record: Record, cluster: Cluster) -> bool:
    """Whether a step puts anything on the scale-out network: else it pays nothing to it, whatever engine ran it."""
    names = {tier.name for tier in cluster.back_end.tiers}
    outside = np.isin(cluster.links.tiers, list(names))[cluster.links.tier]
    return bool(record.table("links")["bytes"][outside].any())


def tax_of(
    as_it_is: Mapping[str, float],
    without_scale_out: Mapping[str, float],
    without_networks: Mapping[str, float],
    engine: str,
    *,
    slows: bool = True,
) -> TaxFigures:
    """The tax of a step.

    Args:
        as_it_is: Seconds of the mean step by cause; they add up to T, which is above 0.
        without_scale_out: The same on a scale-out network without limit, adding up to T1.
        without_networks: The same on networks without limit, adding up to T0.
        engine: That found the latter two.
        slows: Whether communication slows concurrent kernels; else computation that takes longer is a consequence.
    """
    direct = (*EXPOSED, *((_KERNELS,) if slows else ()))
    step_s, found_s, least_s = (sum(spent.values()) for spent in (as_it_is, without_scale_out, without_networks))
    outside_s = min(found_s, step_s)
    inside_s = min(least_s, outside_s)
    kept = inside_s / (least_s * step_s) if least_s else 0.0
    lost = _shares(as_it_is, without_scale_out, direct, 1.0 - outside_s / step_s)
    return TaxFigures(
        **lost.model_dump(),
        scale_up=_shares(without_scale_out, without_networks, direct, (outside_s - inside_s) / step_s),
        rest={cause: seconds * kept for cause, seconds in without_networks.items() if seconds > 0},
        step_without_scale_out_s=found_s,
        step_without_networks_s=least_s,
        engine=engine,
    )


def _shares(longer: Mapping[str, float], shorter: Mapping[str, float], direct: Sequence[str], lost: float) -> TaxShares:
    """A share of the step by direct cause: outages in full, the rest in proportion to how much each other cause grew.

    All of the rest is bandwidth where none grew.
    """
    grown = {cause: max(longer.get(cause, 0.0) - shorter.get(cause, 0.0), 0.0) for cause in {*longer, *shorter}}
    parts = {cause: grown.get(cause, 0.0) for cause in direct}
    parts["bandwidth"] += sum(grown.get(cause, 0.0) for cause in _CARRIED)
    total = sum(parts.values())
    if not total:
        parts["bandwidth"] = total = 1.0
    out_s, saved_s = grown.get(OUTAGE, 0.0), sum(longer.values()) - sum(shorter.values())
    stood = min(lost * out_s / saved_s, lost) if out_s and lost else 0.0
    share = {cause: (lost - stood) * (part / total) for cause, part in parts.items()}
    exposed = {cause: share[cause] for cause in EXPOSED} | ({OUTAGE: stood} if out_s else {})
    return TaxShares(tokens_lost=lost, exposed=exposed, slowed_kernels=share.get(_KERNELS, 0.0))
