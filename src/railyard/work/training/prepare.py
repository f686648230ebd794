"""Prepares runs; all input errors are raised here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, Refusals
from railyard.measure.job import check_ends
from railyard.work.scenario.load import blaming, dump
from railyard.work.scenario.section import fault_of
from railyard.work.study import compose
from railyard.work.study.provenance import Memo
from railyard.work.training.conditions import engine_of, fluid, jitter_of, policy_of
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
        parts_of(variant, catalog, engine, faults)
        raise InputError.many(faults.problems) from None


def parts_of(
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
