"""Step times of thousands of designs with contention: combines the closed forms of the work and of the network.

The work gives its traffic and its step time, the network how much longer the traffic takes; they exchange only columns.
A longer step spreads its bytes over more time, so the two are evaluated alternately.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from railyard.collective.curves import Library
from railyard.engine.designs import Asked, DesignNetworks, Stretch, contention
from railyard.engine.tiers import Tiers
from railyard.model import architecture
from railyard.model.machine import Machine, MachineColumns, Slowdowns, table_of
from railyard.work.training import stored
from railyard.work.training.columns import Columns
from railyard.work.training.jitter import median_delay_s
from railyard.work.training.passes import concurrent_passes, layer_passes
from railyard.work.training.rank_times import RankTimes, rank_times
from railyard.work.training.stages import PipelineRanks
from railyard.work.training.state import CLASSES, sync_times, traffic
from railyard.work.training.sync.closed_form import AdaptedDesigns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from railyard.cluster import Cluster
    from railyard.model.machine import F
    from railyard.work.training.passes import LayerPasses
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


class _Rows(NamedTuple):
    """Many designs as columns, with what no slowdown of their communications changes."""

    trainings: Sequence[Training]
    machines: Sequence[Machine]
    columns: Columns
    machine: MachineColumns
    pipeline: PipelineRanks
    passes: LayerPasses
    around: AdaptedDesigns


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
    return _estimate(_rows(trainings, machines, change))


def _rows(trainings: Sequence[Training], machines: Sequence[Machine], change: Change | None) -> _Rows:
    columns = Columns.of(trainings, [machine.accelerator for machine in machines])
    columns = columns if change is None else change(columns)
    ranks, around = PipelineRanks.of(trainings), AdaptedDesigns.of(trainings, machines)
    return _Rows(trainings, machines, columns, MachineColumns.of(machines), ranks, layer_passes(columns), around)


def _estimate(rows: _Rows, slowed: Slowdowns | None = None) -> Estimate:
    """Step times with communications slowed by others on shared links; None: no slowdown."""
    trainings, machines, columns, pipeline = rows.trainings, rows.machines, rows.columns, rows.pipeline
    machine, passes, around = replace(rows.machine, slowed=slowed), rows.passes, rows.around
    concurrent = concurrent_passes(columns, machine)
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
    parts["optimizer_s"] = sync.optimizer + _offloaded(trainings, machines, pipeline, (sync.optimizer, passes_s))
    parts["outer_s"] = around.meetings(pipeline, np.sum(list(parts.values()), axis=0))
    parts |= _stored(trainings, machines, np.sum(list(parts.values()), axis=0))
    ranks = np.array([float(training.layout.ranks) for training in trainings])
    undisturbed = np.sum(list(parts.values()), axis=0)
    parts["jitter_s"] = median_delay_s([machine.accelerator for machine in machines], ranks, undisturbed)
    step = undisturbed + parts["jitter_s"]
    tokens = np.array([float(training.step_tokens) for training in trainings])
    useful = _model_flops(trainings) * tokens
    return Estimate(
        step_s=step, tokens_per_s=tokens / step, mfu=useful / (step * ranks * columns.device.peak16), **parts
    )


def _stored(trainings: Sequence[Training], machines: Sequence[Machine], compute_s: F) -> dict[str, F]:
    """Time waiting for storage; few jobs use it, so they are evaluated one by one."""
    waits = {"data_s": np.zeros(len(trainings)), "checkpoint_s": np.zeros(len(trainings))}
    for row, (training, machine) in enumerate(zip(trainings, machines, strict=True)):
        if machine.storage is not None and (training.data is not None or training.checkpoint is not None):
            waits["data_s"][row] = stored.data_s(training, machine.storage, float(compute_s[row]))
            waits["checkpoint_s"][row] = stored.checkpoint_s(training, machine.storage)
    return waits


def _offloaded(
    trainings: Sequence[Training], machines: Sequence[Machine], pipeline: PipelineRanks, times_s: tuple[F, F]
) -> F:
    """Additional update time because state is moved to and from the memory pool."""
    longer, (update_s, compute_s) = np.zeros(len(trainings)), times_s
    for row, (training, machine) in enumerate(zip(trainings, machines, strict=True)):
        offload, pool = training.offload, machine.memory_pool
        if offload is None or pool is None:
            continue
        layout = training.layout
        each = training.software.state_bytes(layout.zero) * 8.0 / offload.parts
        dense, expert = (layout.shard_ranks, max(layout.edp, 1)) if layout.zero else (1, 1)
        bits = each * max(float(kind.dense[row]) / dense + float(kind.expert[row]) / expert for kind in pipeline.kinds)
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
    rows = _rows(trainings, [site.machine for site in sites], partial(replace, as_graph=True))
    networks, classes = _networks(sites), traffic(rows.columns, rows.pipeline, rows.machine)
    asked = Asked.both(networks, classes)
    alone = step = _estimate(rows)
    stretch = contention(networks, classes, step.step_s, others, asked)
    for _ in range(ROUNDS):
        step = _estimate(rows, _slowdowns(stretch))
        stretch = contention(networks, classes, step.step_s, others, asked)
    return Designs(step, alone, stretch)


def _networks(sites: Sequence[DesignSite]) -> DesignNetworks:
    known: dict[int, int] = {}
    index = [known.setdefault(id(site.tiers), len(known)) for site in sites]
    first = {known[id(site.tiers)]: site.tiers for site in sites}
    return DesignNetworks.of([first[number] for number in range(len(known))], np.array(index, np.int64))


def _slowdowns(stretch: Stretch) -> Slowdowns:
    return Slowdowns(
        inside={name: stretch.inside[:, number] for number, name in enumerate(CLASSES)},
        outside={name: stretch.outside[:, number] for number, name in enumerate(CLASSES)},
        aggregated={name: stretch.aggregated[:, number] for number, name in enumerate(CLASSES)},
    )
