"""Prepares runs: scenario sections become engine inputs; all input errors are raised here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.fault import LinkRate, Spell
from railyard.cluster.fault.cluster_places import ClusterPlaces
from railyard.collective import CollectivePolicy
from railyard.collective.constants import MEASURED, read_constants
from railyard.engine import Jitter, Stall
from railyard.engine.faults import effects_of
from railyard.engine.fluid import FluidEngine
from railyard.kit.errors import InputError, Refusals
from railyard.measure.job import check_ends
from railyard.work.scenario.load import blaming, dump
from railyard.work.scenario.section import fault_of
from railyard.work.study import compose
from railyard.work.study.provenance import Memo
from railyard.work.training.fastest import MOST, Fastest, TriedLayout
from railyard.work.training.graphs import Graphs, redrawn
from railyard.work.training.jitter import law_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.catalog import Catalog, Model
    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective.algorithm import Algorithm
    from railyard.engine import Engine
    from railyard.engine.background import Bursts
    from railyard.engine.packet.settings import Settings as EngineSettings
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.conditions import CollectivesSection, JitterSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.scenario.model import PacketSection
    from railyard.work.scenario.packet.settings import PacketSettings
    from railyard.work.training.jitter import JitterLaw
    from railyard.work.training.spec import Layout, Training


_OF_THE_RUN = frozenset({"seed", "base_rtt_ps", "failed_links", "failed_fraction", "oversubscription", "end_ps"})
"""Fields that come from the cluster or the run rather than from a fabric."""


def fluid(engine: Engine) -> Engine:
    """The engine for many trials of a step: the same, or the flow engine where a run is expensive."""
    from railyard.engine import get

    return engine if isinstance(engine, FluidEngine) else get("flow")


def engine_of(draft: Draft, cluster: Cluster, name: str) -> Engine:
    """The engine of a run, set up as the scenario says.

    Raises:
        InputError: The engine or fabric is unknown, or a setting is invalid.
    """
    import railyard.engine as engines
    from railyard.engine.background import fits
    from railyard.work.scenario.load import blaming

    engine, section = engines.get(name), draft.scenario.packet
    background = _background(section)
    with blaming(draft):
        fits(cluster, background)
    if isinstance(engine, FluidEngine):
        return replace(engine, background=background)
    if name == "lab":
        from railyard.engine.lab.engine import LabEngine

        return LabEngine(draft.scenario.lab.dilation, draft.scenario.lab.routing)
    if name != "packet":
        return engine
    from railyard.engine.packet.engine import PacketEngine

    with blaming(draft, "packet"):
        settings, left_out = _settings(section, draft.folder, cluster)
    return PacketEngine(
        settings=settings,
        stands_in=left_out,
        budget_hops=section.budget_hops,
        budget_sends=int(section.budget_sends),
        scale_up=section.scale_up,
        background=background,
        samples=section.samples,
        online=section.online,
    )


def _background(section: PacketSection) -> tuple[Bursts, ...]:
    from railyard.engine.background import Bursts

    return tuple(
        Bursts(one.pattern, one.ports, one.size, one.every, one.targets, one.traffic_class) for one in section.beside
    )


def _settings(section: PacketSection, folder: Path, cluster: Cluster) -> tuple[EngineSettings, tuple[str, ...]]:
    """The settings of the cluster's fabric, or of the one that the section names, with what the section sets."""
    from railyard.engine.packet.fabrics import settings_of
    from railyard.engine.packet.mechanisms import CONSTANTS
    from railyard.engine.packet.user import PREFIX as USER_PREFIX
    from railyard.work.scenario.packet import PacketSettings, assign, chosen
    from railyard.work.scenario.packet.mix import is_mix

    if section.fabric is None:
        composed = replace(settings_of(cluster, cluster.fabric), rdma_qps=1)  # plans have one leg per queue pair
        base = PacketSettings(**{name: getattr(composed, name) for name in CONSTANTS})
        left_out = cluster.fabric.packets.left_out
    else:
        preset = chosen(str(folder / section.fabric) if is_mix(section.fabric) else section.fabric)
        base, left_out = preset.settings, preset.left_out
    for key, value in section.set.items():
        if str(value).startswith(USER_PREFIX):
            raise InputError(
                "a scenario may come from another user, so it runs no Python that it names",
                key=f"set.{key}",
                found=value,
                hint="register yours by a name, and start Railyard with RAILYARD_PLUGINS=FILE.py",
            )
    if "reroute" in section.set:
        raise InputError(
            "the fabric says when routes know of dead links, on every engine alike",
            key="set.reroute",
            hint="write `cluster.back_end.fabric.reroute`",
        )
    given = assign(base, [f"{key}={value}" for key, value in section.set.items()])
    return engine_settings(given), left_out


