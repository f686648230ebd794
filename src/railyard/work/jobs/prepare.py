"""Prepares jobs that share a cluster; all input errors are raised here."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.placement import place, policies
from railyard.cluster.tenancy import NOBODY
from railyard.engine import get as engine_named
from railyard.graph import Job
from railyard.graph.repeat import closed
from railyard.kit.errors import InputError, Refusals
from railyard.kit.schema.yaml import Mark, Node, from_plain
from railyard.work.scenario.load import blaming, dump
from railyard.work.serving.prepare import service_inputs, service_on
from railyard.work.study import compose
from railyard.work.study.deaths import from_the_start, refuse_fatal
from railyard.work.study.provenance import Memo
from railyard.work.trace.prepare import placement_of, read_trace
from railyard.work.training.graphs import build
from railyard.work.training.jitter import law_of
from railyard.work.training.prepare import engine_of, faults_of, jitter_of, policy_of, prepared, training_inputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine, Jitter
    from railyard.graph import TaskGraph
    from railyard.work.jobs.section import JobSection
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.serving.prepare import ServingJob
    from railyard.work.training.prepare import Prepared


def draft_of(draft: Draft, number: int) -> Draft:
    """The scenario as if one job had the cluster to itself; values keep their places in the file."""
    node = draft.tree.value["workload"].value["jobs"].value[number]
    kind = draft.scenario.jobs[number].kind
    return draft.changed(
        {
            "workload": Node({kind: node.value[kind]}, node.mark),
            "cluster.accelerators": node.value["accelerators"],
            "faults": from_plain([], Mark("scenario")),
        }
    )


@contextmanager
def as_job(number: int, kind: str) -> Iterator[None]:
    """Maps the keys in one job's errors to its keys among several jobs."""
    place = f"workload.jobs.{number}"
    try:
        yield
    except InputError as error:
        raise InputError.many(
            replace(problem, key=_moved(problem.key, place, kind)) for problem in error.problems
        ) from None


def _moved(key: str | None, place: str, kind: str) -> str | None:
    if key == "cluster.accelerators":
        return f"{place}.accelerators"
    if key is not None and (key == f"workload.{kind}" or key.startswith(f"workload.{kind}.")):
        return f"{place}.{key.removeprefix('workload.')}"
    return key


@dataclass(frozen=True, eq=False)
class JobTenant:
    """One of the jobs.

    Attributes:
        number: Its index among the jobs.
        placement: int32[ranks], its accelerators.
        step: Its repeated step; None for a serving job.
        training: Prepared as a training job alone; None for others.
        serving: Prepared as a serving job alone; None for others.
        notes: Defaults that its file does not state.
    """

    number: int
    section: JobSection
    placement: NDArray[np.int32]
    step: TaskGraph | None = None
    training: Prepared | None = None
    serving: ServingJob | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.section.name

    @property
    def start_ps(self) -> int:
        """Start time."""
        return round(self.section.start * 1e12)

    @property
    def answers(self) -> ServingJob:
        """What a serving job answers; no other job is asked for it."""
        assert self.serving is not None
        return self.serving

    @property
    def once(self) -> TaskGraph:
        """One step of a job that has steps; no other job is asked for it."""
        assert self.step is not None
        return self.step


@dataclass(frozen=True, eq=False)
class SharedCluster:
    """One variant, ready to run.

    Attributes:
        faults: Faults; ranks are counted across jobs from the first on.
    """

    variant: Variant
    machine: Cluster
    tenants: tuple[JobTenant, ...]
    engine: Engine
    policy: CollectivePolicy
    faults: tuple[Fault, ...]
    jitter: Jitter

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.variant.draft.scenario.seed


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[SharedCluster]:
    """Prepares all variants of a scenario.

    Raises:
        InputError: A variant cannot be run; names the place in the scenario.
    """
    memo = Memo()
    return [_shared(variant, memo, engine) for variant in variants]


def _shared(variant: Variant, memo: Memo, engine: str | None) -> SharedCluster:
    draft, scenario, wrong = variant.draft, variant.draft.scenario, Refusals()
    catalog = memo.get("catalog", scenario.catalog, partial(compose.catalog_of, draft))
    key = [scenario.catalog, dump(scenario.cluster)]
    name = wrong.kept(partial(compose.engine_name, variant, engine))
    machine = wrong.kept(partial(memo.get, "cluster", key, partial(compose.cluster_of, draft, catalog)))
    faults = wrong.kept(partial(faults_of, draft))
    if machine is None:
        _check_parts(variant, memo, wrong)
        raise InputError.many(wrong.problems)
    policy = None
    with wrong, blaming(draft, "collectives"):
        policy = policy_of(scenario.collectives, draft.folder, machine, faults or ())
    placements = wrong.kept(partial(_placements, draft, machine))
    if placements is None:
        _check_parts(variant, memo, wrong)
    made = []
    for number, placement in enumerate(placements or ()):
        with wrong:
            part = machine.part(_seen(scenario.jobs[number], placement, machine))
            made.append(tenant(variant, number, part, placement, memo))
    wrong.raise_all()
    assert name is not None  # otherwise `wrong` has raised
    assert faults is not None
    assert policy is not None
    tenants = tuple(made)
    _refuse_fatal(draft, faults, machine, tenants, policy)
    return SharedCluster(
        variant=variant,
        machine=machine,
        tenants=tenants,
        engine=engine_of(draft, machine, name),
        policy=policy,
        faults=faults,
        jitter=jitter_of(scenario.jitter, law_of(machine.accelerator), 1),
    )


