"""The engine `packet`: a task graph on a cluster, every packet of its communications, every queue."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.cluster.fault import Late, LinkRate, SlowAccelerator
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.cluster.links import Entities, LinkTable
from railyard.collective.policy import CollectivePolicy
from railyard.engine.contract import Jitter, Probes, Progress, engines, joint
from railyard.engine.faults import effects_of, expand
from railyard.engine.faults import placed as placed_faults
from railyard.engine.flow import FLOW
from railyard.engine.lowering import LoweredGraph, lower
from railyard.engine.packet.assembly import (
    HostNames,
    LoweredTraffic,
    assemble,
    flows_of,
    full_ps,
    load_windows,
    samples_of,
    thinned,
)
from railyard.engine.packet.fabrics import classed, following, scale_up_settings, settings_of, unclassed
from railyard.engine.packet.faults import link_faults
from railyard.engine.packet.lowering import Lowering
from railyard.engine.packet.placing import PlacedNetwork, crossing, lost, place, sent_share
from railyard.engine.packet.plan import Slicing, unsent_ps
from railyard.engine.packet.running import alone, run, with_background
from railyard.engine.packet.samples import LEAST, Occasions
from railyard.engine.packet.slices import (
    LEAST_HOPS,
    IdleNetwork,
    by_flow,
    durations_ps,
    fits_budget,
    flow_ps,
    link_load,
    measured,
    modelled,
    notes,
    sliced,
)
from railyard.graph import Kind, MergedJobs, Record
from railyard.kit.errors import InputError, Stalled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Effect, Fault
    from railyard.engine.background import Bursts
    from railyard.engine.packet.records import PacketNetwork
    from railyard.engine.packet.samples import SampledStep
    from railyard.engine.packet.settings import Settings
    from railyard.graph import Job, TaskGraph

BUDGET_HOPS = 3e8
"""Packets times links that a run may take by default: half a minute to a minute of one core."""

BUDGET_SENDS = 2_000_000
"""Rows of traffic that a run may have by default; each takes about 400 bytes."""

LEFT_OUT = (
    "scale-up links as packets: a rank's channels share its links at their full rate, and streams of one rank do not "
    "slow one another there",
    "jitter of communications other than that of their packets: only computations vary",
)


@dataclass(frozen=True, eq=False)
class _Case:
    """Jobs on a packet network.

    Attributes:
        healthy: The network without faults.
        placed: The network with the links that are degraded during the entire run.
        effects: The other faults.
        left_out: What the settings do not model.
    """

    merged: MergedJobs
    lowering: Lowering
    healthy: PacketNetwork
    placed: PlacedNetwork
    effects: list[Effect]
    settings: Settings
    left_out: list[str]

    @property
    def cluster(self) -> Cluster:
        return self.lowering.cluster

    @property
    def graph(self) -> TaskGraph:
        return self.merged.graph

    @property
    def alone_ps(self) -> NDArray[np.int64]:
        """int64[n], how long each communication takes alone in the cost model."""
        return self.by_task(self.lowering.lowered.entities.even_ps)

    def by_task(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values of communications by task; 0 for computations."""
        return np.append(values, 0)[self.lowering.lowered.entity]


@dataclass(frozen=True, eq=False)
class _RunTraffic:
    """What is sent in a run.

    Attributes:
        chosen: Which communications stand for others; None: every one is simulated.
        sends: Rows of the jobs' own traffic; other traffic follows them.
        sampled: int64[], links whose queues are sampled, in the packet network's numbers.
        settings: With samples and with the faults of the run.
    """

    slicing: Slicing
    chosen: SampledStep | None
    traffic: LoweredTraffic
    sends: int
    sampled: NDArray[np.int64]
    settings: Settings