def engine_settings(given: PacketSettings) -> EngineSettings:
    """A user's settings as the engine takes them; those that the cluster decides stay open."""
    from railyard.engine.packet.settings import Settings as EngineSettings

    names = {entry.name for entry in fields(EngineSettings)} - _OF_THE_RUN
    return EngineSettings(**{name: getattr(given, name) for name in names})


def policy_of(
    section: CollectivesSection, folder: Path, cluster: Cluster, faults: Sequence[Fault] = ()
) -> CollectivePolicy:
    """Fixed settings of collectives.

    Args:
        section: The section.
        folder: Folder of the scenario, to which file names are relative.
        cluster: Cluster whose links `synthesized` schedules are searched for.
        faults: Faults; the search knows those that are permanent from the start.

    Raises:
        InputError: An algorithm is unknown or does not support the collective, or its constants cannot be read.
    """
    measured = MEASURED if section.constants is None else read_constants(folder / section.constants)
    made = {key: _made(word, folder, cluster, faults) for key, word in section.algorithm.items()}
    return CollectivePolicy(
        measured=measured,
        algorithm={key: one if isinstance(one, str) else one.name for key, one in made.items()},
        protocol=dict(section.protocol),
        selector=section.selector,
        pxn=section.pxn,
        launch_ps=section.launch,
        network_overhead_ps=section.network_overhead,
        connections=section.connections,
        version=section.version or CollectivePolicy.version,
        written=tuple(one for one in made.values() if not isinstance(one, str)),
    )


def _made(word: str, folder: Path, cluster: Cluster, faults: Sequence[Fault]) -> str | Algorithm:
    """The name of a library algorithm, or the algorithm from a file or a search."""
    kind, _, rest = word.partition(":")
    if kind not in ("msccl", "synthesized") or (kind == "msccl" and not rest):
        return word
    from railyard.collective.synthesis import of_cluster, written

    if kind == "msccl":
        return written.of_file(folder / rest.strip())
    return of_cluster.of_cluster(cluster, of_cluster.size_of(word), keeps_of(cluster, faults))


def keeps_of(cluster: Cluster, faults: Sequence[Fault]) -> NDArray[np.float64] | None:
    """float64[links], share of each link's rate left by faults that are permanent from the start; None: all."""
    effects = [effect for _, effect in effects_of(faults, ClusterPlaces.of(cluster))]
    slower = [one for one in effects if isinstance(one, LinkRate) and one.spell == Spell(0)]
    if not slower:
        return None
    share = np.ones(len(cluster.links))
    for one in slower:
        share[one.link] *= one.factor
    return share


def jitter_of(section: JitterSection, law: JitterLaw, micro_batches: int) -> Jitter:
    """Random differences in compute time.

    Args:
        section: The section.
        law: Jitter law of the job's device.
        micro_batches: Number per step, over which the noise of single ones averages out.
    """
    if section.law != "drawn":
        return Jitter(section.sigma, section.rank_sigma)
    stalls = tuple(Stall(kind.rate_hz, kind.mean_s) for kind in law.interruptions)
    return Jitter(section.sigma, section.rank_sigma, law.sigma / max(micro_batches, 1) ** 0.5, stalls)


@dataclass(frozen=True)
class Prepared:
    """One variant, ready to run.

    Attributes:
        layouts: For `parallelism: auto` the fastest and its runners-up; empty if the layout is given.
    """

    variant: Variant
    catalog: Catalog
    cluster: Cluster
    training: Training
    engine: Engine
    policy: CollectivePolicy
    faults: tuple[Fault, ...]
    jitter: Jitter
    assumptions: Assumptions
    graphs: Graphs = field(default_factory=Graphs, compare=False, repr=False)
    layouts: tuple[TriedLayout, ...] = ()

    @property
    def seeds(self) -> range:
        """The seeds that are run."""
        scenario = self.variant.draft.scenario
        return range(scenario.seed, scenario.seed + scenario.repeat)


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[Prepared]:
    """Prepares all variants of a scenario.

    Raises:
        InputError: A variant cannot be run; names the place in the scenario.
    """
    memo, jobs, graphs, choices = Memo(), dict[str, Prepared](), Graphs(), list[Fastest]()
    for variant in sorted(variants, key=lambda one: one.bound):  # behind the products, whose layouts they have
        draft = variant.draft
        key = [draft.scenario.catalog, dump(draft.scenario.cluster)]
        catalog = compose.shared_catalog(draft, memo)
        cluster = _cluster(variant, catalog, engine, memo)
        seats = Seats(draft, catalog, cluster, memo, key)
        job = prepared(variant, catalog, cluster, engine, seats, shared=(graphs, choices))
        jobs[variant.name] = replace(job, cluster=seats(job.training.layout))
    graphs.forget()
    return [jobs[variant.name] for variant in variants]


