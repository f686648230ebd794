"""Everything that a run needs, made before anything is simulated: input errors appear here, and nowhere later."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.engine import get as engine_named
from railyard.engine.fluid import FluidEngine
from railyard.kit.errors import InputError, Refusals
from railyard.measure.job import check_ends
from railyard.work.scenario.load import blaming, dump
from railyard.work.scenario.section import fault_of
from railyard.work.study import compose
from railyard.work.study.provenance import Memo
from railyard.work.training.conditions import engine_of, jitter_of, policy_of
from railyard.work.training.fastest import MOST, Fastest, TriedLayout
from railyard.work.training.graphs import Graphs, redrawn
from railyard.work.training.jitter import law_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.catalog import Catalog, Model
    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine, Jitter
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.variants import Variant
    from railyard.work.training.spec import Layout, Training


@dataclass(frozen=True)
class Prepared:
    """One variant, ready to run.

    Attributes:
        variant: Its name, settings and scenario.
        jitter: Random differences in compute time.
        assumptions: Prices and rates.
        graphs: Task graphs, which variants share.
        layouts: Of `parallelism: auto` the fastest and its runners-up; empty where a layout is written out.
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
    """All variants of a scenario, ready to run.

    Args:
        variants: Of one scenario.
        engine: In place of the scenario's.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    memo, jobs, graphs, choices = Memo(), [], Graphs(), list[Fastest]()
    for variant in variants:
        draft, extra = variant.draft, variant.draft.scenario.catalog
        key = [extra, dump(draft.scenario.cluster)]
        catalog = memo.get("catalog", extra, partial(compose.catalog_of, draft))
        cluster = _cluster(variant, catalog, engine, partial(memo.get, "cluster", key))
        seats = Seats(draft, catalog, cluster, memo, key)
        job = prepared(variant, catalog, cluster, engine, seats, shared=(graphs, choices))
        jobs.append(replace(job, cluster=seats(job.training.layout)))
    graphs.forget()
    return jobs


def _cluster(variant: Variant, catalog: Catalog, engine: str | None, of: Callable[..., Cluster]) -> Cluster:
    """The cluster; where it cannot be built, the error names what is wrong with the other parts too."""
    try:
        return of(partial(compose.cluster_of, variant.draft, catalog))
    except InputError as error:
        faults = Refusals()
        faults.problems += error.problems
        parts_of(variant, catalog, engine, faults)
        raise InputError.many(faults.problems) from None


def parts_of(
    variant: Variant, catalog: Catalog, engine: str | None, faults: Refusals
) -> tuple[str, Model | None, Assumptions | None]:
    """What does not depend on the cluster: name of the engine, model, prices; their errors go into `faults`."""
    from railyard.measure.cost.assumptions import Assumptions

    draft, name, model, assumptions = variant.draft, "", None, None
    with faults:
        name = compose.engine_name(variant, engine)
    with faults:
        compose.need_storage(draft)
    with faults, blaming(draft, "workload", "training", "model"):
        model = compose.model_of(draft.folder, draft.scenario.training.model, catalog)
    with faults, blaming(draft, "economics"):
        assumptions = Assumptions.from_catalog(catalog, draft.scenario.economics.given())
    return name, model, assumptions


@dataclass(frozen=True)
class Seats:
    """The cluster as layouts want its domains used."""

    draft: Draft
    catalog: Catalog
    cluster: Cluster
    memo: Memo
    key: list[Any]

    def __call__(self, layout: Layout | None) -> Cluster:
        """For a layout; as it is without one."""
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
        variant: Of a scenario.
        catalog: Where its parts come from.
        cluster: On what it runs.
        engine: In place of the scenario's.
        seats: The cluster as a layout wants its domains used; None: as it is.
        shared: Task graphs and choices of layouts of the variants before.
        training: The job, where its layout is known already.

    Raises:
        InputError: It cannot be run; with the place in the scenario.
    """
    draft, wrong = variant.draft, Refusals()
    scenario = draft.scenario
    name, model, assumptions = parts_of(variant, catalog, engine, wrong)
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
    drawn = _drawn(seats, cluster, scenario.seed)
    choose = Fastest(drawn, _fluid(ready), policy, graphs, scenario.seed, cluster, choices, most=_most(ready))
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


def _drawn(
    seats: Callable[[Layout | None], Cluster] | None, cluster: Cluster, seed: int
) -> Callable[[Layout | None], Cluster]:
    """The cluster of a layout under the draw of hashes that the run begins with."""
    return lambda layout: redrawn(cluster if seats is None else seats(layout), seed)


def _fluid(engine: Engine) -> Engine:
    """The engine that layouts are tried on: the run's, or the flow engine where a run is dear."""
    return engine if isinstance(engine, FluidEngine) else engine_named("flow")


def _most(engine: Engine) -> int:
    """Steps that a choice of layouts may simulate: who asks for a closed form wants it of the choice too."""
    return 0 if engine.name == "analytic" else MOST


def faults_of(draft: Draft) -> tuple[Fault, ...]:
    """The faults of a scenario.

    Raises:
        InputError: Some of them cannot be, or their ranks do not exist.
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
