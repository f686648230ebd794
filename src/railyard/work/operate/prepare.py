"""Turns a scenario into a run that is ready to start; all input errors are raised here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.fault.recovery import Recovery as Retries
from railyard.cluster.ocs import slices_kept
from railyard.kit.errors import InputError, Refusals, did_you_mean, keyed
from railyard.measure.job import Reliability, best_interval_s
from railyard.work.operate import trace
from railyard.work.operate.checks import (
    check_owners,
    check_placeable,
    check_spares,
    check_window,
    owned_notes,
    usd_per_h,
)
from railyard.work.operate.contention.neighbours import Neighbours
from railyard.work.operate.contention.speeds import Manner, assigned, refuse_classes, work_class
from railyard.work.operate.discipline import backfills, disciplines, policies
from railyard.work.operate.failures.fault import HOURS, Effect, FailureMode, profiles, young_s
from railyard.work.operate.failures.given import (
    DrawnFaults,
    GivenFaults,
    is_out,
    mean_repair_s,
    mode_of,
    mttf_s,
    rows_of,
)
from railyard.work.operate.failures.links import link_modes
from railyard.work.operate.jobs import drawn_jobs
from railyard.work.operate.loop import ClusterRun
from railyard.work.operate.rules import SECOND, NodeWindow, RecoveryRules, Rules, Turnaround, microseconds
from railyard.work.operate.service import check_services
from railyard.work.operate.steady import shares
from railyard.work.operate.tree import NodeTree
from railyard.work.scenario.load import blaming
from railyard.work.scenario.section import build
from railyard.work.study import compose
from railyard.work.training.prepare import faults_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from railyard.catalog import Catalog
    from railyard.cluster import Cluster
    from railyard.measure.cost.assumptions import Source
    from railyard.measure.result.section import Band
    from railyard.work.operate.contention.pattern import WorkClass
    from railyard.work.operate.failures.fault import FaultSource, NodeFault
    from railyard.work.operate.jobs import JobTable
    from railyard.work.operate.section import (
        ModeSection,
        OperateSection,
        RecoverySettings,
        TurnaroundSection,
        WindowSection,
    )
    from railyard.work.operate.steady import RunPeriod
    from railyard.work.scenario.load import Draft, Variant

_KEYS = ("workload", "operate")


@dataclass(frozen=True, eq=False)
class PreparedOperation:
    """A variant that is ready to run.

    Attributes:
        faults: Faults; None: nothing breaks.
        contention: Model of contention between jobs; None: no contention.
    """

    variant: Variant
    cluster: Cluster
    tree: NodeTree
    jobs: JobTable
    rules: Rules
    modes: tuple[FailureMode, ...]
    faults: FaultSource | None
    contention: Neighbours | None
    notes: tuple[str, ...] = ()

    @property
    def defaults(self) -> tuple[str, ...]:
        """Defaults that were chosen because the document did not say."""
        recovery, turnaround = self.rules.recovery, self.rules.turnaround
        saved = (
            f"a job of {nodes} nodes writes a checkpoint every {interval / 60e6:.1f} min of work"
            for nodes, interval in sorted(recovery.intervals_us.items())[-1:]
            if interval
        )
        erased = f"a node that another of the {turnaround.between} had is erased in {turnaround.erase_us / 1e6:.3g} s"
        return (*saved, *([erased] if turnaround.erase_us else []))

    @property
    def steady_given(self) -> bool:
        """Whether the scenario gives the steady window."""
        return self.variant.draft.scenario.operate.steady is not None

    def usd_per_h(self, part: RunPeriod) -> tuple[Band, tuple[Source, ...]]:
        """Hourly cost of the cluster at the use of a part of a run, and the sources of every price."""
        return usd_per_h(self.cluster, self.variant.draft.scenario, shares(part))

    @property
    def draws(self) -> int:
        """Number of fault draws to run: one if nothing is drawn."""
        return 1 if self.faults is None or not self.faults.random else self.variant.draft.scenario.operate.draws

    def operation(self, draw: int = 0) -> ClusterRun:
        """A run at its start.

        Args:
            draw: Number of the fault draw; everything else is the same in each.
        """
        section, seed = self.variant.draft.scenario.operate, self.variant.draft.scenario.seed
        return ClusterRun(
            self.jobs,
            self.tree,
            self.rules,
            faults=self.faults.again(seed + draw) if self.faults is not None and draw else self.faults,
            contention=None if self.contention is None else self.contention.fresh(),
            every_us=microseconds(section.sample),
            until_us=-1 if section.until is None else microseconds(section.until),
            steady_us=_steady_us(section, int(self.jobs.submit_us[-1])),
        )


def _steady_us(section: OperateSection, last_us: int) -> tuple[int, int] | None:
    """Start and end of the steady window that the scenario gives; the end defaults to the last submission."""
    given = section.steady
    if given is None:
        return None
    return microseconds(given.start), last_us if given.end is None else microseconds(given.end)


def _check_steady(section: OperateSection, jobs: JobTable) -> None:
    found = _steady_us(section, int(jobs.submit_us[-1]))
    if found is None:
        return
    start, end = found
    end = end if section.until is None else min(end, microseconds(section.until))
    if start >= end:
        raise InputError(
            "the steady window ends before it begins",
            key="steady.start",
            found=f"{start / SECOND:,.6g} s",
            allowed=f"before {end / SECOND:,.6g} s: `steady.end`, else the last submission, at most `until`",
        )


def prepare(variant: Variant) -> PreparedOperation:
    """Prepares a variant.

    Raises:
        InputError: Names the place in the scenario or in the trace.
    """
    draft, wrong = variant.draft, Refusals()
    section = draft.scenario.operate
    catalog = compose.catalog_of(draft)
    cluster, tree, jobs, modes, turnaround, classes = None, None, None, None, None, None
    with wrong, blaming(draft, *_KEYS):
        _check_names(section)
    with wrong, blaming(draft, *_KEYS):
        modes = _modes(section)
    with wrong:
        cluster = compose.cluster_of(draft, catalog)
    if cluster is not None:
        tree = NodeTree.of(cluster)
        jobs = wrong.kept(partial(_jobs, draft, tree))
        classes = wrong.kept(partial(_classes, draft, cluster))
        with wrong, blaming(draft, *_KEYS):
            turnaround = _turnaround(section.turnaround, cluster, catalog)
    wrong.raise_all()
    assert cluster is not None  # otherwise `wrong` has raised
    assert tree is not None
    assert jobs is not None
    assert modes is not None
    assert turnaround is not None
    modes = _with_links(draft, modes, cluster, tree)
    check_owners(jobs, tree, draft)
    with blaming(draft, *_KEYS):
        _check_cubes(section, tree)
        rules = _rules(draft, tree, jobs, modes, turnaround)
        check_placeable(jobs, tree, rules)
        check_services(draft, jobs)
        _check_steady(section, jobs)
    faults, modes = _with_given(draft, cluster, _faults(draft, modes, tree, cluster), modes)
    contention = _contention(draft, cluster, tree, jobs, classes or [])
    notes = (*_notes(jobs, tree, section), *owned_notes(tree, section), *_promises(jobs, tree, modes))
    return PreparedOperation(variant, cluster, tree, jobs, rules, modes, faults, contention, notes)


def _classes(draft: Draft, cluster: Cluster) -> list[WorkClass]:
    """Classes of work whose jobs contend for the network.

    Raises:
        InputError: A class is not possible.
    """
    section, wrong = draft.scenario.operate.contention, Refusals()
    if section is None:
        return []
    made = []
    with blaming(draft, *_KEYS, "contention"):
        refuse_classes(section.classes)
        for number, one in enumerate(section.classes):
            with wrong:
                made.append(work_class(draft, number, one, cluster))
        wrong.raise_all()
    return made


def _contention(
    draft: Draft, cluster: Cluster, tree: NodeTree, jobs: JobTable, classes: Sequence[WorkClass]
) -> Neighbours | None:
    section = draft.scenario.operate.contention
    if section is None:
        return None
    with blaming(draft, *_KEYS, "contention"):
        work = assigned(jobs, section.classes, draft.scenario.seed, draft.scenario.operate.serving)
    manner = Manner(
        section.priorities == "intensity", section.shifts == "compatible", section.paths == "selected", section.drift
    )
    return Neighbours(cluster, tree, classes, work, tolerance=section.tolerance, manner=manner)


@lru_cache(4)
def _trace(path: Path, name: str, _stamp: int) -> trace.TraceJobs:
    return trace.read(path, name)


def _jobs(draft: Draft, tree: NodeTree) -> JobTable:
    section = draft.scenario.operate.jobs
    if section.synthetic is not None:
        return drawn_jobs(draft, tree, section.synthetic)
    with blaming(draft, *_KEYS, "jobs"):
        path = draft.folder / str(section.trace)
        if not path.is_file():
            raise InputError("there is no such trace", key="trace", found=section.trace)
        found = _trace(path, section.format, path.stat().st_mtime_ns)
        return trace.job_table(
            found,
            tree,
            start_s=section.start,
            length_s=section.length,
            faster=section.faster,
            most_nodes=partial(tree.most, spares=draft.scenario.operate.recovery.spares) if section.shrink else None,
        )


def _check_cubes(section: OperateSection, tree: NodeTree) -> None:
    """Rejects a placement that knows nothing of cubes on a torus of cubes, and the one of cubes elsewhere."""
    if (tree.cubes is not None) == (section.placement == "cubes"):
        if tree.cubes is not None and (section.recovery.spares or section.recovery.elastic):
            key = "recovery.spares" if section.recovery.spares else "recovery.elastic"
            raise InputError("a torus of cubes has no place for a single other host", key=key, allowed="0 or false")
        return
    if tree.cubes is None:
        raise InputError(
            "the cluster has no cubes", key="placement", found="cubes", hint="write `cluster.ocs` for a torus of cubes"
        )
    raise InputError(
        "jobs on a torus of cubes need cubes that are joined", key="placement", found=section.placement, allowed="cubes"
    )


def _check_names(section: OperateSection) -> None:
    wrong = Refusals()
    for key, registry, name in (
        ("queue.discipline", disciplines, section.queue.discipline),
        ("queue.backfill", backfills, section.queue.backfill),
        ("placement", policies, section.placement),
    ):
        with wrong, keyed(key):
            registry.get(name)
    wrong.raise_all()


def _rules(
    draft: Draft, tree: NodeTree, jobs: JobTable, modes: tuple[FailureMode, ...], turnaround: Turnaround
) -> Rules:
    section, queue, wrong = draft.scenario.operate, draft.scenario.operate.queue, Refusals()
    for key, names in (("queue.quotas", queue.quotas), ("queue.shares", queue.shares)):
        with wrong:
            _known_tenants(jobs, tree, key, names)
    if section.within is not None:
        with wrong, keyed("within"):
            tree.level(section.within)
    windows = wrong.kept(partial(_windows, section, tree, jobs))
    recovery = wrong.kept(partial(_recovery, section, tree, jobs, modes, given=bool(draft.scenario.faults)))
    wrong.raise_all()
    paths_us = 0 if tree.cubes is None else microseconds(tree.cubes.dead_ps * 1e-12)
    assert windows is not None  # otherwise `wrong` has raised
    assert recovery is not None
    return Rules(
        discipline=queue.discipline,
        backfill=queue.backfill,
        policy=section.placement,
        depth=queue.depth,
        renew_us=microseconds(queue.renew),
        half_life_us=microseconds(queue.half_life),
        attained_us=microseconds(queue.attained),
        shares=dict(queue.shares),
        quotas=dict(queue.quotas),
        borrow=queue.borrow,
        windows=windows,
        within=section.within or "",
        setup_us=microseconds(section.setup) + paths_us,
        recovery=replace(recovery, restart_us=recovery.restart_us + paths_us),
        turnaround=turnaround,
        seed=draft.scenario.seed,
    )


def _turnaround(section: TurnaroundSection | None, cluster: Cluster, catalog: Catalog) -> Turnaround:
    """Time to erase a node: memories and drives in parallel at their catalog rates, then the reboot."""
    if section is None:
        return Turnaround()
    with keyed("turnaround.storage"):
        drives = catalog.storage(section.storage)
    server, device = cluster.server, cluster.accelerator
    erased = [0.0]
    if section.memory:
        erased += [server.host_memory_bytes * 8 / server.host_memory_bps, device.memory_bytes * 8 / device.memory_bps]
    if section.drives != "none":
        written = drives.capacity_bytes * 8 / drives.write_bps
        erased.append(section.key_change if section.drives == "crypto" else written)
    return Turnaround(
        erase_us=microseconds(max(erased) + section.reboot),
        between=section.between,
        attest_us=microseconds(section.attestation),
        verifier_per_s=section.verifier_rate,
    )


def _known_tenants(jobs: JobTable, tree: NodeTree, key: str, given: Mapping[str, object]) -> None:
    for name in given:
        if tree.tenancy is not None:
            with keyed(key):
                tree.owner_of(name)
        elif name not in jobs.tenants:
            hint = did_you_mean(name, jobs.tenants)
            shown = [*jobs.tenants[:12], *(["..."] if len(jobs.tenants) > 12 else [])]
            raise InputError(f"no job is of the tenant `{name}`", key=key, found=name, allowed=shown, hint=hint)


def _windows(section: OperateSection, tree: NodeTree, jobs: JobTable) -> tuple[NodeWindow, ...]:
    wrong = Refusals()
    for number, window in enumerate(section.windows):
        with wrong:
            _check_window(number, window, tree, jobs)
    wrong.raise_all()
    return tuple(
        NodeWindow(
            microseconds(one.start),
            microseconds(one.start) + microseconds(one.length),
            tuple(range(one.nodes[0], one.nodes[1] + 1)),
            one.tenant or "",
        )
        for one in section.windows
    )


def _check_window(number: int, window: WindowSection, tree: NodeTree, jobs: JobTable) -> None:
    first, last = window.nodes
    if not first <= last < tree.nodes:
        allowed = f"0 to {tree.nodes - 1}, the first before the last"
        raise InputError("no such nodes", key=f"windows.{number}.nodes", found=window.nodes, allowed=allowed)
    if window.tenant is not None:
        _known_tenants(jobs, tree, f"windows.{number}.tenant", {window.tenant: 0})
        check_window(tree, number, window.tenant, window.nodes)


def _modes(section: OperateSection) -> tuple[FailureMode, ...]:
    failures = section.failures
    if failures is None:
        return ()
    wrong = Refusals()
    modes: dict[str, FailureMode] = {}
    with wrong, keyed("failures.profile"):
        modes = {mode.name: mode for mode in profiles.get(failures.profile).modes}
    for number, change in enumerate(failures.modes):
        with wrong, keyed(f"failures.modes.{number}"):
            modes[change.name] = _changed(modes.get(change.name), change)
    wrong.raise_all()
    return tuple(replace(mode, per_1000_node_days=mode.per_1000_node_days * failures.scale) for mode in modes.values())


def _changed(mode: FailureMode | None, change: ModeSection) -> FailureMode:
    if mode is None:
        if change.per_1000_node_days is None:
            raise InputError("a mode of your own says how often it comes", key="per_1000_node_days", found="nothing")
        mode = FailureMode(change.name, 0.0, Effect.OUT, 60.0, 2 * HOURS, 8 * HOURS, source="the scenario")
    given = {
        "per_1000_node_days": change.per_1000_node_days,
        "repair_s": change.repair,
        "repair_p90_s": change.repair_p90,
        "detect_s": change.detect,
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    mode = replace(mode, **changes)
    if mode.per_1000_node_days < 0:
        raise InputError("a rate is zero or more", key="per_1000_node_days", found=mode.per_1000_node_days)
    return mode


def _with_links(
    draft: Draft, modes: tuple[FailureMode, ...], cluster: Cluster, tree: NodeTree
) -> tuple[FailureMode, ...]:
    """The modes, with those of links by the catalogue's rates if requested."""
    failures = draft.scenario.operate.failures
    if failures is None or failures.links is None:
        return modes
    with blaming(draft, *_KEYS, "failures"):
        found = link_modes(cluster, tree, _retries(draft), failures.links)
    scaled = (replace(mode, per_1000_node_days=mode.per_1000_node_days * failures.scale) for mode in found)
    return (*(mode for mode in modes if not mode.link), *scaled)


