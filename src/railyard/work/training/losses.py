"""Cost of a training job's faults: longer steps, and time lost once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from railyard.engine.faults import outages_of
from railyard.kit.errors import Hung
from railyard.measure.job import USUAL_INTERVAL_S
from railyard.measure.result.network import FaultFigures, LostTime
from railyard.work.study.deaths import hits_of, span, words
from railyard.work.training.faults import PS, knowing, on_flow, recovery_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.cluster.fault.recovery import Recovery
    from railyard.graph import TaskGraph
    from railyard.work.training.faults import JobFaults, PlacedFault
    from railyard.work.training.spec import Training
    from railyard.work.training.step_runs import StepRuns
    from railyard.work.training.storing import Saved

_COSTS_NOTHING = 1e-9
"""Share of a step: a difference below it is rounding."""


@dataclass(frozen=True)
class Losses:
    """Prices the faults of a job.

    Attributes:
        bench: Runs its steps; of the job with all its faults.
        without_s: A step without any fault.
        later_s: One of the job's later steps: with faults of every step, and permanent deaths that it survives.
    """

    faults: JobFaults
    bench: StepRuns
    graph: TaskGraph
    saved: Saved
    without_s: float
    later_s: float

    def figures(self) -> tuple[FaultFigures, ...]:
        """A row for every fault, in the order of time."""
        return tuple(sorted(self._rows(), key=lambda one: one.at_s))

    @property
    def once_s(self) -> float:
        """Time that faults take from the job once, s; their cost per step is part of the step."""
        return sum(one.lost_s for one in self._once())

    def _rows(self) -> Iterator[FaultFigures]:
        yield from map(self._slowing, self.faults.slowing)
        yield from self._once()

    def _once(self) -> Iterator[FaultFigures]:
        yield from map(self._passing, self.faults.passing)
        yield from map(self._survived, self.faults.survived)
        for one in self.faults.fatal:
            yield self._ended(one, "aborted", cast("float", one.hung_s))
        for one in self.faults.stalling:
            yield self._ended(one, "stalled", one.phase_s)

    @property
    def _recovery(self) -> Recovery:
        return recovery_of(self.bench.job)

    @property
    def _cluster(self) -> Cluster:
        return self.bench.job.cluster

    def _flow_s(self, *faults: Fault, known: bool = False) -> float:
        """A step on the flow engine, s; with `known`, routes know of deaths from the start."""
        cluster = knowing(self._cluster) if known else self._cluster
        return on_flow(self.bench).step(self.graph, cluster, seed=self.bench.seed, faults=faults).makespan_ps * PS

    # Faults after which everything lives.

    def _slowing(self, one: PlacedFault) -> FaultFigures:
        """Compared with the step without it: on the job's own engine if it is the only fault, else by flows."""
        if len(self.faults.slowing) == 1 and not self.faults.lasting:
            with_s, without_s = self.later_s, self.without_s
        else:
            others = (other.in_step for other in self.faults.slowing if other is not one)
            with_s, without_s = self._flow_s(*self.faults.every_step), self._flow_s(*others)
        slower = max(with_s / without_s, 1.0)
        return self._figures(one, outcome=_slowed(slower), stall_s=(slower - 1.0) * self.without_s, slower=slower)

    def _passing(self, one: PlacedFault) -> FaultFigures:
        every = self.faults.every_step
        slower = max(self._flow_s(*every, one.for_good) / self._flow_s(*every), 1.0)
        lasts_s = len(one.begins_s) * cast("float", one.spell_s)
        return self._figures(
            one,
            outcome=_slowed(slower),
            stall_s=(slower - 1.0) * self.later_s,
            slower=slower,
            parts=(("slower steps while it lasts", lasts_s * (1.0 - 1.0 / slower)),),
        )

    # Deaths that the job survives.

    def _survived(self, death: PlacedFault) -> FaultFigures:
        base_s = self._step_s(*self.faults.every_step)
        hit_s = self._step_s(*self.faults.every_step, death.in_step)
        slower = self._slower(death)
        lasts_s = death.spell_s
        # What is for good is in every later step already; the step that it hits is one of them.
        plain_s = base_s * slower if lasts_s is None else base_s
        again = sum(begin_s >= hit_s for begin_s in death.begins_s)
        within = len(death.begins_s) - again
        rest_s = 0.0 if death.ends_s is None or again else max(death.ends_s - hit_s, 0.0)
        stall_s = max(hit_s - plain_s, 0.0)
        parts = (
            ("traffic stops until it has other paths, and has fewer of them in this step", stall_s),
            ("the same in later steps, each time that it comes", again * stall_s / max(within, 1)),
            ("later steps, with fewer paths", rest_s * (1.0 - 1.0 / slower)),
        )
        # What has no other path waits until it is back, whatever routes know.
        known_s = math.inf if death.hung else _known_s(death, self._cluster)
        longer = hit_s > base_s * (1.0 + _COSTS_NOTHING) or slower > 1.0 + _COSTS_NOTHING
        outcome = "rerouted" if lasts_s is None or known_s < lasts_s else "waited"
        return self._figures(
            death,
            outcome=outcome if longer else "unnoticed",
            detection_s=known_s if lasts_s is None else min(known_s, lasts_s),
            stall_s=max(hit_s - base_s, 0.0),
            slower=slower,
            parts=parts,
        )

    def _step_s(self, *faults: Fault) -> float:
        """A step on the job's own engine, s."""
        return self.bench.step(self.graph, self._cluster, seed=self.bench.seed, faults=faults).makespan_ps * PS

    def _slower(self, death: PlacedFault) -> float:
        """A later step, whose routes know of the death, relative to one without it, on the flow engine."""
        every = self.faults.every_step
        try:
            later_s = self._flow_s(*every, death.for_good, known=True)
        except Hung:  # while it lasts nothing moves, and it does not last until the job is aborted
            return 1.0
        return max(later_s / self._flow_s(*every), 1.0)

    # Faults that end the job.

    def _ended(self, one: PlacedFault, outcome: str, hung_s: float) -> FaultFigures:
        """A job that is aborted, and restarts after the repair."""
        abort_s = self._recovery.process_s if one.kills else self._recovery.abort_s
        return self._figures(
            one,
            outcome=outcome,
            detection_s=hung_s - one.phase_s + abort_s,
            stall_s=self.later_s - min(hung_s, self.later_s) + abort_s,
            parts=(
                ("this step until it hangs", hung_s),
                ("until the job is aborted", abort_s),
                *self._recovery.restart(
                    hosts=one.hosts(self._cluster),
                    spell_s=one.spell_s,
                    read_s=self.saved.read_s,
                    unsaved_s=self._unsaved_s,
                ),
            ),
        )

    @property
    def _unsaved_s(self) -> float:
        return unsaved_s(self.bench.job.training, self.later_s)

    def _figures(
        self,
        one: PlacedFault,
        *,
        outcome: str,
        stall_s: float,
        detection_s: float = 0.0,
        slower: float = 1.0,
        parts: Sequence[tuple[str, float]] = (),
    ) -> FaultFigures:
        listed = tuple(LostTime(cause=cause, seconds=seconds) for cause, seconds in parts if seconds > 0)
        tiers = hits_of(one.effects, self._cluster)
        return FaultFigures(
            what=words(one.fault),
            at_s=one.at_s,
            outcome=cast("Any", outcome),
            links=sum(tier.links for tier in tiers),
            share=max((tier.share for tier in tiers), default=0.0),
            tiers=tiers,
            hosts=one.hosts(self._cluster) if one.is_death else 0,
            detection_s=detection_s,
            stall_s=stall_s,
            slower=slower,
            lost_s=sum(part.seconds for part in listed),
            parts=listed,
        )