def _check_parts(variant: Variant, memo: Memo, wrong: Refusals) -> None:
    scenario = variant.draft.scenario
    for number, job in enumerate(scenario.jobs):
        part = replace(variant, settings={}, draft=draft_of(variant.draft, number))
        with wrong, as_job(number, job.kind):
            inner = Refusals()
            if job.serving is not None:
                service_inputs(part, job.serving, ("workload", "serving"), memo, inner)
            elif job.training is not None:
                catalog = memo.get("catalog", scenario.catalog, partial(compose.catalog_of, part.draft))
                training_inputs(part, catalog, "flow", inner)
            else:
                inner.kept(partial(read_trace, part.draft))
            inner.raise_all()


def _refuse_fatal(
    draft: Draft, faults: tuple[Fault, ...], machine: Cluster, tenants: Sequence[JobTenant], policy: CollectivePolicy
) -> None:
    """Rejects deaths that a job does not survive; steps repeat, so a step would hit them permanently.

    Raises:
        InputError: There is such a death.
    """
    steps = [Job(tenant.step, tenant.placement) for tenant in tenants if tenant.step is not None]
    serving = {rank for tenant in tenants if tenant.serving is not None for rank in tenant.placement.tolist()}

    def play(some: tuple[Fault, ...]) -> None:
        lasting = tuple(from_the_start(fault) for fault in some if getattr(fault, "for_ps", None) is None)
        if steps and lasting:
            engine_named("flow").simulate(steps, machine, faults=lasting, policy=policy)

    rank = np.concatenate([tenant.placement for tenant in tenants])
    refuse_fatal(draft, faults, machine, rank, play, single=serving)


def _placements(draft: Draft, machine: Cluster) -> list[NDArray[np.int32]]:
    """The accelerators of every job; jobs choose in the order of the scenario.

    Raises:
        InputError: They request more than there are, or not whole servers.
    """
    jobs = draft.scenario.jobs
    wanted = [job.accelerators for job in jobs]
    if sum(wanted) > machine.ranks:
        error = InputError(
            f"the jobs want {' + '.join(map(str, wanted))} accelerators, and the cluster has {machine.ranks}",
            found=sum(wanted),
            allowed=f"at most {machine.ranks}",
        )
        raise draft.blame(error, "workload", "jobs")
    free, found = np.ones(machine.ranks, np.bool_), []
    for number, job in enumerate(jobs):
        with blaming(draft, "workload", "jobs", str(number)):
            _check_servers(job.accelerators, machine)
            mine = free & whose(machine, job.tenant)
            placement = place(machine, job.placement.record(), job.accelerators, mine)
        free[placement] = False
        found.append(placement)
    return found


def whose(machine: Cluster, tenant: str | None) -> NDArray[np.bool_]:
    """bool[ranks], accelerators all of whose ports are a tenant's (or unowned, for a job without a tenant).

    Raises:
        InputError: The cluster has no such tenant.
    """
    plan = machine.plans["back_end"]
    if plan.tenancy is None:
        if tenant is not None:
            raise InputError("the cluster has no tenants", key="tenant", found=tenant, allowed="`cluster.tenancy`")
        return np.ones(machine.ranks, np.bool_)
    number = NOBODY if tenant is None else plan.tenancy.number(tenant)
    owner = plan.tenancy.of_nodes(plan.wiring.port_of, plan.wiring.nodes)
    return np.asarray((owner[machine.back_end.port_of_rank] == number).all(axis=1))


def _check_servers(accelerators: int, machine: Cluster) -> None:
    each = machine.ranks_per_server
    if accelerators > each and accelerators % each:
        below = accelerators // each * each
        raise InputError(
            f"a job has whole servers of {each} accelerators, or a part of one",
            key="accelerators",
            found=accelerators,
            hint=f"nearest possible: {below} or {below + each}",
        )


def _seen(job: JobSection, placement: NDArray[np.int32], machine: Cluster) -> NDArray[np.int32]:
    """The accelerators on which the work is laid out: where single ones are scattered, those of as many servers."""
    if policies.get(job.placement.policy).keeps_domains:
        return placement
    return np.arange(len(placement), dtype=np.int32) % machine.ranks


def tenant(variant: Variant, number: int, part: Cluster, placement: NDArray[np.int32], memo: Memo) -> JobTenant:
    """One of the jobs on its part of the machine.

    Raises:
        InputError: It cannot be run there; names the place in the scenario.
    """
    section = variant.draft.scenario.jobs[number]
    part_variant = replace(variant, settings={}, draft=draft_of(variant.draft, number))
    plain = JobTenant(number, section, placement)
    with blaming(variant.draft, "workload", "jobs", str(number)):
        _check_kept(section)
    with as_job(number, section.kind):
        if section.serving is not None:
            return replace(
                plain, serving=service_on(part, part_variant, section.serving, ("workload", "serving"), memo)
            )
        if section.training is not None:
            catalog = memo.get(
                "catalog", variant.draft.scenario.catalog, partial(compose.catalog_of, part_variant.draft)
            )
            training = prepared(part_variant, catalog, part, "flow")
            with blaming(part_variant.draft, "workload", "training"):
                return replace(plain, training=training, step=build(training.training, part))
        _, trace = read_trace(part_variant.draft)
        with blaming(part_variant.draft, "workload", "trace"):
            places = placement_of(trace.ranks, part, part_variant.draft.scenario.trace.ranks_per_server)
    notes = (*trace.lacks, *trace.left_out)
    return replace(plain, placement=placement[places], step=closed(trace.graph), notes=notes)


def _check_kept(section: JobSection) -> None:
    if section.serving is not None and not policies.get(section.placement.policy).keeps_domains:
        raise InputError(
            "replicas that serve need accelerators of one server",
            key="placement",
            found=section.placement.policy,
            allowed=[name for name, policy in policies.items() if policy.keeps_domains],
        )
