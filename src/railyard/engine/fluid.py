"""Both engines of this version are one: fluid communications, with or without contention."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import railyard._core as _core
from railyard.cluster.fault import DegradeLink, Late, LinkDown, LinkRate, SwitchDown
from railyard.cluster.fault.cluster_places import ClusterPlaces, LinkPlaces
from railyard.engine import probing, symmetric
from railyard.engine.background import Bursts, foreground, prioritized, until, with_background
from railyard.engine.contract import Jitter, Probes, Progress, jitter_keys, joint
from railyard.engine.faults import FaultColumns, effects_of, expand, outages_of, placed, slowed
from railyard.engine.lowering import Free, LoweredGraph, core_graph, core_of, freed, lower
from railyard.engine.probing import ReroutedTraffic, rerouted
from railyard.graph import Kind, Record, Stream
from railyard.graph.symmetry import CopiesRecord, copies_of
from railyard.kit.errors import Hung, InputError, SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.cluster.links import LinkTable
    from railyard.collective.policy import CollectivePolicy
    from railyard.engine.background import Bursts
    from railyard.engine.faults import Row
    from railyard.graph import Job, MergedJobs, TaskGraph
    from railyard.graph.symmetry import GraphCopies


_STREAM = 0x57A11
_SIX = 6.0
_MOST = 100_000
"""Interruptions of one step beyond which a rate is no rate of rare events."""


def swung(merged: MergedJobs, jitter: Jitter, seed: int) -> TaskGraph:
    """The graph with every computation of a job as much longer or shorter as this step's are."""
    if jitter.step_sigma <= 0:
        return merged.graph
    duration_ps = merged.graph.duration_ps.copy()
    for job, first in zip(merged.jobs, merged.task_ptr, strict=False):
        rows = slice(first, first + len(job.work))
        draw = float(np.clip(_random(seed, job.seed).standard_normal(), -_SIX, _SIX))
        factor = max(1.0 + jitter.step_sigma * draw, 0.0)
        duration_ps[rows] = np.rint(duration_ps[rows] * factor)
    return replace(merged.graph, duration_ps=duration_ps)


def drawn(merged: MergedJobs, jitter: Jitter, seed: int) -> tuple[Late, ...]:
    """The interruptions of one step of every job, by the seed."""
    found: list[Late] = []
    for job, to in zip(merged.jobs, merged.ranks, strict=True):
        found += [replace(late, rank=int(to[late.rank])) for late in _of_job(job, jitter, seed)]
    return tuple(found)


def _of_job(job: Job, jitter: Jitter, seed: int) -> Iterator[Late]:
    graph = job.work
    computes = (graph.kind == Kind.COMPUTE) & np.isin(graph.stream, (Stream.COMPUTE, Stream.FREE))
    busy_ps = np.bincount(graph.rank[computes], graph.duration_ps[computes], minlength=graph.ranks)
    longest_ps = float(busy_ps.max(initial=0.0))
    for number, kind in enumerate(jitter.stalls):
        rng = _random(seed, job.seed, number + 1)
        count = min(int(rng.poisson(kind.rate_hz * graph.ranks * longest_ps * 1e-12)), _MOST)
        rank = rng.integers(0, graph.ranks, count)
        at_ps = (rng.random(count) * busy_ps[rank]).astype(np.int64) + job.start_ps
        by_ps = np.rint(-np.log1p(-rng.random(count)) * kind.mean_s * 1e12).astype(np.int64)
        yield from (Late(int(r), int(by), int(at)) for r, by, at in zip(rank, by_ps, at_ps, strict=True) if by > 0)


def _random(seed: int, job_seed: int, *number: int) -> np.random.Generator:
    """The draws of one job; those of a job without a seed are the run's."""
    return np.random.default_rng([seed, _STREAM, *number, *((job_seed,) if job_seed else ())])


WORDS = {
    "healthy": "nothing in the way",
    "slower link": "a slower link",
    "dead spine": "a dead link",
    "slow NIC": "a slow NIC",
    "background": "background traffic",
    "incast": "an incast",
    "oversubscription": "oversubscribed links between switches",
    "distance": "long distances between sites",
}

OVER = 1.1
"""Oversubscription that is compared with packets; uneven ports of leafs make a few per cent."""

_WHAT = {"healthy": "times", "oversubscription": "times", "distance": "times"}
"""What was compared, by effect: times, or slowdowns over a healthy network."""


