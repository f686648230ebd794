"""One variant of the result from an engine's record; its figures come from `measure`, `economics`, `workload`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.cluster.bill import bill_of
from railyard.cluster.fabric import CREDITS
from railyard.cluster.notes import empty_leafs, notes_of
from railyard.engine import Jitter
from railyard.kit.quantities import about_time
from railyard.measure import picture as timeline_tracks
from railyard.measure.cost.assumptions import band_of, of_entry
from railyard.measure.decompose import stages
from railyard.measure.lockstep import lockstep
from railyard.measure.model_error import beyond_scatter, judged_software, power_error, step_error, tax_row
from railyard.measure.network import network_use
from railyard.measure.numbers import percent
from railyard.measure.picture import topology_picture
from railyard.measure.result.network import FaultCost
from railyard.measure.result.step import (
    StorageFigures,
    TimeShare,
)
from railyard.measure.result.variants import TrainingVariant
from railyard.measure.utilization import StepWork, utilization
from railyard.work.study.compose import completed, given_keys
from railyard.work.study.deaths import listed
from railyard.work.study.kind import MeasuredVariant
from railyard.work.study.provenance import estimates
from railyard.work.training import profiles
from railyard.work.training.collectives import beyond_logs, collective_rows, economics, packets_of
from railyard.work.training.fastest import layout_figures, layout_rows
from railyard.work.training.graphs import hashes
from railyard.work.training.jitter import law_of
from railyard.work.training.likely import filled_in
from railyard.work.training.losses import longest_s, sentence
from railyard.work.training.mean_step import Around, StepTimes
from railyard.work.training.memory import memory
from railyard.work.training.pace import about_runs, open_share, own_count, pace_of, step_width, typical_of_runs
from railyard.work.training.storing import checkpoint_of, storage_warnings
from railyard.work.training.sync.ledger import ledger, ledger_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.measure.cost.assumptions import Source
    from railyard.measure.cost.evaluate import Economics
    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.network import CollectiveRow
    from railyard.work.training.mean_step import MeanStep
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.simulate import Simulated
    from railyard.work.training.trying import Stepped


_OTHERS = "what would help, and the steps on networks without limit with which the network tax compares,"
_UNLIKE = 0.33
"""Share of an unmeasured system's variance from which on own runs are unlike a layout."""


def measure(simulated: Simulated) -> MeasuredVariant[TrainingVariant]:
    """Everything about one variant.

    Raises:
        InputError: The job would never end.
    """
    job, mean, timeline = simulated.job, simulated.mean, simulated.timeline
    decomposition, loading, saved = mean.shares, mean.loading, mean.saved
    times = StepTimes(simulated.samples_s, _around(job))
    price = ledger(job.training, job.cluster.scale_up_domain)
    carried = network_use(timeline, job.cluster, decomposition)
    cost = economics(job, mean)
    busy = utilization(decomposition, _work(job), step_s=mean.mean_s)
    ranks = timeline_tracks.sample_ranks(stages(timeline.graph), busy.per_rank)
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
        model_error=_model_error(simulated, rows, busy.tokens_per_s_per_gpu, cost),
        layout=layout_figures(job.training.layout),
        step=times.section(mean_s=mean.mean_s, more_s=more_s, **steps),
        utilization=busy.section(gpu=busy.gpu * mean.once_s / mean.mean_s),
        tax=simulated.tax,
        time=_time(mean),
        lockstep=lockstep(decomposition),
        jct=cost.jct.section() if job.training.tokens else None,
        power=cost.power.section(),
        capex=cost.capex.section(),
        cpmt=cost.section(),
        bottleneck=simulated.bottleneck.led_by(simulated.tax).section(),
        network=carried.figures,
        memory=memory(job.training, job.cluster.accelerator).figures(),
        timeline=timeline_tracks.tracks(timeline, ranks),
        topology=topology_picture(job.cluster, carried.load),
        storage=StorageFigures(
            data=None if loading is None else loading.section(),
            checkpoint=checkpoint_of(job, saved, mean.step_s, cost.jct),
        ),
        collectives=rows,
        warnings=(
            *map(sentence, simulated.faults),
            *_unbudgeted(job, cost),
            *timeline.meta.get("warnings", []),
            *([] if price is None else ledger_notes(price)),
            *_straddling(job),
            *notes_of(job.cluster),
            *_credits(simulated),
            *beyond_logs(rows),
            *_unlike_own_runs(job),
            *estimates(job.training.model),
            *storage_warnings(job, loading, saved, mean.step_s, cost.jct),
        ),
        digest=str(timeline.meta["digest"]),
        **rare,
        **packets_of(timeline, job.cluster),
    )
    left_out = _words(timeline.meta.get("left_out"))
    if timeline.meta.get("engine") != simulated.tax.engine:
        left_out = (
            *left_out,
            f"{_OTHERS} are of the engine `{simulated.tax.engine}`: its shares of the step, not its queues",
        )
    return MeasuredVariant(variant, tuple(_sources(job, cost)), left_out, tuple(_defaults(job)), tuple(ranks))