def longest_s(faults: Sequence[FaultFigures], later_s: float) -> float:
    """The longest step that faults make, s.

    A step that ends the job includes everything lost then. Others include their excess over later steps: permanent
    slowdowns are part of those, and losses in later steps are not part of this one.
    """
    more = [one.lost_s if one.outcome in ("aborted", "stalled") else min(one.lost_s, one.stall_s) for one in faults]
    return later_s + max(more, default=0.0)


def unsaved_s(training: Training, step_s: float) -> float:
    """Work since the last checkpoint, averaged over all times at which a job may be aborted."""
    section = training.checkpoint
    return (USUAL_INTERVAL_S if section is None else section.interval_steps * step_s) / 2


def _slowed(slower: float) -> str:
    return "slowed" if slower > 1.0 + _COSTS_NOTHING else "unnoticed"


def _known_s(death: PlacedFault, cluster: Cluster) -> float:
    """Time from the death until its traffic moves on other paths."""
    outages = outages_of(enumerate(death.effects), cluster)
    return min((one.withdrawn_ps - one.begin_ps) * PS for one in outages if one.withdrawn_ps is not None)


def sentence(one: FaultFigures) -> str:
    """What a user should know of a fault."""
    begin = f"{one.what} at {span(one.at_s)}"
    slower = f"; later steps take {one.slower:.4g} times as long" if one.slower > 1 + 1e-3 else ""
    match one.outcome:
        case "unnoticed":
            return f"{begin} costs nothing: nothing in this step waits for it"
        case "slowed":
            lost = f", {span(one.lost_s)} of the job" if one.lost_s else ""
            return f"{begin} makes a step {span(one.stall_s)} longer ({one.slower:.4g} times as long){lost}"
        case "aborted" | "stalled":
            most = max(one.parts, key=lambda part: part.seconds)
            how = "ends the job" if one.outcome == "aborted" else "stops all traffic permanently"
            return (
                f"{begin} {how}, which is aborted {span(one.detection_s)} later: {span(one.lost_s)} lost,"
                f" {span(most.seconds)} of it {most.cause}"
            )
        case _:
            how = "has other paths" if one.outcome == "rerouted" else "is back"
            still = f"stops for {span(one.detection_s)} until it {how}, the step is {span(one.stall_s)} longer"
            return f"{begin}: traffic {still if one.detection_s else f'{how} from the start'}{slower}"
