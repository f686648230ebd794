"""Everything that running a trace needs: its tasks, placed on the accelerators of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph import Job
from railyard.kit.errors import InputError
from railyard.work.scenario.load import blaming, dump
from railyard.work.study import compose
from railyard.work.study.deaths import refuse_fatal
from railyard.work.study.provenance import Memo
from railyard.work.trace import formats
from railyard.work.training.prepare import engine_of, faults_of, policy_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.cluster.fault import Fault
    from railyard.collective import CollectivePolicy
    from railyard.engine import Engine, Jitter
    from railyard.measure.cost.assumptions import Assumptions
    from railyard.work.scenario.load import Draft, Variant
    from railyard.work.trace.builder import Trace

PLACE = ("workload", "trace")


@dataclass(frozen=True, eq=False)
class PreparedTrace:
    """One variant, ready to run.

    Attributes:
        placement: int32[ranks], the accelerator of each of its ranks.
    """

    variant: Variant
    cluster: Cluster
    trace: Trace
    format: str
    placement: NDArray[np.int32]
    engine: Engine
    policy: CollectivePolicy
    faults: tuple[Fault, ...]
    jitter: Jitter
    assumptions: Assumptions

    @property
    def seeds(self) -> range:
        """The seeds that are run."""
        scenario = self.variant.draft.scenario
        return range(scenario.seed, scenario.seed + scenario.repeat)


def prepare(variants: Sequence[Variant], engine: str | None = None) -> list[PreparedTrace]:
    """All variants of a scenario, ready to run.

    Raises:
        InputError: One of them cannot be run; with the place in the scenario.
    """
    memo = Memo()
    return [_job(variant, memo, engine) for variant in variants]


def _job(variant: Variant, memo: Memo, engine: str | None) -> PreparedTrace:
    import railyard.engine as engines

    draft, scenario = variant.draft, variant.draft.scenario
    catalog = compose.shared_catalog(draft, memo)
    cluster = compose.shared_cluster(draft, catalog, memo)
    name, trace = memo.get("trace", dump(scenario.trace), partial(read_trace, draft))
    with blaming(draft, *PLACE):
        placement = placement_of(trace.ranks, cluster, scenario.trace.ranks_per_server)
    faults = faults_of(draft)
    with blaming(draft, "collectives"):
        policy = policy_of(scenario.collectives, draft.folder, cluster, faults)
    assumptions = compose.economics_of(draft, catalog)
    flow = engines.get("flow")
    refuse_fatal(
        draft,
        faults,
        cluster,
        placement,
        lambda some: flow.simulate([Job(trace.graph, placement)], cluster, faults=some, policy=policy),
    )
    return PreparedTrace(
        variant=variant,
        cluster=cluster,
        trace=trace,
        format=name,
        placement=placement,
        engine=engine_of(draft, cluster, compose.engine_name(variant, engine)),
        policy=policy,
        faults=faults,
        jitter=engines.Jitter(scenario.jitter.sigma, scenario.jitter.rank_sigma),
        assumptions=assumptions,
    )


def path_of(draft: Draft) -> Path:
    """The file of a trace."""
    return draft.folder / draft.scenario.trace.file


def read_trace(draft: Draft) -> tuple[str, Trace]:
    """Format and tasks of the trace, its computations scaled.

    Raises:
        InputError: There is no such file, or it is wrong.
    """
    section, path = draft.scenario.trace, path_of(draft)
    with blaming(draft, *PLACE):
        if not path.exists():
            raise InputError("there is no such file", key="file", found=section.file)
        name = section.format or formats.format_of(path)
        trace = formats.read(path, name, section)
        if not len(trace.graph):
            raise InputError("nothing of the trace can ever start", key="file", found=section.file)
    if section.compute_scale == 1:
        return name, trace
    duration = np.rint(trace.graph.duration_ps * section.compute_scale).astype(np.int64)
    return name, replace(trace, graph=replace(trace.graph, duration_ps=duration))


def placement_of(ranks: int, cluster: Cluster, ranks_per_server: int | None) -> NDArray[np.int32]:
    """int32[ranks], the accelerator of each rank: server after server, so many ranks on each.

    Raises:
        InputError: There are more ranks than places.
    """
    most = cluster.ranks_per_server
    each = ranks_per_server or most
    if each > most:
        raise InputError("a server has fewer accelerators", key="ranks_per_server", found=each, allowed=f"1 to {most}")
    places = cluster.ranks // most * each
    if ranks > places:
        raise InputError("the trace has more ranks than the cluster", found=ranks, allowed=f"at most {places}")
    rank = np.arange(ranks, dtype=np.int32)
    return rank // each * most + rank % each