def _model_error(
    simulated: Simulated, collectives: Sequence[CollectiveRow], rate: float | None, cost: Economics
) -> tuple[ErrorRow, ...]:
    """Bands of step, tax, tokens, cost, power: dollars an hour are prices, so that a token costs what a step errs."""
    job = simulated.job
    section = job.variant.draft.scenario.training
    known = section.software.profile is not None and _judged(job)
    error = step_error(experts=bool(job.training.model.experts), precision=job.training.precision, known=known)
    likely = completed(section, job.training, job.cluster)
    error = error.widened(likely.fastest, likely.slowest)
    error = error.erring_too(simulated.tax.tokens_lost * beyond_scatter(collectives))
    device = job.cluster.accelerator.name
    own = own_count(job.training, device)
    if own:
        error = error.narrowed(own, step_width(job.training, device))
    price = band_of(cost.cpmt.total)
    rows = [
        error.row("step_s", simulated.mean.mean_s),
        tax_row(simulated.tax, collectives),
        error.row("cpmt", price.typical, prices=price),
    ]
    if rate is not None:
        rows.append(error.row("tokens_per_s_per_gpu", rate, inverse=True))
    return (*rows, power_error().row("power_w", cost.power.total_w.typical))


def _judged(job: Prepared) -> bool:
    """Whether published steps of this software on this architecture were compared with the model."""
    software = job.training.software
    return profiles.key_of(software) in judged_software() and profiles.read_on(software, job.cluster.accelerator)


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


def _unlike_own_runs(job: Prepared) -> Iterator[str]:
    """A warning where own runs leave most of the pace of the layout open, fixed or chosen."""
    training, device = job.training, job.cluster.accelerator.name
    left = open_share(training, device)
    if left is not None and left > _UNLIKE:
        (pace, width), (typical, known) = pace_of(training, device), typical_of_runs(training, device)
        yield (
            f"{training.layout} is unlike your own runs: its computation is off by {100 * (pace - 1):+.1f} +-"
            f" {percent(width)}, theirs by {100 * (typical - 1):+.1f} +- {percent(known)};"
            " measure one step of it"
        )


def _unbudgeted(job: Prepared, cost: Economics) -> Iterator[str]:
    """How a loss is spread over a job without a length."""
    if cost.jct.fault_s and not job.training.tokens:
        yield (
            f"the job has no `tokens`: one-time losses to faults are spread over {cost.jct.mtbf_s / 3600:.3g} h"
            f" of work,"
            " its mean time between failures"
        )


def _around(job: Prepared) -> Around | None:
    """The law of jitter for the quantiles of steps; None where the scenario draws differences itself or wants none."""
    if job.variant.draft.scenario.jitter.law != "quantiles" or job.jitter != Jitter():
        return None
    return Around(law_of(job.cluster.accelerator), job.cluster.ranks, job.training.layout.micro_batches)


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


