"""The whole way of a plan: options, search, the network between pools, what the best plan is on all requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.serving.options import options
from railyard.ask.plan.serving.search import Found, Plan, search
from railyard.ask.plan.serving.trials import Trials
from railyard.kit.errors import InputError
from railyard.work.pipeline.bench import Bench, variant_of
from railyard.work.scenario.load import blaming
from railyard.work.serving.requests import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.plan.serving.options import Option
    from railyard.ask.plan.serving.search import Choice
    from railyard.measure.result.variants.serving import ServedVariant
    from railyard.work.scenario.load import Draft

    Report = Callable[[str, float], None]

_FULL = 3
"""Plans that are run again on all requests."""


@dataclass(frozen=True)
class AtRate:
    """The cheapest deployments where the network between pools has a rate.

    Attributes:
        rate_bps: Of each NIC's link.
        split: With prompts and answers of a model apart; None where none is in time.
        joint: With both on the same replicas; None where none is in time.
    """

    rate_bps: float
    split: Plan | None
    joint: Plan | None


@dataclass(frozen=True)
class Planned:
    """What a plan found.

    Attributes:
        name: Of the scenario.
        stages: Options by stage.
        found: What the search found.
        full: The best plans on all requests: the result's variant of each.
        rates: By rate of the network between pools.
        best_yaml: A scenario with the best plan, to be run by itself; empty where there is none.
    """

    name: str
    stages: Mapping[str, Sequence[Option]]
    found: Found
    full: tuple[ServedVariant, ...] = ()
    rates: tuple[AtRate, ...] = ()
    best_yaml: str = field(default="", repr=False)


def plan(draft: Draft, report: Report) -> Planned:
    """Finds the cheapest deployment of a scenario's pipeline within its objective.

    Args:
        draft: With a `pipeline` and a `plan`.
        report: Told what is being done, and its share from 0 to 1.

    Raises:
        InputError: There is nothing to plan, or a stage can be none of its options.
    """
    try:
        stages = options(draft.scenario)
    except InputError as error:
        raise draft.blame(error) from None
    section = draft.scenario.plan
    if section is None:
        raise InputError("there is nothing to plan: the scenario has no `plan`", key="plan")
    trials, per_h = Trials(draft), _tokens_per_h(draft)
    with blaming(draft):
        found = search(trials, stages, tokens_per_h=per_h, most=section.simulations, report=report)
    rates: tuple[AtRate, ...] = ()
    if section.link_rates and found.best is not None:
        kinds = [_best_of(trials, stages, found, split=split, per_h=per_h, report=report) for split in (True, False)]
        rates = tuple(
            AtRate(rate, *(_at_rate(draft, rate, kind, per_h, report) for kind in kinds)) for rate in section.link_rates
        )
    full = []
    for number, one in enumerate(found.plans[:_FULL]):
        report("the best plans with all figures", number / _FULL)
        job = trials.job(one.choice)
        full.append(variant_of(job))
    best = "" if found.best is None else Bench(draft).yaml(_written_out(found.best.choice))
    return Planned(draft.scenario.name, stages, found, tuple(full), rates, best)


def _tokens_per_h(draft: Draft) -> float:
    """Of all requests, as they come."""
    requests = requests_of(draft)
    if requests.duration_s <= 0:
        error = InputError("requests without a span of time have no load to plan for", key="requests")
        raise draft.blame(error, "workload", "pipeline")
    total = float(requests.input_tokens.sum(dtype=float) + requests.output_tokens.sum(dtype=float))
    return total / requests.duration_s * 3600


def _written_out(choice: Choice) -> dict[str, Any]:
    """Dotted keys of a deployment, and of a scenario without its plan."""
    changes: dict[str, Any] = {"plan": None}
    for option, replicas in choice:
        changes |= option.changes(replicas)
    return changes


def _best_of(
    trials: Trials, stages: Mapping[str, Sequence[Option]], found: Found, *, split: bool, per_h: float, report: Report
) -> Plan | None:
    """The cheapest plan with prompts and answers apart, or together; other stages as in the best plan of all."""
    known = next((plan for plan in found.plans if plan.split is split), None)
    if known is not None or found.best is None:
        return known
    chosen = {option.stage: option for option, _ in found.best.choice}
    some = {
        name: [option for option in options if option.split is split]
        if any(option.split for option in options)
        else [chosen[name]]
        for name, options in stages.items()
    }
    return _quietly(trials, some, per_h, report)


def _at_rate(draft: Draft, rate_bps: float, base: Plan | None, per_h: float, report: Report) -> Plan | None:
    """A plan's options, with as many replicas as they need over links of another rate; None where none is in time."""
    if base is None:
        return None
    slower = draft.with_values({"cluster.back_end.link_rate": f"{rate_bps!r} b/s"}, "plan.link_rates")
    stages = {option.stage: (option,) for option, _ in base.choice}
    return _quietly(
        Trials(slower), stages, per_h, lambda what, share: report(f"{rate_bps / 1e9:g} Gb/s: {what}", share)
    )


def _quietly(trials: Trials, stages: Mapping[str, Sequence[Option]], per_h: float, report: Report) -> Plan | None:
    """The cheapest plan, None where there is none."""
    section = trials.draft.scenario.plan
    if section is None or not all(stages.values()):
        return None
    try:
        return search(trials, stages, tokens_per_h=per_h, most=section.simulations, report=report).best
    except InputError:  # a stage can be none of its options: even without load it is late
        return None
