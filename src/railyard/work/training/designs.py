"""Step times of thousands of designs with contention: combines the closed forms of the work and of the network.

The work gives its traffic and its step time, the network how much longer the traffic takes; they exchange only columns.
A longer step spreads its bytes over more time, so the two are evaluated alternately.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.curves import Library
from railyard.engine.designs import DesignNetworks, NetworkDemand, Stretch, contention
from railyard.engine.tiers import Tiers
from railyard.model import architecture
from railyard.model.machine import Machine, MachineColumns, Slowdowns, distinct, rows_taken, table_of
from railyard.work.training import stored
from railyard.work.training.columns import Columns
from railyard.work.training.jitter import median_delay_s
from railyard.work.training.passes import concurrent_passes, layer_passes
from railyard.work.training.rank_times import RankTimes, rank_times
from railyard.work.training.stages import PipelineRanks
from railyard.work.training.state import CLASSES, sync_times, traffic
from railyard.work.training.sync.closed_form import AdaptedDesigns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.cluster import Cluster
    from railyard.model.machine import F
    from railyard.work.training.passes import ConcurrentPasses, LayerPasses
    from railyard.work.training.spec import Training

    Change = Callable[[Columns], Columns]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one step by cause; the parts sum to `step_s`. One row per design.

    Attributes:
        compute_s: Kernels of the busiest rank, including recomputation and slowdown by overlapping collectives.
        host_s: Waiting for kernel launches by the host.
        tensor_s, context_s, expert_s: Exposed collectives of these groups.
        pipeline_s: Exposed sends between stages.
        bubble_s: Pipeline fill and drain.
        gradient_s, parameter_s: Exposed reductions of gradients and gathers of parameters.
        encoding_s: Kernels that encode and decode traffic, if a job sends it encoded.
        outer_s: Share of a mean step for the synchronization of workers with local updates.
        optimizer_s: The optimizer's step, and passes over gradient buffers.
        fixed_s: The host's fixed part of a step.
        data_s: Waiting for samples, if the machine has a storage system and the job reads from it.
        checkpoint_s: Checkpoint time per mean step.
        jitter_s: Waiting for the rank with the longest interruption, in the median step; see `jitter`.
        mfu: Model FLOPs (causal attention) over the dense 16-bit peak of all accelerators.
    """

    step_s: F
    compute_s: F
    host_s: F
    tensor_s: F
    context_s: F
    expert_s: F
    pipeline_s: F
    bubble_s: F
    gradient_s: F
    parameter_s: F
    encoding_s: F
    outer_s: F
    optimizer_s: F
    fixed_s: F
    data_s: F
    checkpoint_s: F
    jitter_s: F
    tokens_per_s: F
    mfu: F

    def row(self, index: int) -> dict[str, float]:
        """One design as a dictionary."""
        return {field.name: float(getattr(self, field.name)[index]) for field in fields(self)}


@dataclass(frozen=True)
class _Rows:
    """Many designs as columns, with what no slowdown of their communications changes.

    Attributes:
        jobs, machines: The different ones among the designs'.
        job, at: int64[d] each, which of them a design has.
        kind: int64[d], the same of designs that have one job on the same devices.
        ranks, tokens, useful: float64[d], accelerators of a job, its tokens of a step, and model FLOPs of these.
        stores, offloads: bool[d], whether a job reads from or writes to storage, and keeps state in a memory pool.
    """

    jobs: tuple[Training, ...]
    machines: tuple[Machine, ...]
    job: NDArray[np.int64]
    at: NDArray[np.int64]
    kind: NDArray[np.int64]
    columns: Columns
    machine: MachineColumns
    pipeline: PipelineRanks
    passes: LayerPasses
    around: AdaptedDesigns
    ranks: F
    tokens: F
    useful: F
    stores: NDArray[np.bool_]
    offloads: NDArray[np.bool_]

    @classmethod
    def of(cls, trainings: Sequence[Training], machines: Sequence[Machine], change: Change | None) -> _Rows:
        """The columns of some designs; what a job on its devices has is worked out once, whatever their network."""
        jobs, job = distinct(trainings)
        known, at = distinct(machines)
        devices, of_machine = distinct([machine.accelerator for machine in known])
        pairs, row = np.unique(job * len(devices) + of_machine[at], return_inverse=True)
        numbers = [divmod(int(pair), len(devices)) for pair in pairs]
        columns = Columns.of([jobs[one] for one, _ in numbers], [devices[device] for _, device in numbers])
        columns = columns if change is None else change(columns)
        tokens = np.array([float(one.step_tokens) for one in jobs])
        return cls(
            *(jobs, known, job, at, row, rows_taken(columns, row), rows_taken(MachineColumns.of(known), at)),
            *(rows_taken(PipelineRanks.of(jobs), job), rows_taken(layer_passes(columns), row)),
            AdaptedDesigns.of(trainings, machines),
            ranks=np.array([float(one.layout.ranks) for one in jobs])[job],
            tokens=tokens[job],
            useful=(_model_flops(jobs) * tokens)[job],
            stores=np.array([one.data is not None or one.checkpoint is not None for one in jobs], np.bool_)[job],
            offloads=np.array([one.offload is not None for one in jobs], np.bool_)[job],
        )

    def those(self, which: NDArray[np.bool_]) -> Iterator[tuple[int, Training, Machine]]:
        """Numbers, jobs and machines of some designs."""
        for row in np.flatnonzero(which).tolist():
            yield row, self.jobs[self.job[row]], self.machines[self.at[row]]