def doubts(cluster: Cluster, faults: Sequence[Fault], background: Sequence[Bursts]) -> Iterator[str]:
    """A warning for every situation of a run in which another engine should be asked.

    Args:
        cluster: Whose back-end fabric answers.
        faults: Of the run.
        background: Other traffic of the run.
    """
    fabric = cluster.fabric
    if any(item.network == "back_end" for item in cluster.spec.background):
        yield (
            "`cluster.background` only reduces capacity: the engine `packet` simulates how its packets"
            " and the job's delay each other"
        )
    for situation in _situations(cluster, faults, background):
        spread = fabric.behaves.spread.get(situation)
        if spread is None:
            yield (
                f"how `{fabric.name}` behaves with {WORDS[situation]} was not compared with packets: "
                "use the engine `packet`"
            )
        elif fabric.behaves.uncertain(situation):
            low, high = spread
            yield (
                f"with {WORDS[situation]} {_WHAT.get(situation, 'slowdowns')} on `{fabric.name}` lie {low:+.0%} to"
                f" {high:+.0%} from those of packets: use the engine `packet`"
            )


def _situations(cluster: Cluster, faults: Sequence[Fault], background: Sequence[Bursts]) -> list[str]:
    found = ["healthy"] if "healthy" in cluster.fabric.behaves.spread else []
    ideal = cluster.is_bound
    nics = {_of_nics(cluster, fault) for fault in faults if isinstance(fault, DegradeLink)}
    if not ideal:
        found += [word for word, is_nic in (("slower link", False), ("slow NIC", True)) if is_nic in nics]
    if not ideal and any(isinstance(fault, LinkDown | SwitchDown) for fault in faults):
        found.append("dead spine")
    if any(one.pattern != "incast" for one in background):
        found.append("background")
    if any(one.pattern == "incast" for one in background):
        found.append("incast")
    if not ideal and cluster.plans["back_end"].border is not None:
        found.append("distance")
    if not ideal and _oversubscribed(cluster):
        found.append("oversubscription")
    return found


def _of_nics(cluster: Cluster, fault: DegradeLink) -> bool:
    """Whether the links of a fault all join NICs to their switches."""
    links, network = cluster.links, cluster.back_end
    first = int(links.tier[network.link_offset])
    access = [first + at for at, tier in enumerate(network.tiers) if tier.kind == "access"]
    found = np.concatenate([effect.link for effect in fault.effects(ClusterPlaces.of(cluster))])
    return bool(np.isin(links.tier[found], access).all())


def _oversubscribed(cluster: Cluster) -> bool:
    """Whether some tier between switches of a site carries less than what is below it brings."""
    long_links = {tier.name for tier in cluster.back_end.tiers if tier.kind == "long"}
    tiers = cluster.back_end.wiring.oversubscription()
    return any(over > OVER for name, over in tiers.items() if name not in long_links)


SHOWN = 8  # tasks named in a message