def _cluster(variant: Variant, catalog: Catalog, engine: str | None, memo: Memo) -> Cluster:
    """The cluster; if it cannot be built, the error also names problems of the other parts."""
    try:
        return compose.shared_cluster(variant.draft, catalog, memo)
    except InputError as error:
        faults = Refusals()
        faults.problems += error.problems
        training_inputs(variant, catalog, engine, faults)
        raise InputError.many(faults.problems) from None


def training_inputs(
    variant: Variant, catalog: Catalog, engine: str | None, faults: Refusals
) -> tuple[str, Model | None, Assumptions | None]:
    """Parts that do not depend on the cluster: engine name, model, prices; their errors go into `faults`."""
    draft, name, model, assumptions = variant.draft, "", None, None
    with faults:
        name = compose.engine_name(variant, engine)
    with faults:
        compose.need_storage(draft)
    with faults, blaming(draft, "workload", "training", "model"):
        model = compose.model_of(draft.folder, draft.scenario.training.model, catalog)
    with faults:
        assumptions = compose.economics_of(draft, catalog)
    return name, model, assumptions


@dataclass(frozen=True)
class Seats:
    """The cluster as layouts use its domains."""

    draft: Draft
    catalog: Catalog
    cluster: Cluster
    memo: Memo
    key: list[Any]

    def __call__(self, layout: Layout | None) -> Cluster:
        """The cluster for a layout; unchanged without one."""
        use = None if layout is None else compose.domain_use_of(self.cluster, layout)
        if use is None or self.cluster.spec.ranks_per_domain is not None:
            return self.cluster
        place = partial(compose.placed, self.draft, self.cluster, self.catalog, use)
        return self.memo.get("placed cluster", [use, *self.key], place)


def prepared(
    variant: Variant,
    catalog: Catalog,
    cluster: Cluster,
    engine: str | None = None,
    seats: Callable[[Layout | None], Cluster] | None = None,
    *,
    shared: tuple[Graphs, list[Fastest]] | None = None,
    training: Training | None = None,
) -> Prepared:
    """One variant on a cluster, ready to run.

    Args:
        variant: Variant of a scenario.
        catalog: Catalog of its parts.
        cluster: The cluster.
        engine: Replaces the scenario's engine.
        seats: The cluster as a layout uses its domains; None: unchanged.
        shared: Task graphs and layout choices of previous variants.
        training: The job, if its layout is known already.

    Raises:
        InputError: It cannot be run; names the place in the scenario.
    """
    draft, wrong = variant.draft, Refusals()
    scenario = draft.scenario
    name, model, assumptions = training_inputs(variant, catalog, engine, wrong)
    policy = None
    with wrong, blaming(draft, "collectives"):
        policy = policy_of(scenario.collectives, draft.folder, cluster, faults_of(draft))
    wrong.raise_all()
    assert model is not None  # else `wrong` has raised
    assert assumptions is not None
    assert policy is not None
    with blaming(draft):
        check_ends(cluster.ranks, assumptions.mtbf_h.typical, assumptions.restart_s.typical)
    ready, (graphs, choices) = engine_of(draft, cluster, name), shared or (Graphs(), [])
    seated: Callable[[Layout | None], Cluster] = seats or (lambda _layout: cluster)
    choose = Fastest(
        lambda layout: redrawn(seated(layout), scenario.seed),  # with the hash draw of the start of the run
        fluid(ready),
        policy,
        graphs,
        scenario.seed,
        cluster,
        choices,
        most=0 if ready.name == "analytic" else MOST,  # with a closed-form engine the choice is closed-form too
    )
    if training is None:
        training = compose.training_of(draft, cluster, model, choose)
    return Prepared(
        variant=variant,
        catalog=catalog,
        cluster=cluster,
        training=training,
        engine=ready,
        policy=policy,
        faults=faults_of(draft),
        jitter=jitter_of(scenario.jitter, law_of(cluster.accelerator), training.layout.micro_batches),
        assumptions=assumptions,
        graphs=graphs,
        layouts=tuple(choose.tried),
    )


def faults_of(draft: Draft) -> tuple[Fault, ...]:
    """The faults of a scenario.

    Raises:
        InputError: A fault is impossible, or its rank does not exist.
    """
    wrong = Refusals()
    found = [wrong.kept(partial(_fault, draft, number)) for number in range(len(draft.scenario.faults))]
    wrong.raise_all()
    return tuple(fault for fault in found if fault is not None)


def _fault(draft: Draft, number: int) -> Fault:
    with blaming(draft, "faults", str(number)):
        fault: Fault = fault_of(draft.scenario.faults[number])
        rank, ranks = getattr(fault, "rank", 0), draft.scenario.cluster.accelerators
        if rank >= ranks:
            raise InputError("there is no such rank", key="rank", found=rank, allowed=f"0 to {ranks - 1}")
    return fault