def estimate(
    trainings: Sequence[Training],
    machines: Sequence[Machine],
    *,
    change: Change | None = None,
) -> Estimate:
    """Step times of many designs, each with the network to itself.

    Args:
        trainings: One job per design.
        machines: The machine of each, in the same order.
        change: Changes columns before anything is computed, e.g. switches off a detail in all designs.
    """
    return _estimate(_Rows.of(trainings, machines, change))


def _estimate(rows: _Rows, slowed: Slowdowns | None = None, concurrent: ConcurrentPasses | None = None) -> Estimate:
    """Step times with communications slowed by others on shared links; None: no slowdown."""
    columns, pipeline, passes, around = rows.columns, rows.pipeline, rows.passes, rows.around
    machine = replace(rows.machine, slowed=slowed)
    concurrent = concurrent or concurrent_passes(columns, machine)
    kinds = [rank_times(columns, passes, kind, machine, (concurrent, around)) for kind in pipeline.kinds]
    totals = np.array(
        [np.where(kind.ranks > 0, times.total, 0.0) for kind, times in zip(pipeline.kinds, kinds, strict=True)]
    )
    busiest = np.argmax(totals, axis=0)
    times = RankTimes(*(np.choose(busiest, [getattr(kind, name) for kind in kinds]) for name in RankTimes.__slots__))
    rest = sum(kind.ranks * total for kind, total in zip(pipeline.kinds, totals, strict=True)) - times.total
    sync = sync_times(columns, pipeline, machine, times, around)
    batches = columns.layout.micro_batches
    bubble = _bubble(columns, times, rest)
    parts = {
        "compute_s": batches * times.compute + sync.contention,
        "host_s": batches * times.host,
        "tensor_s": batches * times.tensor,
        "context_s": batches * times.context,
        "expert_s": batches * times.expert + _uncovered(columns, times),
        "pipeline_s": batches * times.pipeline + 2.0 * (columns.layout.pp - 1.0) * times.send,
        "bubble_s": bubble,
        "gradient_s": sync.gradient + batches * times.gradient,
        "parameter_s": sync.parameter + batches * times.parameter,
        "encoding_s": sync.encoding + batches * times.encoding,
        "optimizer_s": sync.optimizer,
        "fixed_s": columns.software.step_s,
    }
    passes_s = np.sum(list(parts.values()), axis=0) - sync.optimizer - columns.software.step_s
    parts["optimizer_s"] = sync.optimizer + _offloaded(rows, (sync.optimizer, passes_s))
    parts["outer_s"] = around.meetings(pipeline, np.sum(list(parts.values()), axis=0))
    parts |= _stored(rows, np.sum(list(parts.values()), axis=0))
    undisturbed = np.sum(list(parts.values()), axis=0)
    devices = [one.accelerator for one in rows.machines]
    parts["jitter_s"] = median_delay_s(devices, rows.at, rows.ranks, undisturbed)
    step = undisturbed + parts["jitter_s"]
    return Estimate(
        step_s=step,
        tokens_per_s=rows.tokens / step,
        mfu=rows.useful / (step * rows.ranks * columns.device.peak16),
        **parts,
    )


def _stored(rows: _Rows, compute_s: F) -> dict[str, F]:
    """Time waiting for storage; few jobs use it, so they are evaluated one by one."""
    waits = {"data_s": np.zeros(len(rows.job)), "checkpoint_s": np.zeros(len(rows.job))}
    for row, training, machine in rows.those(rows.stores):
        if machine.storage is None:
            continue
        waits["data_s"][row] = stored.data_s(training, machine.storage, float(compute_s[row]))
        waits["checkpoint_s"][row] = stored.checkpoint_s(training, machine.storage)
    return waits