@dataclass(frozen=True)
class PacketEngine:
    """The engine; the record of `packet`. See `Engine` for the contract.

    Attributes:
        settings: Of transport and switches; None: those of the cluster's fabric.
        stands_in: What these settings are not; for the result's list of what is left out.
        budget_hops: Packets times links that may be simulated. Of a larger step repeats are sampled, and what is still
            more is sliced. Measuring what a slice adds takes up to as many again, or `LEAST_HOPS` where that is more.
        budget_sends: Rows of traffic.
        background: Other traffic on the back-end while the step would run on an empty network.
        samples: About so many times the queues of the busiest links are sampled; 0 for never.
        scale_up: `model`: scale-up transfers take the time of their bytes on their rank's links; `packets`: they are
            flows on these links.
        repeats: Whether what repeats itself exactly is not simulated again; the record is the same.
    """

    settings: Settings | None = None
    stands_in: tuple[str, ...] = ()
    budget_hops: float = BUDGET_HOPS
    budget_sends: int = BUDGET_SENDS
    background: tuple[Bursts, ...] = ()
    samples: int = 120
    sampled_links: int = 64
    scale_up: Literal["model", "packets"] = "model"
    online: bool = False
    repeats: bool = True

    @property
    def name(self) -> str:
        """What users write."""
        return "packet"

    @property
    def summary(self) -> str:
        """How it finds times, in one sentence."""
        return "Every packet and every queue of the network; collectives as chunked, pipelined sends."

    @property
    def left_out(self) -> tuple[str, ...]:
        """What its result does not contain."""
        return LEFT_OUT if self.scale_up == "model" else LEFT_OUT[1:]

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
        _check(jobs, probes)
        case = self._case(*joint(jobs, cluster), policy or CollectivePolicy(), (seed, jitter), faults)
        sent = self._sent(case, probes)
        tasks = len(case.graph)
        result = run(
            case.placed.network,
            sent.traffic.traffic,
            sent.settings,
            repeats=self.repeats,
            progress=None if progress is None else lambda _events, now_ps: progress(0, tasks, now_ps),
            retuning=following(sent.settings) if self.online else None,
        )
        _raise_if_stuck(result, sent.traffic, HostNames(case.cluster.ranks, case.placed.storage, case.placed.scale_up))
        found = self._record(case, sent, result, probes, {"engine": self.name, "seed": seed, "jitter": asdict(jitter)})
        if progress is not None:
            progress(tasks, tasks, found.makespan_ps)
        return found

    def _case(
        self,
        merged: MergedJobs,
        cluster: Cluster,
        policy: CollectivePolicy,
        drawn: tuple[int, Jitter],
        faults: Sequence[Fault],
    ) -> _Case:
        """The jobs on the packet network, whose links already have the rates that they keep during the entire run."""
        faults = placed_faults(faults, merged.every_rank)
        effects = [effect for _, effect in effects_of(faults, ClusterPlaces.of(cluster))]
        lowered = lower(merged.graph, cluster, policy)
        duration_ps = _durations(merged, cluster, lowered, drawn, faults)
        settings, left_out = self._settings(cluster, drawn[0])
        placed = place(
            cluster,
            scale_up=self.scale_up == "packets",
            packet_bytes=settings.mtu_bytes,
            header_bytes=settings.header_bytes,
            framed=self.scale_up == "packets" and scale_up_settings(cluster) is not None,
        )
        return _Case(
            merged=merged,
            lowering=Lowering(merged.graph, cluster, lowered, policy, duration_ps),
            healthy=placed.network,
            placed=_degraded(placed, cluster, [effect for effect in effects if _is_of_all_time(effect)]),
            effects=[effect for effect in effects if not _is_of_all_time(effect)],
            settings=replace(settings, base_rtt_ps=settings.base_rtt_ps or placed.base_rtt_ps),
            left_out=left_out,
        )

    def _sent(self, case: _Case, probes: Probes) -> _RunTraffic:
        """The flows of the jobs, sliced to fit the budgets, with other traffic, and what is sampled meanwhile."""
        lowering, placed, cluster, settings = case.lowering, case.placed, case.cluster, case.settings
        whole = Slicing(packets=self.scale_up == "packets", packet_bytes=settings.mtu_bytes - settings.header_bytes)
        chosen = self._chosen(case, whole)
        skipped = None if chosen is None else chosen.skipped
        slicing, blocks = sliced(lowering, placed, whole, (self.budget_hops, self.budget_sends), skipped)
        bench = IdleNetwork(cluster, placed, settings, lowering.policy)
        blocks = measured(bench, lowering, blocks, slicing, max(self.budget_hops, LEAST_HOPS))
        unsent = unsent_ps(case.merged, lowering.lowered, cluster, case.alone_ps)
        if chosen is not None:
            unsent = np.where(chosen.skipped, chosen.occasions.took_ps, unsent)
        traffic = classed(assemble(lowering, placed, blocks, slicing, unsent), cluster)
        traffic = _slow_nics(traffic, case.healthy, placed.network)
        sends = len(traffic.traffic)
        others = bool(self.background) or sent_share(cluster) > 0
        expected_ps = flow_ps(lowering, slicing) if others or self.samples or probes.full else 0
        bursts = (*self.background, *crossing(cluster, expected_ps))
        sampled = self._sampled(lowering, placed, everywhere=probes.full)
        often = max(self.samples, samples_of(len(sampled)) if probes.full else 0)
        settings = replace(
            settings,
            sample_ps=max(expected_ps // often, 1000) if len(sampled) else None,
            sample_links=tuple(sampled.tolist()),
            faults=link_faults(case.effects, placed, slicing.factor),
            reroute_ps=round(cluster.fabric.reroute_ps / slicing.factor),
        )
        return _RunTraffic(
            slicing, chosen, with_background(traffic, cluster, bursts, expected_ps), sends, sampled, settings
        )

    def _chosen(self, case: _Case, whole: Slicing) -> SampledStep | None:
        """Which communications are simulated: as many of each kind as the budget holds, at least `LEAST`.

        All of them where they fit, or where conditions change while the step runs.
        """
        lowering = case.lowering
        if self.online or case.effects or fits_budget(lowering, whole, self.budget_hops):
            return None
        occasions = Occasions.of(lowering, case.merged.job, by_flow(lowering), packets=whole.packets)
        most, found = LEAST, occasions.chosen(LEAST)
        while not found.simulated.all():
            most *= 2
            more = occasions.chosen(most)
            if not fits_budget(lowering, whole, self.budget_hops, more.skipped):
                return found
            found = more
        return None

    def _record(
        self, case: _Case, sent: _RunTraffic, result: Record, probes: Probes, meta: dict[str, object]
    ) -> Record:
        """The times of the tasks, the load of the links, and their flows, in the time of the whole run."""
        graph, cluster, placed = case.graph, case.cluster, case.placed
        slicing, sampled = sent.slicing, sent.sampled
        background = alone(placed.network, sent.traffic, sent.sends, sent.settings)
        took_ps = durations_ps(graph, sent.traffic, result, slicing, case.lowering.duration_ps)
        left_out = notes(slicing)
        if sent.chosen is not None:
            drawn = sent.chosen.occasions.drawn
            took_ps, *known = drawn(sent.chosen.simulated, took_ps, partial(_timed, graph), sent.settings.seed)
            left_out.append(sent.chosen.note(*known))
        timed = _timed(graph, took_ps)
        links, over_time = {"bytes": _link_bytes(case, sent, result)}, {}
        if probes.full and "queue_series" in result.tables:
            full = full_ps(result, placed, sampled, len(cluster.links), sent.settings.mtu_bytes)
            links["full_ps"] = np.rint(full * slicing.factor).astype(np.int64)
            if probes.windows:
                over_time["link_windows"] = load_windows(
                    result, placed, sampled, cluster.links.physical, most=probes.windows, factor=slicing.factor
                )
            kept = self._sampled(case.lowering, placed)
            result, sampled = thinned(result, sampled, kept, self.samples), kept
        return case.merged.record(
            timed.start_ps,
            timed.end_ps,
            optional={
                "blocker": timed.column("blocker"),
                "alone_ps": case.alone_ps,
                "latency_ps": case.by_task(case.lowering.lowered.entities.even_latency_ps),
            },
            tables={"links": links, **over_time},
            parts={"flows": flows_of(sent.traffic, result, placed, cluster, sampled, background=background)},
            meta={
                **meta,
                "warnings": [*cluster.remarks, *lost(cluster)],
                "events": result.meta["events"],
                "left_out": [*case.left_out, *left_out, *self.left_out, *placed.left_out],
                "slice": slicing.factor,
                "coarser": slicing.coarser,
            },
        )

    def _sampled(self, lowering: Lowering, placed: PlacedNetwork, *, everywhere: bool = False) -> NDArray[np.int64]:
        """The links whose queues are sampled: those that would be busiest, in the packet network's numbers."""
        if self.samples == 0 and not everywhere:
            return np.empty(0, np.int64)
        links = lowering.cluster.links
        load = links.to_physical(link_load(lowering)) / links.rate_bps[: links.physical]
        known = np.flatnonzero(placed.link >= 0)
        known = known[load[placed.link[known]] > 0]
        order = np.argsort(-load[placed.link[known]], kind="stable")
        return np.sort(known[order[: len(order) if everywhere else self.sampled_links]])

    def _settings(self, cluster: Cluster, seed: int) -> tuple[Settings, list[str]]:
        if self.settings is not None:
            return replace(self.settings, seed=seed), list(self.stands_in)
        own = scale_up_settings(cluster) if self.scale_up == "packets" else None
        if own is not None:
            return replace(own[0], seed=seed), own[1]
        fabric = cluster.fabric
        settings = replace(settings_of(cluster, fabric), seed=seed, rdma_qps=1)  # plans have a leg for every queue pair
        return settings, [*fabric.packets.left_out, *unclassed(cluster, settings.switching)]


def _check(jobs: Sequence[Job], probes: Probes) -> None:
    if probes.samples:
        raise InputError(
            "the packet engine's own probes are set with its settings", key="probes.samples", found=probes.samples
        )
    if len({job.priority for job in jobs}) > 1:
        raise InputError(
            "the packet engine has one class of traffic for all jobs",
            key="priority",
            found=sorted({job.priority for job in jobs}),
            hint="the engine `flow` has eight",
        )


def _durations(
    merged: MergedJobs, cluster: Cluster, lowered: LoweredGraph, drawn: tuple[int, Jitter], faults: Sequence[Fault]
) -> NDArray[np.int64]:
    """Durations of computations; with jitter, faults or overlapping communications those of the flow engine."""
    graph, (seed, jitter) = merged.graph, drawn
    others = [fault for fault in faults if isinstance(fault, Late | SlowAccelerator)]
    if not others and jitter == Jitter() and graph.loss_index is None:
        return graph.duration_ps
    timeline = FLOW.run(merged, lowered, cluster.links, seed=seed, faults=others, jitter=jitter)
    return np.where(graph.kind == Kind.COMPUTE, timeline.end_ps - timeline.start_ps, graph.duration_ps)


def _is_of_all_time(effect: Effect) -> bool:
    """Whether links have another rate during the entire run."""
    spell = effect.spell if isinstance(effect, LinkRate) and effect.factor > 0 else None
    return spell is not None and spell.begin_ps == 0 and spell.end_ps is None


def _degraded(placed: PlacedNetwork, cluster: Cluster, effects: Sequence[Effect]) -> PlacedNetwork:
    """The network with the rates of links that are degraded during the entire run."""
    if not effects:
        return placed
    factor = np.ones(len(cluster.links) + 1)
    for _, _, link, kept, _ in expand(enumerate(effects), cluster.links):
        factor[link] = kept
    rate = np.maximum(np.rint(placed.network.rate_bps * factor[placed.link]), 1).astype(np.int64)
    return replace(placed, network=replace(placed.network, rate_bps=rate))


def _slow_nics(traffic: LoweredTraffic, healthy: PacketNetwork, network: PacketNetwork) -> LoweredTraffic:
    """The traffic where a NIC that a fault slows waits for busy receivers only as far as it would be faster."""
    share = traffic.traffic.nic_share
    if share is None or network is healthy:
        return traffic
    kept, out = np.ones(network.hosts), network.link_source < network.hosts
    np.minimum.at(kept, network.link_source[out], network.rate_bps[out] / healthy.rate_bps[out])
    paced = np.minimum(share / kept[traffic.traffic.source], 1.0)
    return replace(traffic, traffic=replace(traffic.traffic, nic_share=paced))


def _timed(graph: TaskGraph, took_ps: NDArray[np.int64]) -> Record:
    """The timeline in which every task takes as long as it took; for a run that is not sliced, the run itself."""
    talks = np.flatnonzero(graph.kind != Kind.COMPUTE)
    entity = np.full(len(graph), -1, np.int32)
    entity[talks] = np.arange(len(talks))
    count = len(talks)
    entities = Entities(
        link_ptr=np.zeros(count + 1, np.int64),
        link_idx=np.empty(0, np.int32),
        link_share=np.empty(0),
        volume_bytes=np.zeros(count),
        latency_ps=took_ps[talks],
        rate_cap_bps=np.full(count, np.inf),
        fair_weight=np.ones(count),
        even_latency_ps=took_ps[talks],
        even_ps=took_ps[talks],
    )
    none, integers = np.empty(0), np.empty(0, np.int32)
    no_links = LinkTable(*(none,) * 4, np.empty(0, np.int64), np.empty(0, np.int16), integers, integers, (), integers)
    measured_graph = replace(
        graph, duration_ps=np.where(graph.kind == Kind.COMPUTE, took_ps, 0), loss_index=None, loss=None
    )
    return FLOW.run(MergedJobs.of(measured_graph), LoweredGraph(entities, entity), no_links)


def _link_bytes(case: _Case, sent: _RunTraffic, result: Record) -> NDArray[np.float64]:
    """Bytes on the wire of every link: packets where there are any, else what the cost model puts on them."""
    placed, by_model = case.placed, link_load(case.lowering)
    known = placed.link >= 0
    packets = result.table("links")["bytes"][known] * sent.slicing.factor
    carried = np.bincount(placed.link[known], packets, minlength=len(case.cluster.links))
    skipped = 0.0 if sent.chosen is None else by_model - link_load(case.lowering, sent.chosen.skipped)
    return np.where(modelled(case.cluster.links, sent.slicing), by_model, carried + skipped)


def _raise_if_stuck(result: Record, traffic: LoweredTraffic, name: HostNames) -> None:
    if result.ended.all():
        return
    stuck = np.flatnonzero(~result.ended & (result.start_ps >= 0))
    row = int(stuck[0]) if stuck.size else int(np.flatnonzero(~result.ended)[0])
    flows = traffic.traffic
    ends = f"{name(int(flows.source[row]))} -> {name(int(flows.target[row]))}"
    raise Stalled(f"{int((~result.ended).sum())} flows and tasks never end; the first one that had begun is {ends}")


PACKET = engines.add("packet", PacketEngine())