def _retries(draft: Draft) -> Retries:
    with blaming(draft, "recovery"):
        found: Retries = build(draft.scenario.recovery, Retries)
    return found


def _faults(draft: Draft, modes: tuple[FailureMode, ...], tree: NodeTree, cluster: Cluster) -> FaultSource | None:
    failures = draft.scenario.operate.failures
    if failures is None:
        return None
    reroute = -1.0 if failures.reroute is None else failures.reroute
    around = cluster.back_end.fabric.recovery_ps() * 1e-12
    return DrawnFaults(
        modes,
        tree,
        timeout_s=failures.timeout,
        reroute_s=reroute,
        around_s=around,
        retries=_retries(draft),
        seed=draft.scenario.seed,
    )


def _with_given(
    draft: Draft, cluster: Cluster, drawn: FaultSource | None, modes: tuple[FailureMode, ...]
) -> tuple[FaultSource | None, tuple[FailureMode, ...]]:
    """Drawn faults and the scenario's own, each of which is a mode for accounting."""
    given = faults_of(draft)
    if not given:
        return drawn, modes
    recovery = _retries(draft)
    rows: list[NodeFault] = []
    for number, fault in enumerate(given):
        with blaming(draft, "faults", str(number)):
            rows += rows_of(fault, len(modes) + number, cluster, recovery)
    return GivenFaults(rows, drawn), (*modes, *map(mode_of, given))