def _offloaded(rows: _Rows, times_s: tuple[F, F]) -> F:
    """Additional update time because state is moved to and from the memory pool."""
    longer, (update_s, compute_s) = np.zeros(len(rows.job)), times_s
    for row, training, machine in rows.those(rows.offloads):
        offload, pool = training.offload, machine.memory_pool
        if offload is None or pool is None:
            continue
        layout = training.layout
        each = training.software.state_bytes(layout.zero) * 8.0 / offload.parts
        dense, expert = (layout.shard_ranks, max(layout.edp, 1)) if layout.zero else (1, 1)
        bits = each * max(
            float(kind.dense[row]) / dense + float(kind.expert[row]) / expert for kind in rows.pipeline.kinds
        )
        part_s = float(update_s[row]) / offload.parts
        load_s, store_s = bits / pool.load_bps + pool.latency_s, bits / pool.store_bps + pool.latency_s
        took_s = offload.update_s(load_s, part_s, store_s, float(compute_s[row]))
        longer[row] = max(took_s, part_s + offload.moved * bits / pool.together_bps) - float(update_s[row])
    return longer


def _bubble(columns: Columns, times: RankTimes, rest: F) -> F:
    """Fill and drain: the other ranks' share of one micro-batch, divided by the virtual stages.

    Zero-bubble schedules (Qi et al. 2023, arXiv 2401.10241, ZB-H1) fill it with weight-gradient work; DualPipe's is
    (p/2 - 1)(F&B + B - 3W) (DeepSeek-V3, arXiv 2412.19437, table 2).
    """
    layout = columns.layout
    filled = np.maximum(0.0, 1.0 - 2.0 * times.weight / times.total)
    single = rest / layout.vp * np.where(layout.zero_bubble > 0, filled, 1.0)
    chunk = times.total + times.backward + times.expert_back - 3.0 * times.weight
    return np.where(layout.dual > 0, (layout.pp / 2.0 - 1.0) * np.maximum(chunk, 0.0), single)


def _uncovered(columns: Columns, times: RankTimes) -> F:
    """Expert exchanges of passes that run alone and overlap no other waiting.

    While the pipeline fills and drains, that is p passes each way: p - 1 on the way to the last rank, whose own chunks
    begin one later; of the v p passes of its first chunks each is a v-th. DualPipe's outermost rank has 3 p / 2 - 1.
    """
    layout = columns.layout
    alone = np.minimum(np.where(layout.dual > 0, 1.5 * layout.pp - 1.0, layout.pp), layout.micro_batches)
    return alone * (times.expert_ahead + times.expert_back)


def _model_flops(trainings: Sequence[Training]) -> F:
    def of(job: Training) -> tuple[float]:
        frozen = job.lora is not None
        return (architecture.model_flops_per_token(job.model, job.seq_len, causal=job.causal, frozen=frozen),)

    return table_of(trainings, of, key=lambda job: (id(job.model), job.seq_len, job.causal, job.lora is None))[:, 0]


ROUNDS = 2
"""Iterations after the first estimate, in which every communication has the network to itself."""


@dataclass(frozen=True)
class DesignSite:
    """A cluster as the closed forms see it.

    Attributes:
        machine: Its accelerators and rates. What a fabric reaches of links between switches is in the tiers.
    """

    machine: Machine
    tiers: Tiers

    @classmethod
    def of(cls, cluster: Cluster) -> DesignSite:
        """The parameters of a cluster.

        Raises:
            InputError: Its topology has no closed form; see `Tiers.of`.
        """
        return cls(replace(Machine.of(cluster), share=1.0, library=Library.of(cluster)), Tiers.of(cluster))


@dataclass(frozen=True)
class Designs:
    """Step times of d designs.

    Attributes:
        step: Steps with contention, by cause.
        alone: The same with the network to themselves.
        stretch: Slowdown of each class of communicators; classes as in `CLASSES`.
    """

    step: Estimate
    alone: Estimate
    stretch: Stretch


def evaluate(trainings: Sequence[Training], sites: Sequence[DesignSite], *, others: F | None = None) -> Designs:
    """Steps of many designs.

    Effects of the job's communication method (`Training.communication`) are timed without contention.

    Args:
        trainings: One job per design.
        sites: Site of each, in the same order; designs with the same site share the object.
        others: float64[d, t], utilization of each network tier by other jobs, as in `Stretch.utilization`.
    """
    return _contended(_Rows.of(trainings, [site.machine for site in sites], _AS_GRAPH), sites, others)


