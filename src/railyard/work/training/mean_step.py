"""The mean step of a job: one step's record, plus what steps have beyond it on average."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.engine import Jitter
from railyard.kit.quantities import halved, percentile
from railyard.measure.decompose import OUTAGE, decompose
from railyard.measure.result.step import StepFigures
from railyard.work.training.jitter import law_of
from railyard.work.training.storing import loading_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.graph import Record
    from railyard.measure.decompose import Decomposition
    from railyard.work.training.jitter import JitterLaw
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.spec import Training
    from railyard.work.training.step_runs import StepRuns
    from railyard.work.training.storing import Loading, Saved


_HALVINGS = 30


@dataclass(frozen=True)
class Around:
    """The law of jitter around each undisturbed step."""

    law: JitterLaw
    ranks: int
    micro_batches: int

    @staticmethod
    def of(job: Prepared) -> Around | None:
        """None where the scenario draws differences itself or wants none."""
        if job.variant.draft.scenario.jitter.law != "quantiles" or job.jitter != Jitter():
            return None
        return Around(law_of(job.cluster.accelerator), job.cluster.ranks, job.training.layout.micro_batches)

    def quantile(self, samples_s: Sequence[float], quantile: float) -> float:
        """That quantile of steps of which each sample is as likely as the others."""
        steps = sorted(set(samples_s))
        reached = [step + self.law.delay_s(quantile, self.ranks, step, self.micro_batches) for step in steps]

        def below(middle: float) -> bool:
            shares = [self.law.share_below(middle - s, self.ranks, s, self.micro_batches) for s in samples_s]
            return math.fsum(shares) / len(shares) < quantile

        low, high = min(reached), max(reached)
        return sum(halved(below, low, high, _HALVINGS if high > low else 0)) / 2.0


@dataclass(frozen=True)
class StepTimes:
    """Step times of one variant.

    Attributes:
        samples_s: One per seed, in seed order; at least one.
        around: Jitter law around these; None if the samples are all variation there is.
    """

    samples_s: tuple[float, ...]
    around: Around | None = None

    @property
    def mean_s(self) -> float:
        """Mean step of a long job: its duration is this times the number of steps."""
        return math.fsum(self.samples_s) / len(self.samples_s)

    def section(self, *, mean_s: float | None = None, more_s: float = 0.0, **faulty: float) -> StepFigures:
        """The result's `step`.

        Args:
            mean_s: Mean step of a long job, if it is not the mean of the samples.
            more_s: Additional average time of every step over its sample; already in `mean_s`.
            faulty: Further figures of a job with faults.
        """
        return StepFigures(
            seconds=self.mean_s if mean_s is None else mean_s,
            p50_s=self.quantile(0.50) + more_s,
            p95_s=self.quantile(0.95) + more_s,
            p99_s=self.quantile(0.99) + more_s,
            samples=tuple(sample_s + more_s for sample_s in self.samples_s),
            jitter="" if self.around is None else self.around.law.source,
            **faulty,
        )

    def quantile(self, share: float) -> float:
        """Quantile of the steps: by the law around the samples, else by nearest rank among them."""
        if self.around is None:
            return percentile(sorted(self.samples_s), share)
        return self.around.quantile(self.samples_s, share)


def lost_in(training: Training, step_s: float, lost_s: float, mtbf_h: float) -> float:
    """Time lost once to faults that is charged to the priced tokens, s.

    A job without a token budget has no length over which to spread a loss. The loss then counts once per the job's mean
    time between failures, and a step gets its share of that.

    Args:
        training: The job.
        step_s: Its mean step, without that.
        lost_s: What faults take from the whole job.
        mtbf_h: Mean time between failures of the whole job.
    """
    return lost_s if training.tokens else lost_s * step_s / (mtbf_h * 3600)


def _outage_s(job: Prepared, step_s: float, lost_s: float) -> float:
    """Share of a mean step of the time that faults take from the whole job once, s."""
    tokens = float(job.training.tokens or job.training.step_tokens)
    return lost_in(job.training, step_s, lost_s, mtbf_h(job)) / math.ceil(tokens / job.training.step_tokens)


def mtbf_h(job: Prepared) -> float:
    """Mean time between failures of a whole job, h."""
    return job.assumptions.mtbf_h.typical / job.cluster.ranks


@dataclass(frozen=True, eq=False)
class MeanStep:
    """A mean step; seconds.

    Attributes:
        once_s: Its length; on a bench for trials, times the bench's scale.
        loading: How its samples are loaded; None where it reads none.
        meeting_s: Additional mean step time for synchronizing workers with local updates.
        lost_s: Time that faults take from the whole job once.
        outage_s: Share of that per step.
    """

    record: Record
    shares: Decomposition
    once_s: float
    loading: Loading | None
    meeting_s: float
    saved: Saved
    saved_every: int
    lost_s: float
    outage_s: float

    @staticmethod
    def of(bench: StepRuns, record: Record, saved: Saved) -> MeanStep:
        """The mean step of a bench's job, one of whose steps is known, and what its checkpoints take."""
        shares, plain_s, cluster = decompose(record), record.makespan_ps * 1e-12, bench.job.cluster
        once_s = bench.scale * plain_s
        waited_s = sum(row.seconds for row in shares.rows if row.cause == "data")
        loading = loading_of(bench.job, record, once_s, bench.scale * waited_s)
        meeting_s = bench.meeting_s(cluster, cluster, plain_s)
        step_s = once_s + meeting_s + (0.0 if loading is None else loading.variation_s)
        lost = bench.lost_s, _outage_s(bench.job, step_s, bench.lost_s)
        return MeanStep(record, shares, once_s, loading, meeting_s, saved, bench.saved_every, *lost)

    @staticmethod
    def simulated(bench: StepRuns) -> MeanStep:
        """The mean step of a bench's job, of a step that is simulated for it; its checkpoints only stall."""
        record = bench.step(bench.graphs.of(bench.job.training, bench.job.cluster), bench.job.cluster, seed=bench.seed)
        return MeanStep.of(bench, record, bench.stalled(record.makespan_ps * 1e-12))

    @property
    def varied_s(self) -> float:
        """Additional mean step time because sample sizes vary."""
        return 0.0 if self.loading is None else self.loading.variation_s

    @property
    def step_s(self) -> float:
        """Step without checkpoint stalls and outages."""
        return self.once_s + self.varied_s + self.meeting_s

    @property
    def stall_s(self) -> float:
        """Checkpoint stalls."""
        return self.saved.stall_s / self.saved_every

    @property
    def mean_s(self) -> float:
        """Total."""
        return self.step_s + self.stall_s + self.outage_s

    @property
    def added(self) -> tuple[tuple[str, str, float], ...]:
        """Parts beyond its record: cause, phase, seconds."""
        return (
            ("data", "variation", self.varied_s),
            ("outer update", "meeting", self.meeting_s),
            ("checkpoint", "checkpoint", self.stall_s),
            (OUTAGE, "", self.outage_s),
        )

    def by_cause(self) -> dict[str, float]:
        """Seconds by cause; they sum to the mean step."""
        scale = self.once_s / self.shares.step_s
        found = {cause: scale * seconds for cause, seconds in self.shares.by_cause().items()}
        for cause, _, seconds in self.added:
            found[cause] = found.get(cause, 0.0) + seconds
        return found
