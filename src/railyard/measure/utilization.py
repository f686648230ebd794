"""GPU utilization, MFU and HFU of a step.

    GPU utilization of a rank   time its compute stream runs non-communication kernels / step time; the cluster's is the
    mean MFU                         model FLOPs of a step / (step time x accelerators x peak dense FLOP/s of the
    datatype used) HFU                         the same with the FLOPs that were executed, recomputation included

Definitions of MFU and HFU: Chowdhery et al., PaLM (arXiv 2204.02311), appendix B; Korthikanti et al. (arXiv
2205.05198).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.measure.decompose import OUTAGE, Cause
from railyard.measure.result.step import EXPOSED, RankSpread, TaxFigures, TaxShares, UtilizationFigures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.graph import Record
    from railyard.measure.decompose import Decomposition


_ROUNDING = 1e-9


@dataclass(frozen=True)
class Window:
    """A part of a run: what ends after its start, at its end at the latest, counts."""

    start_s: float
    end_s: float

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return self.end_s - self.start_s

    def ended(self, end_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each ended in it; NaN has not ended."""
        return np.asarray((end_s > self.start_s) & (end_s <= self.end_s))


def steady_window(begin_s: NDArray[np.float64], end_s: NDArray[np.float64]) -> Window:
    """The steady window of work that comes and ends; of no work none.

    Args:
        begin_s: float64[n], when each piece came.
        end_s: float64[n], when it ended, NaN if it did not.
    """
    if not len(begin_s):
        return Window(0.0, 0.0)
    first, last, ended = float(begin_s.min()), float(begin_s.max()), np.isfinite(end_s)
    if ended.any():
        # What takes as long as all the rest ends at the start of the window, whatever its mean is rounded to.
        steady = Window(first + float((end_s - begin_s)[ended].mean()) + _ROUNDING * (last - first), last)
        if steady.ended(end_s).any():
            return steady
        last = max(last, float(end_s[ended].max()))
    # What ended at once, at the very start, counts as well.
    return Window(np.nextafter(first, -np.inf), last)


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


REPORTED_RANKS = 4096


@dataclass(frozen=True)
class StepWork:
    """Work of one step of the job, whatever time it takes.

    Attributes:
        tokens: Tokens that one step trains on, over the whole cluster.
        model_flops: FLOPs that the model needs for them, forward and backward, without recomputation.
        peak_flops: Peak DENSE FLOP/s of one accelerator for the datatype used; 0 when that is not known.
    """

    tokens: float
    model_flops: float
    hardware_flops: float
    peak_flops: float


@dataclass(frozen=True)
class Utilization:
    """Utilization of the accelerators.

    Attributes:
        gpu: GPU utilization, mean over ranks, 0 to 1.
        mfu: Model FLOPs utilization, or None where the peak is not known.
        hfu: Hardware FLOPs utilization, or None.
        tokens_per_s: Of the cluster while it runs, or None where the work makes no tokens.
        per_rank: float64[ranks]; GPU utilization of each.
    """

    gpu: float
    mfu: float | None
    hfu: float | None
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    per_rank: NDArray[np.float64]

    def section(self, *, gpu: float | None = None, reported_ranks: int = REPORTED_RANKS) -> UtilizationFigures:
        """The result's `utilization`; of more ranks than reported, every k-th is listed.

        Args:
            gpu: Utilization over the mean step, where it is longer than the one that was measured.
            reported_ranks: Most ranks.
        """
        ordered = np.sort(self.per_rank)
        chosen = np.linspace(0, len(self.per_rank) - 1, min(reported_ranks, len(self.per_rank))).astype(np.int64)
        return UtilizationFigures(
            gpu=self.gpu if gpu is None else gpu,
            mfu=self.mfu,
            hfu=self.hfu,
            tokens_per_s=self.tokens_per_s,
            tokens_per_s_per_gpu=self.tokens_per_s_per_gpu,
            ranks=RankSpread(min=float(ordered[0]), p50=float(np.median(ordered)), max=float(ordered[-1])),
            per_rank=tuple(round(float(value), 6) for value in self.per_rank[chosen]),
        )


def utilization(decomposition: Decomposition, work: StepWork | None, *, step_s: float | None = None) -> Utilization:
    """Computes the utilization of the accelerators.

    Args:
        decomposition: Of the step; at least one rank and a step longer than zero.
        work: What the step does; None where that is not known.
        step_s: Mean step time over several seeds, for MFU and tokens/s; None takes this step's.
    """
    seconds = decomposition.step_s if step_s is None else step_s
    per_rank = decomposition.by_rank_ps[:, Cause.COMPUTE] / decomposition.step_ps
    if work is None:
        return Utilization(float(per_rank.mean()), None, None, None, None, per_rank)
    peak = work.peak_flops * decomposition.ranks * seconds
    return Utilization(
        gpu=float(per_rank.mean()),
        mfu=work.model_flops / peak if peak > 0 else None,
        hfu=work.hardware_flops / peak if peak > 0 else None,
        tokens_per_s=work.tokens / seconds,
        tokens_per_s_per_gpu=work.tokens / seconds / decomposition.ranks,
        per_rank=per_rank,
    )