def stall_s(settings: RecoverySettings, each: int) -> float:
    """How long a job pauses for a checkpoint."""
    if settings.checkpoint == "sync":
        return write_s(settings, each)
    return settings.state * 8 / settings.host_bandwidth


def write_s(settings: RecoverySettings, each: int) -> float:
    """How long a node takes to write a checkpoint to storage."""
    return settings.state * each * 8 / settings.bandwidth


def _recovery(
    section: OperateSection, tree: NodeTree, jobs: JobTable, modes: tuple[FailureMode, ...], *, given: bool
) -> RecoveryRules:
    settings = section.recovery
    each = int(tree.accelerators.max())
    if settings.spares >= tree.nodes:
        allowed = f"less than {tree.nodes}"
        raise InputError("spares leave no node", key="recovery.spares", found=settings.spares, allowed=allowed)
    check_spares(tree, settings.spares)
    fails = given or (section.failures is not None and bool(modes))
    stall = stall_s(settings, each) if fails and settings.interval != "none" else 0.0
    rerouted = section.failures is not None and section.failures.reroute is not None
    intervals = {
        nodes: microseconds(
            _interval_s(settings, stall, _mttf_s(modes, nodes, each, rerouted=rerouted, given=given), each)
        )
        for nodes in np.unique(jobs.nodes).tolist()
    }
    return RecoveryRules(
        interval_us=0,
        intervals_us=intervals if fails else {},
        stall_us=microseconds(stall),
        restart_us=microseconds(settings.restart) if fails else 0,
        resume_us=microseconds(settings.resume),
        spares=settings.spares,
        survives=settings.checkpoint != "memory",
        grace=settings.grace,
        elastic=settings.elastic,
    )


