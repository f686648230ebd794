"""Sorts the faults of a training job by effect: slow every step, slow some, interrupt it for a while, or end it.

A fault that only slows links or ranks is part of every step if it is permanent, or if it falls within one step. A
temporary one that extends beyond a step slows the steps of that period. After a death, links or ranks are gone: the job
survives if its traffic has other paths or the dead part is back before the job is aborted; otherwise it dies, and
restarts
after the repair. A job stalls if its traffic stops although nothing is dead, as packets can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from railyard.cluster.fault import RankDeath, Spells
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.fault.recovery import Recovery
from railyard.engine import get as engine_named
from railyard.kit.errors import Hung
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import build
from railyard.work.study.deaths import cut_off_by, from_the_start, is_death

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.graph import TaskGraph
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.step_runs import StepRuns

PS = 1e-12


def recovery_of(job: Prepared) -> Recovery:
    """The job's recovery from a fault that ends it, from the scenario.

    Raises:
        InputError: A value is impossible.
    """
    draft = job.variant.draft
    with blaming(draft, "recovery"):
        recovery: Recovery = build(draft.scenario.recovery, Recovery)
    return recovery


@dataclass(frozen=True)
class PlacedFault:
    """A fault on a job's cluster.

    Attributes:
        in_step: The same fault within one step: for a later step, at the same offset from the step's start.
        hung_s: Time in that step from which the job hangs permanently; None if it continues.
        hung: The first communication that hangs, in words; also if it only waits until the fault is over.
    """

    fault: Fault
    effects: tuple[Effect, ...]
    in_step: Fault
    hung_s: float | None = None
    hung: str = ""

    @property
    def at_s(self) -> float:
        """First start, from the start of the job, s."""
        return getattr(self.fault, "at_ps", 0) * PS

    @property
    def phase_s(self) -> float:
        """Start, from the start of its step, s."""
        return getattr(self.in_step, "at_ps", 0) * PS

    @property
    def spell_s(self) -> float | None:
        """Duration of each occurrence, s; None: permanent."""
        length_ps = getattr(self.fault, "for_ps", None)
        return None if length_ps is None else length_ps * PS

    @property
    def begins_s(self) -> tuple[float, ...]:
        """All starts, from the start of the step of the first one, s."""
        spells = self.in_step.spells if isinstance(self.in_step, Spells) else ()
        return tuple(spell.begin_ps * PS for spell in spells)

    @property
    def ends_s(self) -> float | None:
        """End of the last occurrence, from the start of the step of the first one, s; None: never."""
        spell_s = self.spell_s
        return None if spell_s is None else max(self.begins_s) + spell_s

    @property
    def is_death(self) -> bool:
        """Whether links or ranks are gone."""
        return any(is_death(effect) for effect in self.effects)

    @property
    def kills(self) -> bool:
        """Whether it ends processes."""
        return any(isinstance(effect, RankDeath) for effect in self.effects)

    @property
    def for_good(self) -> Fault:
        """The same fault in every step from the start on."""
        return from_the_start(self.fault)

    def hosts(self, cluster: Cluster) -> int:
        """Hosts that it kills, or whose NICs it cuts off completely."""
        dead = {rank for effect in self.effects if isinstance(effect, RankDeath) for rank in effect.ranks}
        return len({rank // cluster.ranks_per_server for rank in dead | cut_off_by(self.effects, cluster)})


@dataclass(frozen=True)
class JobFaults:
    """The faults of a job, sorted by effect.

    Attributes:
        slowing: Faults in every step.
        passing: Faults that slow the steps of some period.
        survived: Deaths that the job survives.
        fatal: Deaths that end it.
        stalling: Faults that end the job though nothing is dead.
    """

    slowing: tuple[PlacedFault, ...] = ()
    passing: tuple[PlacedFault, ...] = ()
    survived: tuple[PlacedFault, ...] = ()
    fatal: tuple[PlacedFault, ...] = ()
    stalling: tuple[PlacedFault, ...] = ()

    @property
    def outcome(self) -> Literal["finished", "died", "stalled"]:
        """Outcome of the job: it dies from a fault that aborts it, although it restarts after the repair."""
        if self.fatal:
            return "died"
        return "stalled" if self.stalling else "finished"

    @property
    def every_step(self) -> tuple[Fault, ...]:
        """Non-lethal faults of every step."""
        return tuple(one.in_step for one in self.slowing)

    @property
    def lasting(self) -> tuple[PlacedFault, ...]:
        """Permanent deaths that the job survives."""
        return tuple(one for one in self.survived if one.spell_s is None)

    def later(self, job: Prepared) -> Prepared:
        """The job in its later steps: without past faults, with routes that know of permanent deaths."""
        if not self.lasting:
            return replace(job, faults=self.every_step)
        faults = (*self.every_step, *(death.for_good for death in self.lasting))
        return replace(job, faults=faults, cluster=knowing(job.cluster))

    def stalled(self) -> JobFaults:
        """The same for a job whose later steps hang: what slows them stops them."""
        return replace(self, slowing=(), stalling=self.slowing)


def knowing(cluster: Cluster) -> Cluster:
    """The cluster with fabrics that know of a death at once."""
    return cluster.with_networks(
        lambda network: replace(network, fabric=replace(network.fabric, reroute_ps=0, retransmit_ps=0))
    )


def on_flow(bench: StepRuns) -> StepRuns:
    """The same bench on the flow engine."""
    return replace(bench, job=replace(bench.job, engine=engine_named("flow")))


def sorted_out(bench: StepRuns, graph: TaskGraph, step_s: float) -> JobFaults:
    """The effect of each fault on a job: deaths in time order, each with the earlier faults that the job survives.

    The flow engine decides whether something hangs, whatever engine runs the step, because it is a question of routes.

    Args:
        bench: Runs the steps of the job with all its faults.
        graph: Its step.
        step_s: A step without faults.

    Raises:
        InputError: A fault names an unknown place.
    """
    found, deaths = JobFaults(), []
    for number in range(len(bench.job.faults)):
        one = placed(bench.job, number, step_s)
        if one.is_death:
            deaths.append(one)
        elif one.ends_s is not None and one.ends_s > step_s:
            found = replace(found, passing=(*found.passing, one))
        else:
            found = replace(found, slowing=(*found.slowing, one))
    for death in sorted(deaths, key=lambda one: one.at_s):
        judged = _judged(death, bench, graph, found, step_s)
        if judged.hung_s is None:
            found = replace(found, survived=(*found.survived, judged))
        else:
            found = replace(found, fatal=(*found.fatal, judged))
    return found


def placed(job: Prepared, number: int, step_s: float) -> PlacedFault:
    """One of a job's faults on its cluster.

    Raises:
        InputError: It names an unknown place.
    """
    fault = job.faults[number]
    with blaming(job.variant.draft, "faults", str(number)):
        effects = tuple(fault.effects(ClusterPlaces.of(job.cluster)))
    return PlacedFault(fault, effects, _in_step(fault, effects, round(step_s / PS)))


def _in_step(fault: Fault, effects: tuple[Effect, ...], step_ps: int) -> Fault:
    """A fault of a later step at the same offset from the step's start; permanent slowdowns apply from the start."""
    if not isinstance(fault, Spells) or fault.at_ps < max(step_ps, 1):
        return fault
    if fault.for_ps is None and not any(is_death(effect) for effect in effects):
        return from_the_start(cast("Fault", fault))
    return cast("Fault", replace(fault, at_ps=fault.at_ps % max(step_ps, 1)))


def _judged(death: PlacedFault, bench: StepRuns, graph: TaskGraph, found: JobFaults, step_s: float) -> PlacedFault:
    """A death with the time at which the job hangs, if it does: in the step that it hits, or in the next one."""
    if death.kills:
        return replace(death, hung_s=death.phase_s, hung="the processes of its ranks")
    others = (*found.every_step, *(one.in_step for one in found.survived))
    for begin_s, at_s in ((0.0, death.phase_s), (step_s, 0.0)):
        try:
            for_good = from_the_start(death.fault, at_ps=round(at_s / PS))
            on_flow(bench).step(graph, bench.job.cluster, seed=bench.seed, faults=(*others, for_good))
        except Hung as hung:
            since_s = begin_s + max(hung.since_ps * PS, at_s)
            back_s = math.inf if death.spell_s is None else death.phase_s + death.spell_s
            if back_s < since_s + recovery_of(bench.job).abort_s:
                return replace(death, hung=hung.what) if not begin_s and since_s < back_s else death
            return replace(death, hung_s=since_s, hung=hung.what)
        if death.phase_s == 0:
            break
    return death
