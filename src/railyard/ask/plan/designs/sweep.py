"""Designs in closed form: every layout of every point, thousands at a time; of each the best of each kind are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.plan.designs.objectives import figures_of
from railyard.ask.plan.designs.outcome import Outcome, layout_values
from railyard.ask.plan.designs.price import priced
from railyard.kit.errors import InputError
from railyard.model.machine import Machine, StorageRates
from railyard.work.training import stored
from railyard.work.training.designs import estimate, evaluate
from railyard.work.training.losses import unsaved_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.ask.plan.designs.build import Bench, Design
    from railyard.work.training.designs import Estimate
    from railyard.work.training.spec import Training

AT_ONCE = 16_384
"""Layouts that are evaluated together: columns of this length stay in the processor's cache."""

KINDS = 24
"""Layouts of a point that are kept."""

_EXPOSED = {
    "tensor_s": "tp",
    "context_s": "cp",
    "expert_s": "ep",
    "pipeline_s": "pp",
    "gradient_s": "dp",
    "parameter_s": "dp",
    "outer_s": "dp",
}
_OTHER = {
    "compute_s": ("compute", "", "forward"),
    "encoding_s": ("compute", "", "encoding"),
    "optimizer_s": ("compute", "", "optimizer"),
    "host_s": ("dependency", "", "host"),
    "fixed_s": ("dependency", "", "host"),
    "bubble_s": ("bubble", "pp", ""),
    "data_s": ("data", "", ""),
}


def sweep(bench: Bench, points: Sequence[tuple[int, int]], exclude: frozenset[str]) -> Iterator[Outcome]:
    """Points in closed form; those that cannot be come last.

    Args:
        bench: Builds them.
        points: Numbers of points and demands.
        exclude: Makers and catalogue names to look for.
    """
    waiting: list[Design] = []
    failed: dict[tuple[int, int], Outcome] = {}
    count = 0
    for point, demand in points:
        try:
            design = bench.design(point, demand)
        except InputError as error:
            failed[point, demand] = Outcome(point, demand, "analytic", error=reason(error))
            continue
        waiting.append(design)
        count += len(design.jobs)
        if count >= AT_ONCE:
            yield from _evaluated(bench, waiting, exclude)
            waiting, count = [], 0
    if waiting:
        yield from _evaluated(bench, waiting, exclude)
    yield from failed.values()


def reason(error: InputError) -> str:
    """Why a point cannot be, in one line."""
    problem = error.problems[0]
    text = problem.headline().splitlines()[0]
    return f"{text} (allowed: {problem.allowed})" if problem.allowed and len(problem.allowed) < 80 else text


def _evaluated(bench: Bench, designs: Sequence[Design], exclude: frozenset[str]) -> Iterator[Outcome]:
    """Some designs, those without a closed form of their network without its contention."""
    for known in (True, False):
        some = [design for design in designs if (design.hardware.site is not None) is known]
        if some:
            yield from _ranked(bench, some, exclude, contended=known)


def _kept(net_s: NDArray[np.float64], jobs: Sequence[Training], these: range) -> list[int]:
    """The fastest layout of each kind, the fastest kind first: within a kind the closed form errs alike."""
    found: dict[tuple[int, ...], int] = {}
    for at in (these.start + np.argsort(net_s[these.start : these.stop], kind="stable")).tolist():
        layout = jobs[at].layout
        kind = (layout.tp, layout.pp, layout.cp, layout.ep, int(layout.zero == 3), int(layout.recompute == "full"))
        found.setdefault(kind, at)
        if len(found) == KINDS:
            break
    return list(found.values())


@dataclass(frozen=True)
class _Steps:
    step: Estimate
    alone: Estimate


def _steps(jobs: Sequence[Training], designs: Sequence[Design], *, contended: bool) -> _Steps:
    if contended:
        sites = [design.hardware.site for design in designs]
        found = evaluate(jobs, [site for site in sites if site is not None])
        return _Steps(found.step, found.alone)
    machines = [Machine.of(design.hardware.faulty.cluster) for design in designs]
    plain = estimate(jobs, machines)
    return _Steps(plain, plain)


def _ranked(bench: Bench, designs: Sequence[Design], exclude: frozenset[str], *, contended: bool) -> Iterator[Outcome]:
    jobs = [job for design in designs for job in design.jobs]
    owners = [design for design in designs for _ in design.jobs]
    steps = _steps(jobs, owners, contended=contended)
    net_s = steps.step.step_s - steps.step.jitter_s - steps.step.checkpoint_s
    begin = 0
    for design in designs:
        end = begin + len(design.jobs)
        order = _kept(net_s, jobs, range(begin, end))
        found = _outcome(bench, design, jobs, steps, order)
        hardware = design.hardware
        yield replace(found, excluded=tuple(sorted(exclude & hardware.names)), bound=hardware.bound)
        begin = end


def _outcome(bench: Bench, design: Design, jobs: Sequence[Training], steps: _Steps, order: Sequence[int]) -> Outcome:
    first = order[0]
    steps_s = tuple(_net_s(steps.step, at) for at in order)
    training = jobs[first]
    seated = bench.seated(design.point, design.demand, training.layout)
    if seated is not design.hardware:
        design = replace(design, hardware=seated, jobs=(training,))
        steps, first = _steps([training], [design], contended=seated.site is not None), 0
    outcome = Outcome(
        design.point,
        design.demand,
        "analytic",
        step_s=_net_s(steps.step, first),
        time=_time(steps, first),
        layouts=tuple(layout_values(jobs[at].layout) for at in order),
        steps_s=steps_s,
        tried=len(design.jobs),
        checkpoint_s=_saved(design, training),
    )
    if seated.faulty.ended:
        lost_s = seated.faulty.lost_s + unsaved_s(training, outcome.step_s)
        outcome = replace(outcome, ended=seated.faulty.ended, lost_s=lost_s)
    try:
        found = priced(
            *(seated.cluster, training, outcome, seated.parts, design.assumptions),
            delivery_s=bench.delivery_s(seated),
        )
    except InputError as error:
        return Outcome(design.point, design.demand, "analytic", error=reason(error))
    return replace(outcome, figures=figures_of(found))


def _net_s(step: Estimate, at: int) -> float:
    return float(step.step_s[at] - step.jitter_s[at] - step.checkpoint_s[at])


def _time(steps: _Steps, at: int) -> tuple[tuple[str, str, str, float], ...]:
    """How the step is spent: what communications take alone, and what they lose to one another."""
    total, rows = _net_s(steps.step, at), []
    for name, (cause, group, phase) in _OTHER.items():
        rows.append((cause, group, phase, float(getattr(steps.step, name)[at]) / total))
    for name, group in _EXPOSED.items():
        step_s, alone_s = (float(getattr(each, name)[at]) for each in (steps.step, steps.alone))
        rows.append(("bandwidth", group, "", min(alone_s, step_s) / total))
        rows.append(("contention", group, "", max(step_s - alone_s, 0.0) / total))
    return tuple(row for row in rows if row[3] > 0.0)


def _saved(design: Design, training: Training) -> tuple[float, float, float]:
    rates = None if training.checkpoint is None else StorageRates.of(design.hardware.cluster)
    return (0.0, 0.0, 0.0) if rates is None else (stored.stall_s(training, rates), 0.0, 0.0)