def _mttf_s(modes: tuple[FailureMode, ...], nodes: int, each: int, *, rerouted: bool, given: bool) -> float:
    """Mean time to failure of a job; without failure rates, estimated from the accelerators of a large fleet."""
    found = mttf_s(modes, nodes, rerouted=rerouted)
    return Reliability().mtbf_h.typical * HOURS / (nodes * each) if given and found == float("inf") else found


def _interval_s(settings: RecoverySettings, stall: float, mttf: float, each: int) -> float:
    """Work between two checkpoints; a write to storage ends before the next begins."""
    if settings.interval == "none" or mttf == float("inf"):
        return 0.0
    if isinstance(settings.interval, str):
        law = young_s if settings.interval == "young" else best_interval_s
        found = law(stall, mttf)
    else:
        found = settings.interval
    return max(found, write_s(settings, each)) if settings.checkpoint == "async" else max(found, 1.0)


def _notes(jobs: JobTable, tree: NodeTree, section: OperateSection) -> list[str]:
    span_us = int(jobs.submit_us[-1]) if section.until is None else microseconds(section.until)
    asked = float((jobs.accelerators * jobs.work_us).sum())
    have = float(tree.total) * max(span_us, 1)
    if asked > have and len(jobs) > 100:
        return [
            f"the queue grows while jobs arrive: they ask for {asked / have:.2f} times the accelerator time that"
            " the cluster has until then"
        ]
    return []


CONFIDENCE = 0.97
"""Share of the time for which slices of cubes are promised, as in Lightwave (SIGCOMM 2023)."""


def _promises(jobs: JobTable, tree: NodeTree, modes: tuple[FailureMode, ...]) -> Iterator[str]:
    """How many slices of each size of the jobs can run nearly always, from the failures of single hosts."""
    cubes = tree.cubes
    down = sum(mode.per_1000_node_days / 1000 * mean_repair_s(mode) / (24 * HOURS) for mode in modes if is_out(mode))
    if cubes is None or not down:
        return
    each = tree.nodes // cubes.count
    sizes = sorted({-(-nodes // each) for nodes in np.unique(jobs.nodes).tolist() if nodes > each})
    up, switched = (1 + down) ** -each, cubes.switch is not None
    kept = {
        size: cubes.pods * slices_kept(cubes.per_pod, size, up, CONFIDENCE, switched=switched)
        for size in sizes
        if switched or cubes.per_pod % size == 0
    }
    if kept:
        found = ", ".join(f"{count} of {size * cubes.size:,}" for size, count in kept.items())
        yield f"in {CONFIDENCE:.0%} of the time the pod has healthy cubes for these slices of accelerators: {found}"
