"""Deaths in a training run: which of them the network routes around, which end the job, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from railyard.engine import get as engine_named
from railyard.engine.outages import outages_of
from railyard.errors import Hung
from railyard.fault import LinkRate, RankDeath
from railyard.fault.cluster_places import ClusterPlaces
from railyard.fault.recovery import Recovery
from railyard.measure.job import USUAL_INTERVAL_S
from railyard.result.fault import FaultFigures, LostTime
from railyard.scenario.load import blaming
from railyard.scenario.section import build
from railyard.study.deaths import cut_off_by, from_the_start, is_death, span, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.cluster import Cluster
    from railyard.fault import Effect, Fault
    from railyard.graph import TaskGraph
    from railyard.study.training.prepare import Prepared
    from railyard.study.training.step_runs import StepRuns
    from railyard.study.training.storing import Saved

PS = 1e-12


def recovery_of(job: Prepared) -> Recovery:
    """What the job does after a death that ends it, as the scenario says.

    Raises:
        InputError: It cannot be.
    """
    draft = job.variant.draft
    with blaming(draft, "recovery"):
        recovery: Recovery = build(draft.scenario.recovery, Recovery)
    return recovery


@dataclass(frozen=True)
class Death:
    """A fault after which links or ranks are gone.

    Attributes:
        fault: As it was given.
        effects: What it does.
        hung_s: From when on the job stands still for good; None where it goes on.
        hung: The communication that does so first, in words.
    """

    fault: Fault
    effects: tuple[Effect, ...]
    hung_s: float | None = None
    hung: str = ""

    @property
    def at_s(self) -> float:
        """When it comes first."""
        return min(_begin_ps(effect) for effect in self.effects) * PS

    @property
    def ends_s(self) -> float | None:
        """When it is over for the last time; None: never."""
        ends = [effect.spell.end_ps for effect in self.effects if isinstance(effect, LinkRate | RankDeath)]
        return None if None in ends else max(cast("list[int]", ends)) * PS

    @property
    def begins_s(self) -> tuple[float, ...]:
        """When it comes, each time."""
        return tuple(sorted({_begin_ps(effect) * PS for effect in self.effects}))

    @property
    def spell_s(self) -> float | None:
        """How long it lasts each time; None: for good."""
        length_ps = getattr(self.fault, "for_ps", None)
        return None if length_ps is None else length_ps * PS

    @property
    def kills(self) -> tuple[int, ...]:
        """Ranks whose processes it ends."""
        return tuple(rank for effect in self.effects if isinstance(effect, RankDeath) for rank in effect.ranks)

    def hosts(self, cluster: Cluster) -> int:
        """Hosts that it kills, or of which it cuts off a NIC altogether."""
        ranks = set(self.kills) | cut_off_by(self.effects, cluster)
        return len({rank // cluster.ranks_per_server for rank in ranks})


@dataclass(frozen=True)
class Deaths:
    """The faults of a variant, told apart.

    Attributes:
        plain: Those after which everything lives.
        survived: Deaths with which the step ends.
        fatal: Deaths that end the job.
    """

    plain: tuple[Fault, ...] = ()
    survived: tuple[Death, ...] = ()
    fatal: tuple[Death, ...] = ()

    def later(self, job: Prepared) -> Prepared:
        """The job in its later steps: without the dead of a while, with routes that know of those for good."""
        lasting = [death for death in self.survived if death.ends_s is None]
        if not lasting:
            return replace(job, faults=self.plain)
        return replace(
            job,
            faults=(*self.plain, *(from_the_start(death.fault) for death in lasting)),
            cluster=_knowing(job.cluster),
        )


def sorted_out(bench: StepRuns, graph: TaskGraph) -> Deaths:
    """Which deaths the job survives: in the order of time, each beside those before it that it survives.

    The flow engine says whether something hangs, whatever engine the step runs on: that is a question of routes.

    Raises:
        InputError: A fault names a place that is not there.
    """
    job = bench.job
    known = [_effects(fault, number, job) for number, fault in enumerate(job.faults)]
    mortal = [any(is_death(effect) for effect in effects) for effects in known]
    found = Deaths(tuple(fault for fault, dies in zip(job.faults, mortal, strict=True) if not dies))
    deaths = [Death(fault, effects) for fault, effects, dies in zip(job.faults, known, mortal, strict=True) if dies]
    for death in sorted(deaths, key=lambda death: death.at_s):
        judged = _judged(death, bench, graph, found)
        if judged.hung_s is None:
            found = replace(found, survived=(*found.survived, judged))
        else:
            found = replace(found, fatal=(*found.fatal, judged))
    return found


def _effects(fault: Fault, number: int, job: Prepared) -> tuple[Effect, ...]:
    with blaming(job.variant.draft, "faults", str(number)):
        return tuple(fault.effects(ClusterPlaces.of(job.cluster)))


def _begin_ps(effect: Effect) -> int:
    return effect.spell.begin_ps if isinstance(effect, LinkRate | RankDeath) else 0


def _judged(death: Death, bench: StepRuns, graph: TaskGraph, found: Deaths) -> Death:
    """A death with the time at which the job hangs for it, if it does."""
    if death.kills:
        return replace(death, hung_s=death.at_s, hung="the processes of its ranks")
    for_good = from_the_start(death.fault, at_ps=getattr(death.fault, "at_ps", 0))
    others = [one.fault for one in found.survived]
    try:
        _on_flow(bench).step(graph, bench.job.cluster, seed=bench.seed, faults=(*found.plain, *others, for_good))
    except Hung as hung:
        since_s = max(hung.since_ps * PS, death.at_s)
        if death.ends_s is not None and death.ends_s < since_s + recovery_of(bench.job).abort_s:
            return death
        return replace(death, hung_s=since_s, hung=hung.what)
    return death


def _on_flow(bench: StepRuns) -> StepRuns:
    return replace(bench, job=replace(bench.job, engine=engine_named("flow")))


@dataclass(frozen=True)
class Costs:
    """What is known about the job when its deaths are priced.

    Attributes:
        healthy_s: A step without deaths.
        saved_every: Steps between checkpoints; None: the job writes none of which the time is known.
        saved: What a checkpoint takes.
        recovery: What the job does after a death.
    """

    healthy_s: float
    saved_every: int | None
    saved: Saved
    recovery: Recovery

    @property
    def mean_lost_s(self) -> float:
        """Work since the last checkpoint, mean over all moments at which a death may come."""
        return (USUAL_INTERVAL_S if self.saved_every is None else self.saved_every * self.healthy_s) / 2


def priced(deaths: Deaths, bench: StepRuns, graph: TaskGraph, saved: Saved) -> tuple[FaultFigures, ...]:
    """What the variant's deaths cost, in the order of time; nothing where it has none.

    Args:
        deaths: Of the variant.
        bench: That runs its steps.
        graph: The step.
        saved: What a checkpoint takes.
    """
    if not deaths.survived and not deaths.fatal:
        return ()
    healthy = bench.step(graph, bench.job.cluster, seed=bench.seed, faults=deaths.plain)
    section = bench.job.training.checkpoint
    every = None if section is None else section.interval_steps
    costs = Costs(healthy.makespan_ps * PS, every, saved, recovery_of(bench.job))
    found = [_survived(death, deaths, bench, graph, costs) for death in deaths.survived]
    found += [_fatal(death, bench.job.cluster, costs) for death in deaths.fatal]
    return tuple(sorted(found, key=lambda one: one.at_s))


def _survived(death: Death, deaths: Deaths, bench: StepRuns, graph: TaskGraph, costs: Costs) -> FaultFigures:
    cluster = bench.job.cluster
    hit = bench.step(graph, cluster, seed=bench.seed, faults=(*deaths.plain, death.fault))
    stall_s = max(hit.makespan_ps * PS - costs.healthy_s, 0.0)
    slower = _slower(death, deaths, bench, graph)
    again = sum(begin_s >= hit.makespan_ps * PS for begin_s in death.begins_s)
    within = len(death.begins_s) - again
    rest_s = 0.0 if death.ends_s is None or again else max(death.ends_s - hit.makespan_ps * PS, 0.0)
    parts = (
        ("traffic stands still until it has other paths, and has fewer of them in this step", stall_s),
        ("the same in later steps, each time that it comes", again * stall_s / max(within, 1)),
        ("later steps, with fewer paths", rest_s * (1 - 1 / slower)),
    )
    known_s, over_s = _known_s(death, cluster), death.spell_s
    outcome = "rerouted" if over_s is None or known_s < over_s else "waited"
    return _figures(
        death,
        cluster,
        outcome=outcome if stall_s > 0 or slower > 1 else "unnoticed",
        detection_s=known_s if over_s is None else min(known_s, over_s),
        stall_s=stall_s,
        slower=slower,
        parts=parts,
    )


def _known_s(death: Death, cluster: Cluster) -> float:
    """From the death until its traffic moves by other paths."""
    outages = outages_of(enumerate(death.effects), cluster)
    return min((one.withdrawn_ps - one.begin_ps) * PS for one in outages if one.withdrawn_ps is not None)


def _slower(death: Death, deaths: Deaths, bench: StepRuns, graph: TaskGraph) -> float:
    """A later step, which begins with routes that know, over a healthy one, in the flow engine."""
    flow, seed = _on_flow(bench), bench.seed
    faults = (*deaths.plain, from_the_start(death.fault))
    plain = flow.step(graph, bench.job.cluster, seed=seed, faults=deaths.plain)
    try:
        later = flow.step(graph, _knowing(bench.job.cluster), seed=seed, faults=faults)
    except Hung:  # while it lasts nothing moves, and it does not last until the job is aborted
        return 1.0
    return max(later.makespan_ps / plain.makespan_ps, 1.0)


def _knowing(cluster: Cluster) -> Cluster:
    """The cluster with fabrics that know of a death at once."""
    return cluster.with_networks(
        {
            id(network): replace(network, fabric=replace(network.fabric, reroute_ps=0, retransmit_ps=0))
            for network in cluster.networks
        }
    )


def _fatal(death: Death, cluster: Cluster, costs: Costs) -> FaultFigures:
    hung_s = cast("float", death.hung_s)
    abort_s = costs.recovery.process_s if death.kills else costs.recovery.abort_s
    parts = (
        ("this step until it hangs", hung_s),
        ("until the job is aborted", abort_s),
        *_restart(death, cluster, costs),
    )
    return _figures(
        death,
        cluster,
        outcome="aborted",
        detection_s=hung_s - death.at_s + abort_s,
        stall_s=costs.healthy_s - min(hung_s, costs.healthy_s) + abort_s,
        slower=1.0,
        parts=parts,
    )


def _restart(death: Death, cluster: Cluster, costs: Costs) -> tuple[tuple[str, float], ...]:
    recovery, hosts = costs.recovery, death.hosts(cluster)
    spared = 0 < hosts <= recovery.spares
    left_s = recovery.repair_s if death.ends_s is None else max(death.ends_s - death.at_s - recovery.abort_s, 0.0)
    place = ("until a spare has its place", recovery.schedule_s) if spared else ("until it is repaired", left_s)
    if not spared and death.ends_s is not None:
        place = ("until it is back", max(left_s - recovery.diagnosis_s, 0.0))
    return (
        ("diagnosis", recovery.diagnosis_s),
        place,
        ("start of the processes", recovery.init_s),
        ("loading the checkpoint", costs.saved.read_s),
        ("work since the last checkpoint, on the mean", costs.mean_lost_s),
    )


def _figures(
    death: Death,
    cluster: Cluster,
    *,
    outcome: str,
    detection_s: float,
    stall_s: float,
    slower: float,
    parts: Sequence[tuple[str, float]],
) -> FaultFigures:
    listed = tuple(LostTime(cause=cause, seconds=seconds) for cause, seconds in parts if seconds > 0)
    lost_s = sum(part.seconds for part in listed)
    return FaultFigures(
        what=words(death.fault),
        at_s=death.at_s,
        outcome=outcome,
        hosts=death.hosts(cluster),
        detection_s=detection_s,
        stall_s=stall_s,
        slower=slower,
        lost_s=lost_s,
        parts=listed,
    )


def sentences(found: Sequence[FaultFigures]) -> list[str]:
    """What a user should know of each death, for warnings."""
    return [_sentence(one) for one in found]


def _sentence(one: FaultFigures) -> str:
    begin = f"{one.what} at {span(one.at_s)}"
    if one.outcome == "unnoticed":
        return f"{begin}: nothing of this step crosses it"
    if one.outcome == "aborted":
        most = max(one.parts, key=lambda part: part.seconds)
        return (
            f"{begin} ends the job, aborted {span(one.detection_s)} later: {span(one.lost_s)} lost, most of it"
            f" {span(most.seconds)} {most.cause}"
        )
    how = "has other paths" if one.outcome == "rerouted" else "is back"
    slower = f"; later steps take {one.slower:.3g} times as long" if one.slower > 1 + 1e-3 else ""
    return (
        f"{begin}: traffic stands still for {span(one.detection_s)} until it {how}, the step is"
        f" {span(one.stall_s)} longer{slower}"
    )
