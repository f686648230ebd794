"""Training steps: seeds, a checkpoint, trials in which one resource is better, and the figures of one variant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.measure import picture
from railyard.measure.decompose import lockstep, stages
from railyard.measure.network import network_use
from railyard.measure.result.network import FaultCost
from railyard.measure.result.step import StorageFigures, TimeShare
from railyard.measure.result.variants import TrainingVariant
from railyard.measure.utilization import StepWork, utilization
from railyard.work.study.deaths import listed
from railyard.work.study.folder import write_timeline
from railyard.work.study.kind import TRIALS, MeasuredVariant, StudyKind, kinds
from railyard.work.training.collectives import collective_rows, economics, packets_of
from railyard.work.training.fastest import layout_figures, layout_rows
from railyard.work.training.likely import PARALLELISM
from railyard.work.training.losses import longest_s
from railyard.work.training.memory import memory
from railyard.work.training.prepare import prepare
from railyard.work.training.simulate import simulate
from railyard.work.training.step_runs import Around, StepTimes
from railyard.work.training.storing import checkpoint_of
from railyard.work.training.sync.ledger import ledger
from railyard.work.training.trust import chosen_defaults, left_out, model_error, origins, warnings

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.measure.cost.evaluate import Economics
    from railyard.measure.result.reading import Result
    from railyard.work.study.tasks import Control
    from railyard.work.training.explain import Explanation
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.simulate import Simulated
    from railyard.work.training.step_runs import MeanStep
    from railyard.work.training.trying import Stepped


def measure(simulated: Simulated) -> MeasuredVariant[TrainingVariant]:
    """Everything about one variant.

    Raises:
        InputError: The job would never end.
    """
    job, mean, timeline = simulated.job, simulated.mean, simulated.timeline
    decomposition, loading, saved = mean.shares, mean.loading, mean.saved
    times = StepTimes(simulated.samples_s, Around.of(job))
    price = ledger(job.training, job.cluster.scale_up_domain)
    carried = network_use(timeline, job.cluster, decomposition)
    cost = economics(job, mean)
    busy = utilization(decomposition, _work(job), step_s=mean.mean_s)
    ranks = picture.sample_ranks(stages(timeline.graph), busy.per_rank)
    rare: dict[str, Any] = {} if price is None else {"communication": price}
    if job.layouts:
        rare["layouts"] = layout_rows(job.layouts, job.cluster.accelerator)
    if simulated.healthy is not None:
        rare |= {"faults": simulated.faults, "fault_cost": _fault_cost(simulated, simulated.healthy, cost)}
    more_s = mean.mean_s - mean.outage_s - mean.once_s
    steps = {}
    if simulated.healthy is not None:
        longest = longest_s(simulated.faults, timeline.makespan_ps * 1e-12 + more_s)
        steps = {"without_faults_s": simulated.healthy.mean.mean_s, "longest_s": longest}
    rows = collective_rows(timeline, job.cluster, job.policy)
    variant = TrainingVariant(
        name=job.variant.name,
        settings=dict(job.variant.settings),
        bound=job.cluster.is_bound,
        outcome=simulated.outcome,
        model_error=model_error(simulated, rows, busy.tokens_per_s_per_gpu, cost),
        layout=layout_figures(job.training.layout),
        step=times.section(mean_s=mean.mean_s, more_s=more_s, **steps),
        utilization=busy.section(gpu=busy.gpu * mean.once_s / mean.mean_s),
        tax=simulated.tax,
        time=_time(mean),
        lockstep=lockstep(decomposition),
        jct=cost.jct.section() if job.training.tokens else None,
        power=cost.power.section(),
        capex=cost.capex.section(job.cluster.fitting_nics_usd),
        cpmt=cost.section(),
        bottleneck=simulated.bottleneck.led_by(simulated.tax).section(),
        network=carried.figures,
        memory=memory(job.training, job.cluster.accelerator).figures(),
        timeline=picture.tracks(timeline, ranks),
        topology=picture.topology_picture(job.cluster, carried.load),
        storage=StorageFigures(
            data=None if loading is None else loading.section(),
            checkpoint=checkpoint_of(job, saved, mean.step_s, cost.jct),
        ),
        collectives=rows,
        warnings=tuple(warnings(simulated, cost, rows, price)),
        digest=str(timeline.meta["digest"]),
        **rare,
        **packets_of(timeline, job.cluster),
    )
    return MeasuredVariant(
        variant, tuple(origins(job, cost)), left_out(simulated), tuple(chosen_defaults(job)), tuple(ranks)
    )


def _fault_cost(simulated: Simulated, healthy: Stepped, cost: Economics) -> FaultCost:
    """Cost of all faults relative to the job without any."""
    job = simulated.job
    step_s, without_s = simulated.mean.mean_s, healthy.mean.mean_s
    cpmt_usd = cost.cpmt.total.typical - healthy.cpmt_usd
    tokens = job.training.tokens
    return FaultCost(
        what=listed(fault.what for fault in simulated.faults),
        step_s=step_s - without_s,
        tokens_lost=1.0 - without_s / step_s,
        job_s=cost.jct.seconds - healthy.cost.jct.seconds if tokens else None,
        cpmt_usd=cpmt_usd,
        job_usd=cpmt_usd * tokens / 1e6 if tokens else None,
    )


def _time(mean: MeanStep) -> tuple[TimeShare, ...]:
    """The rows of the decomposition, and what the mean step has beyond it."""
    rows = [(row.cause, row.group, row.phase, row.seconds) for row in mean.shares.rows]
    rows += [(cause, "", phase, seconds) for cause, phase, seconds in mean.added if seconds > 0]
    return tuple(
        TimeShare(cause=cause, group=group, phase=phase, seconds=seconds, share=seconds / mean.mean_s)
        for cause, group, phase, seconds in rows
    )


def _work(job: Prepared) -> StepWork:
    from railyard.model import architecture

    training, accelerator = job.training, job.cluster.accelerator
    tokens = float(training.step_tokens)
    of, causal = (training.model, training.seq_len), training.causal
    frozen = training.lora is not None
    done = architecture.hardware_flops_per_token(*of, causal=causal, recompute=training.layout.recompute, frozen=frozen)
    return StepWork(
        tokens=tokens,
        model_flops=tokens * architecture.model_flops_per_token(*of, causal=causal, frozen=frozen),
        hardware_flops=tokens * done,
        peak_flops=accelerator.flops.get(training.precision, 0.0),
    )


def _run(job: Prepared, control: Control) -> Simulated:
    count = control.counted(job.variant.draft.scenario.repeat + TRIALS)
    return simulate(job, stop=control.stop, done=count, workers=control.workers, searched=control.searched)


def _settled(plain: dict[str, Any], result: Result) -> dict[str, Any]:
    """The scenario with the layouts that `auto` chose in place of it: one for all variants, or one for each."""
    chosen = [one for one in result.variants if isinstance(one, TrainingVariant) and one.layouts]
    if not chosen:
        return plain
    layouts = [one.layout.parallelism for one in result.variants if isinstance(one, TrainingVariant)]
    if all(layout == layouts[0] for layout in layouts):
        training = {**plain["workload"]["training"], "parallelism": layouts[0]}
        return {**plain, "workload": {**plain["workload"], "training": training}}
    each = [
        {"name": one.name, "set": {**one.settings, PARALLELISM: layout}}
        for one, layout in zip(result.variants, layouts, strict=True)
    ]
    return {**plain, "compare": {"variants": each}}


def _explain(file: Path, result: Result, variant: str | None, **how: Any) -> Explanation:
    from railyard.work.training.explain import explain

    return explain(file, result, variant, **how)


TRAINING = kinds.add(
    "training",
    StudyKind(
        name="training",
        prepare=prepare,
        engine=lambda job: job.engine.name,
        run=_run,
        measure=measure,
        write=lambda folder, simulated, found: write_timeline(folder, simulated.timeline, found.sampled_ranks),
        settled=_settled,
        parallel=True,
        faulty=True,
        explain=_explain,
        closed_form=True,
    ),
)