def _sources(job: Prepared, cost: Economics) -> Iterator[Source]:
    cluster = job.cluster
    for entry in (cluster.accelerator, cluster.server, cluster.nic):
        yield from of_entry(entry, *entry.provenance)
    yield from cost.sources
    software = job.training.software
    from railyard.measure.cost.assumptions import Source

    for field, origin in cluster.fabric.sources.items():
        yield Source(cluster.fabric.name, field, origin.value_text, origin.source, origin.year, origin.confidence)
    year = int(software.date[:4]) if software.date[:4].isdecimal() else 0
    yield Source("software", "profile", software.name, software.source, year, "measured")


def _credits(simulated: Simulated) -> Iterator[str]:
    """The mean step under both ways in which credits may cross sites."""
    if simulated.credits_s is not None:
        mean_s, used = simulated.mean.mean_s, simulated.job.cluster.fabric.credits
        other = next(each for each in CREDITS if each != used)
        other_s = mean_s + simulated.credits_s - simulated.mean.once_s
        yield (
            f"the step takes {about_time(1e12 * mean_s)} with `fabric.credits: {used}`,"
            f" {about_time(1e12 * other_s)} with `fabric.credits: {other}`"
        )


def _straddling(job: Prepared) -> Iterator[str]:
    """A warning where the scenario asks for a use of domains by which tensor or expert groups straddle two."""
    from railyard.work.study.compose import domain_use_of

    use = domain_use_of(job.cluster, job.training.layout)
    if use is not None:
        yield (
            f"tensor or expert groups straddle scale-up domains of {job.cluster.scale_up_domain} ranks;"
            f" `cluster.ranks_per_domain: {use}` keeps each inside one"
        )


def _defaults(job: Prepared) -> Iterator[str]:
    scenario, cluster, training = job.variant.draft.scenario, job.cluster, job.training
    section = scenario.training
    if isinstance(section.parallelism, str) or section.parallelism.auto:
        yield f"parallelism: {training.layout}"
        has = training.software.schedules
        yield f"schedules: {training.software.name} has {', '.join(has)}; `software: {{schedules: [...]}}` names others"
    else:
        yield from filled_in(given_keys(section), training.layout)
    yield from _of_software(job)
    if cluster.spec.ranks_per_domain != scenario.cluster.ranks_per_domain:
        yield (
            f"ranks per domain: {cluster.spec.ranks_per_domain} of {cluster.server.scale_up_domain}, which tensor and"
            f" expert groups divide; {cluster.hardware.idle} further accelerators are bought, powered and idle"
        )
    if scenario.cluster.back_end.link_rate is None:
        yield f"link rate: {cluster.nic.rate_bps / 1e9:g} Gb/s of {cluster.nic.name}"
    if scenario.cluster.back_end.switch is None:
        names = sorted({row.name for row in bill_of(cluster) if row.kind == "switch" and row.network == "back-end"})
        if names:
            yield f"switches: {', '.join(names)}"
    yield from empty_leafs(cluster)
    if scenario.repeat == 1 and hashes(cluster):
        yield "one draw of the ECMP hashes; `repeat: 8` shows the spread"


def _of_software(job: Prepared) -> Iterator[str]:
    """What stands for software that is not named or was not judged, and where its constants come from."""
    training, accelerator = job.training, job.cluster.accelerator
    section = job.variant.draft.scenario.training.software
    own = own_count(training, accelerator.name)
    band = "the band of the step is that of your own runs" if own else "the band is that of any software"
    if section.profile is None:
        yield f"software: none is named; {training.software.name} is assumed, and {band}"
    elif not _judged(job):
        yield (
            f"software: the model was not judged by published steps of {training.software.name} on"
            f" {accelerator.architecture}; {band}"
        )
    if section.constants is not None:
        yield about_runs(training, accelerator.name)
    if not profiles.read_on(training.software, accelerator):
        yield (
            f"efficiency of {accelerator.name} is estimated from its data sheet and published kernels;"
            " no published training run was used"
        )


def _words(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()
