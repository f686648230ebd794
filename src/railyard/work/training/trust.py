"""Trust in the figures of a step: bands of the model's error, origins, what was assumed, what to know first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.bill import bill_of
from railyard.cluster.fabric import CREDITS
from railyard.cluster.notes import empty_leafs, notes_of
from railyard.kit.quantities import about_time
from railyard.measure.cost.assumptions import Source, band_of
from railyard.measure.model_error import beyond_scatter, judged_software, power_error, step_error, tax_row
from railyard.measure.numbers import percent
from railyard.work.study.compose import completed, domain_use_of, given_keys
from railyard.work.study.provenance import estimates, sources_of
from railyard.work.training import profiles
from railyard.work.training.collectives import beyond_logs
from railyard.work.training.graphs import hashes, lattice_of
from railyard.work.training.likely import filled_in
from railyard.work.training.losses import sentence
from railyard.work.training.pace import about_runs, open_share, own_count, pace_of, step_width, typical_of_runs
from railyard.work.training.parallel.circuits import circuit_notes
from railyard.work.training.storing import storage_warnings
from railyard.work.training.sync.ledger import ledger_notes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.catalog import Accelerator
    from railyard.measure.cost.evaluate import Economics
    from railyard.measure.model_error import ModelError
    from railyard.measure.result.money import ErrorRow
    from railyard.measure.result.network import CollectiveRow
    from railyard.measure.result.step import CommunicationFigures
    from railyard.work.training.prepare import Prepared
    from railyard.work.training.section import TrainingSection
    from railyard.work.training.simulate import Simulated
    from railyard.work.training.spec import SoftwareProfile

_OTHERS = "what would help, and the steps on networks without limit with which the network tax compares,"
_UNLIKE = 0.33
"""Share of an unmeasured system's variance from which on own runs are unlike a layout."""


def model_error(
    simulated: Simulated, collectives: Sequence[CollectiveRow], rate: float | None, cost: Economics
) -> tuple[ErrorRow, ...]:
    """Bands of step, tax, tokens, cost, power: dollars an hour are prices, so that a token costs what a step errs."""
    job = simulated.job
    section = job.variant.draft.scenario.training
    error = _step_error(job, known=_known(job))
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


def _step_error(job: Prepared, *, known: bool) -> ModelError:
    return step_error(experts=bool(job.training.model.experts), precision=job.training.precision, known=known)


def _known(job: Prepared) -> bool:
    return software_known(job.variant.draft.scenario.training, job.training.software, job.cluster.accelerator)


def software_known(section: TrainingSection, software: SoftwareProfile, accelerator: Accelerator) -> bool:
    """Whether a scenario names its software, and published steps of it on this architecture were compared."""
    judged = profiles.key_of(software) in judged_software() and profiles.read_on(software, accelerator)
    return section.software.profile is not None and judged


def _unknown_software(job: Prepared) -> Iterator[str]:
    """A warning where the band is that of any software; own runs, where there are any, give their own band."""
    if _known(job) or own_count(job.training, job.cluster.accelerator.name):
        return
    named = job.variant.draft.scenario.training.software.profile
    who = f"no published step of {named} on {job.cluster.accelerator.architecture} was compared with the model"
    missing = who if named else f"the software is not known ({job.training.software.name} is assumed)"
    wide, narrow = (_step_error(job, known=known).percents for known in (False, True))
    instead = "" if wide == narrow else f" (known software: {narrow} %)"
    yield f"{missing}, so the band of the step is {wide} %{instead}"


def warnings(
    simulated: Simulated, cost: Economics, collectives: Sequence[CollectiveRow], price: CommunicationFigures | None
) -> Iterator[str]:
    """What to know before the figures are believed; `price` is that of a job's way of communicating."""
    job, mean = simulated.job, simulated.mean
    yield from map(sentence, simulated.faults)
    yield from _unknown_software(job)
    yield from _unbudgeted(job, cost)
    yield from simulated.timeline.meta.get("warnings", [])
    yield from () if price is None else ledger_notes(price)
    yield from _straddling(job)
    yield from notes_of(job.cluster)
    yield from circuit_notes(job.training, job.cluster, lattice_of(job.training, job.cluster))
    yield from _credits(simulated)
    yield from beyond_logs(collectives)
    yield from _unlike_own_runs(job)
    yield from estimates(job.training.model)
    yield from storage_warnings(job, mean.loading, mean.saved, mean.step_s, cost.jct)


def left_out(simulated: Simulated) -> tuple[str, ...]:
    """Omissions of the engine, and of the one that trials were made on."""
    meta = simulated.timeline.meta
    found = tuple(map(str, meta.get("left_out") or ()))
    if meta.get("engine") == simulated.tax.engine:
        return found
    return *found, f"{_OTHERS} are of the engine `{simulated.tax.engine}`: its shares of the step, not its queues"


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
    use = domain_use_of(job.cluster, job.training.layout)
    if use is not None:
        yield (
            f"tensor or expert groups straddle scale-up domains of {job.cluster.scale_up_domain} ranks;"
            f" `cluster.ranks_per_domain: {use}` keeps each inside one"
        )


def origins(job: Prepared, cost: Economics) -> Iterator[Source]:
    """Origins of prices, powers and rates, and of the software's constants."""
    software = job.training.software
    yield from sources_of([job.cluster], cost.sources, job.cluster.fabric)
    year = int(software.date[:4]) if software.date[:4].isdecimal() else 0
    yield Source("software", "profile", software.name, software.source, year, "measured")


def chosen_defaults(job: Prepared) -> Iterator[str]:
    """What was chosen because the scenario did not say."""
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
    """What stands for software that is not named, and where its constants come from."""
    training, accelerator = job.training, job.cluster.accelerator
    section = job.variant.draft.scenario.training.software
    own = own_count(training, accelerator.name)
    if section.profile is None:
        yield f"software: {training.software.name}{'; the band of the step is that of your own runs' if own else ''}"
    if section.constants is not None:
        yield about_runs(training, accelerator.name)
    if not profiles.read_on(training.software, accelerator):
        yield (
            f"efficiency of {accelerator.name} is estimated from its data sheet and published kernels;"
            " no published training run was used"
        )