_AS_GRAPH: Change = partial(replace, as_graph=True)


def _contended(rows: _Rows, sites: Sequence[DesignSite], others: F | None = None) -> Designs:
    networks = DesignNetworks.of(*distinct([site.tiers for site in sites]))
    classes = traffic(rows.columns, rows.pipeline, rows.machine)
    demand = NetworkDemand.both(networks, classes)
    alone = step = _estimate(rows)
    stretch = contention(networks, classes, step.step_s, others, demand)
    for _ in range(ROUNDS):
        step = _estimate(rows, _slowdowns(stretch))
        stretch = contention(networks, classes, step.step_s, others, demand)
    return Designs(step, alone, stretch)


def evaluate_fastest(
    trainings: Sequence[Training],
    sites: Sequence[DesignSite],
    families: NDArray[np.int64],
    places: NDArray[np.int64],
    most: int,
) -> tuple[Estimate, Estimate]:
    """Steps of designs, as far as it takes to know the fastest of the `most` fastest families of each place.

    A step is no shorter than without contention and with all memory bandwidth for computing. Designs that are not fast
    enough even so are not evaluated further.

    Args:
        trainings: One job per design.
        sites: Site of each, in the same order; designs with the same site share the object.
        families: int64[d], of which each lies in one place; what is compared are steps less jitter and checkpoints.
        places: int64[d].
        most: Families of a place, at least 1.

    Returns:
        Steps with contention and alone, as `evaluate` finds them; endless where they were not evaluated.
    """
    rows = _Rows.of(trainings, [site.machine for site in sites], _AS_GRAPH)
    low = _BELOW * steady_step_s(_undisturbed(rows))
    found = np.zeros((2, len(fields(Estimate)), len(low)))
    found[:, 0] = np.inf  # the first field is the step
    family, of_family = np.unique(families, return_index=True)
    family = np.searchsorted(family, families)
    place = places[of_family]
    fastest = np.full(len(place), np.inf)
    np.minimum.at(fastest, family, low)
    open_ = (low == fastest[family]) & (low <= _nth(fastest, place, most)[places])
    fastest[:] = np.inf
    while np.any(open_):
        these = np.flatnonzero(open_)
        designs = _contended(rows_taken(rows, these), [sites[at] for at in these.tolist()])
        for kept, one in zip(found, (designs.step, designs.alone), strict=True):
            kept[:, these] = [getattr(one, field.name) for field in fields(one)]
        np.minimum.at(fastest, family[these], steady_step_s(designs.step))
        limit = np.minimum(fastest[family], _nth(fastest, place, most)[places])
        open_ = (low <= limit) & np.isinf(found[0, 0])
    return Estimate(*found[0]), Estimate(*found[1])


_BELOW = 0.998
"""Share of such a step that is taken for the least: slower computing hides more, so that some steps are 0.01 % below it
(10,000 layouts of two models on 40 networks)."""


def steady_step_s(step: Estimate) -> F:
    """float64[d], steps without jitter and checkpoints."""
    return step.step_s - step.jitter_s - step.checkpoint_s


def _undisturbed(rows: _Rows) -> Estimate:
    """Steps without contention and without what communications take of the memory's bandwidth."""
    _, first = np.unique(rows.kind, return_index=True)
    some = rows_taken(rows.machine, first)
    silent = replace(some, up_bytes_s=0.0 * some.up_bytes_s, out_bytes_s=0.0 * some.out_bytes_s)
    return _estimate(rows, concurrent=rows_taken(concurrent_passes(rows_taken(rows.columns, first), silent), rows.kind))


def _nth(values: F, places: NDArray[np.int64], number: int) -> F:
    """The value of that number, counted from 1, of each place in ascending order; endless where there are fewer."""
    order = np.lexsort((values, places))
    begin = np.searchsorted(places[order], np.arange(places.max() + 1))
    at = begin + number - 1
    there = (at < len(order)) & (places[order][np.minimum(at, len(order) - 1)] == np.arange(len(begin)))
    return np.where(there, values[order][np.minimum(at, len(order) - 1)], np.inf)


def _slowdowns(stretch: Stretch) -> Slowdowns:
    return Slowdowns(
        *(
            {name: column[:, number] for number, name in enumerate(CLASSES)}
            for column in (stretch.inside, stretch.outside, stretch.aggregated)
        )
    )