@dataclass(frozen=True)
class FaultChanges:
    """Changes of a run by faults.

    Attributes:
        rows: Changes of state.
    """

    rows: tuple[Row, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class FluidEngine:
    """An engine of the C++ core; the record of `flow` and `analytic`. See `Engine` for the contract.

    Attributes:
        name: What users write.
        summary: One sentence.
        contention: Whether communications share links or each has the network to itself.
        left_out: What its result does not contain.
        background: Other traffic on the back-end while the jobs would run without it.
        free: Communications that take no time.
    """

    name: str
    summary: str
    contention: bool
    left_out: tuple[str, ...]
    background: tuple[Bursts, ...] = ()
    free: Free = "nothing"

    def simulate(
        self,
        jobs: Sequence[Job],
        cluster: Cluster,
        *,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        probes: Probes = Probes(),  # noqa: B008 - frozen
        jitter: Jitter = Jitter(),  # noqa: B008 - frozen
        policy: CollectivePolicy | None = None,
        progress: Progress | None = None,
    ) -> Record:
        """Runs all jobs to their end; see `Engine.simulate`."""
        merged, arranged = joint(jobs, cluster)
        if not (faults or self.background) and jitter == Jitter():
            timeline = self._of_copies(merged, arranged, seed, probes, policy, progress)
            if timeline is not None:
                return timeline
        there = placed(faults, merged.every_rank)
        effects = effects_of(there, ClusterPlaces.of(arranged))
        outages = outages_of(effects, arranged)
        known = slowed(arranged, effects)
        lowered = lower(merged.graph, known, policy)
        found = rerouted(lowered, outages, merged.graph, known, policy) if outages else ReroutedTraffic(lowered)
        stalls = effects_of(drawn(merged, jitter, seed), ClusterPlaces.of(arranged)) if jitter.stalls else []
        rows = [*expand([*effects, *_unnumbered(stalls)], arranged.links, outages), *found.rows]
        changes = FaultChanges(tuple(rows), there)
        played = partial(
            self.played,
            links=arranged.links,
            changes=changes,
            seed=seed,
            probes=probes,
            jitter=jitter,
            progress=progress,
        )
        lowered = prioritized(freed(found.lowered, merged.graph, arranged.links, self.free), found.rows, merged)
        timeline = played(merged, lowered)
        if self.background:
            bursts = tuple(until(arranged, self.background, timeline.makespan_ps))
            timeline = foreground(played(*with_background(merged, lowered, arranged, bursts)), merged)
        return self._with_remarks(timeline, arranged, faults)

    def _with_remarks(self, record: Record, cluster: Cluster, faults: Sequence[Fault]) -> Record:
        record.meta["left_out"] = [*self.left_out, *cluster.fabric.left_out]
        record.meta["warnings"] += [*cluster.remarks, *doubts(cluster, faults, self.background)]
        return record

    def _of_copies(  # noqa: PLR0917 - what `simulate` takes
        self,
        merged: MergedJobs,
        cluster: Cluster,
        seed: int,
        probes: Probes,
        policy: CollectivePolicy | None,
        progress: Progress | None,
    ) -> Record | None:
        """Runs a job whose copies all do the same; None where they do not."""
        graph, links = merged.graph, cluster.links
        symmetry = copies_of(graph)
        if symmetry is None:
            return None

        def reported(done: int, now_ps: int) -> None:
            if progress is not None:
                progress(done * len(graph) // len(symmetry.graph), len(graph), now_ps)

        lowered = freed(lower(symmetry.requests, cluster, policy), symmetry.requests, links, self.free)
        asked = replace(symmetry, graph=replace(symmetry.graph, loss=graph.loss))
        found = self.first_copy(asked, lowered, links, probes=probes, progress=reported)
        if found is None:
            return None
        optional = _optional(asked.graph, found.quotient.lowered, found.result)
        first = Record.of_tasks(asked.graph, found.result.start_ps, found.result.end_ps, optional=optional)

        def whole() -> Record:
            result = symmetric.CopiesRun.of(found, symmetry, probing.wanted(probes, links))
            over = {name: symmetry.over_tasks(values) for name, values in optional.items() if name != "blocker"}
            every, nothing = {"blocker": result.blocker, **over}, FaultChanges((), ())
            made = self._recorded(merged, every, result, links, nothing, seed=seed, probes=probes, jitter=Jitter())
            return self._with_remarks(made, cluster, ())

        return CopiesRecord.known(graph, first, whole)

    def first_copy(
        self,
        symmetry: GraphCopies,
        lowered: LoweredGraph,
        links: LinkTable,
        *,
        probes: Probes,
        progress: Callable[[int, int], None],
    ) -> symmetric.FirstCopyRun | None:
        """Runs the first copy; see `symmetric.first_copy`."""
        return symmetric.first_copy(symmetry, lowered, links, probes=probes, progress=progress)

    def run(
        self,
        merged: MergedJobs,
        lowered: LoweredGraph,
        links: LinkTable,
        *,
        seed: int = 0,
        faults: Sequence[Fault] = (),
        probes: Probes = Probes(),  # noqa: B008 - frozen
        jitter: Jitter = Jitter(),  # noqa: B008 - frozen
        progress: Progress | None = None,
    ) -> Record:
        """Runs jobs whose communications have been lowered already, for instance once for many seeds.

        Raises:
            InputError: Columns, faults or probes do not fit together, or a link dies, which asks for other paths.
            SimulationError: The run cannot finish.
        """
        places = LinkPlaces(links, merged.graph.ranks)
        effects = effects_of(faults, places)
        if any(isinstance(effect, LinkRate) and effect.factor == 0 for _, effect in effects):
            raise InputError("links that die ask for other paths, which `simulate` finds", key="faults")
        stalls = effects_of(drawn(merged, jitter, seed), places) if jitter.stalls else []
        changes = FaultChanges(tuple(expand([*effects, *_unnumbered(stalls)], links)), tuple(faults))
        return self.played(merged, lowered, links, changes, seed=seed, probes=probes, jitter=jitter, progress=progress)

    def played(
        self,
        merged: MergedJobs,
        lowered: LoweredGraph,
        links: LinkTable,
        changes: FaultChanges,
        *,
        seed: int,
        probes: Probes,
        jitter: Jitter,
        progress: Progress | None,
    ) -> Record:
        """Runs a graph with the changes of state that faults make."""
        graph, columns = merged.graph, FaultColumns.of(changes.rows)
        probed = probing.wanted(probes, links)
        keys = jitter_keys(merged)
        try:
            result = _core.simulate(
                core_graph(swung(merged, jitter, seed), lowered, keys.task, keys.rank),
                core_of(lowered.entities),
                links.rate_bps,
                faults=columns.core(),
                seed=_seed(seed),
                task_sigma=float(jitter.sigma),
                rank_sigma=float(jitter.rank_sigma),
                contention=self.contention,
                probe_links=probed,
                probe_samples=probes.windows or probes.samples,
                count_full=probes.full,
                progress=None if progress is None else lambda done, now_ps: progress(done, len(graph), now_ps),
            )
        except ValueError as error:  # the core's word for columns that do not fit together
            raise InputError(str(error)) from error
        _raise_if_stuck(result, graph, columns)
        if progress is not None:
            progress(len(graph), len(graph), int(result.end_ps.max(initial=0)))
        optional = _optional(graph, lowered, result)
        return self._recorded(merged, optional, result, links, changes, seed=seed, probes=probes, jitter=jitter)

    def _recorded(
        self,
        merged: MergedJobs,
        optional: dict[str, NDArray[np.integer]],
        result: _core.Result | symmetric.CopiesRun,
        links: LinkTable,
        changes: FaultChanges,
        *,
        seed: int,
        probes: Probes,
        jitter: Jitter,
    ) -> Record:
        columns = FaultColumns.of(changes.rows)
        about = _about(seed, changes.faults, jitter, columns, result)
        return merged.record(
            result.start_ps,
            result.end_ps,
            optional=optional,
            tables={"links": probing.counters(result, columns, links), **probing.series(result, probes, links)},
            meta={"engine": self.name, **about, "left_out": list(self.left_out)},
        )


def _optional(graph: TaskGraph, lowered: LoweredGraph, result: _core.Result) -> dict[str, NDArray[np.integer]]:
    optional: dict[str, NDArray[np.integer]] = {
        "blocker": result.blocker,
        "alone_ps": np.append(lowered.entities.even_ps, 0)[lowered.entity],  # entity -1, a computation, finds the 0
        "latency_ps": np.append(lowered.entities.even_latency_ps, 0)[lowered.entity],
    }
    if graph.loss_index is not None:
        optional["slowed_ps"] = result.contention_ps
    return optional


def _seed(seed: int) -> int:
    if not 0 <= seed < 1 << 64:
        raise InputError("expected an integer seed", key="seed", found=seed, allowed="0 to 2^64 - 1")
    return seed


def _about(
    seed: int,
    faults: Sequence[Fault],
    jitter: Jitter,
    changes: FaultColumns,
    result: _core.Result | symmetric.CopiesRun,
) -> dict[str, object]:
    origins = [int(changes.origin[row]) for row in result.idle_faults]
    idle = [fault for origin in origins if 0 <= origin < len(faults) and isinstance(fault := faults[origin], Late)]
    return {
        "seed": seed,
        "jitter": asdict(jitter),
        "warnings": [f"rank {fault.rank} has no computation left that could be late" for fault in idle],
        "events": result.events,
    }


def _unnumbered(effects: Sequence[tuple[int, Effect]]) -> list[tuple[int, Effect]]:
    """Effects of what is nobody's fault."""
    return [(-1, effect) for _, effect in effects]


def _raise_if_stuck(result: _core.Result, graph: TaskGraph, changes: FaultColumns) -> None:
    if not (result.cycle or result.stalled):
        return
    tasks = [describe(graph, int(task)) for task in result.stuck[:SHOWN]]
    more = f", and {len(result.stuck) - SHOWN} more" if len(result.stuck) > SHOWN else ""
    if result.cycle:
        raise SimulationError(f"{len(result.stuck)} tasks form a dependency cycle: {' <- '.join(tasks)}{more}")
    dead_ps = changes.at_ps[(changes.kind == 0) & (changes.value == 0)]
    first = int(np.argmin(result.stuck_since_ps))
    since_ps = max(int(result.stuck_since_ps[first]), int(dead_ps.min()) if dead_ps.size else 0)
    raise Hung(
        f"{len(result.stuck)} communications wait for links without capacity: {', '.join(tasks)}{more}",
        since_ps,
        describe(graph, int(result.stuck[first])),
    )


def describe(graph: TaskGraph, task: int) -> str:
    """A task in words: `task 12 (forward attention, compute on rank 3)`."""
    kind = Kind(graph.kind[task])
    label = graph.labels[graph.label[task]]
    where = f"communicator {graph.rank[task]}" if kind is Kind.COLLECTIVE else f"rank {graph.rank[task]}"
    return f"task {task} ({label.phase} {label.op}, {kind.name.lower()} on {where})"
