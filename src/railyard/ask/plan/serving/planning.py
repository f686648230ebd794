"""The whole way of a plan: options, search, the network between pools, what the best plan is on all requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from railyard.ask.plan.serving.options import options
from railyard.ask.plan.serving.search import Found, Plan, search
from railyard.ask.plan.serving.trials import Trials
from railyard.kit.errors import InputError
from railyard.work.pipeline.bench import Bench, variant_of
from railyard.work.scenario.load import blaming
from railyard.work.serving.requests import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.ask.plan.serving.options import Option
    from railyard.ask.plan.serving.search import Choice, Plan
    from railyard.measure.result.variants.work import ServedVariant
    from railyard.work.scenario.load import Draft

    Report = Callable[[str, float], None]


FORMAT = "railyard/1"


def to_json(planned: Planned) -> dict[str, object]:
    """The plan as JSON values."""
    found = planned.found
    return {
        "format": FORMAT,
        "name": planned.name,
        "plan": {
            "proven": found.proven,
            "simulations": found.simulations,
            "plans": [_plan(plan) for plan in found.plans],
            "full": [_full(variant) for variant in planned.full],
            "options": [row._asdict() for name in planned.stages for row in why(planned, name)],
            "link_rates": [_rate(row) for row in planned.rates],
        },
    }


def _full(variant: ServedVariant) -> dict[str, Any]:
    """All figures of a plan but those of a search for its capacity, of which there was none."""
    plain = variant.plain()
    serving = {key: value for key, value in plain["serving"].items() if key not in {"capacity", "pareto"}}
    return {"serving": serving, "warnings": plain["warnings"], "digest": plain["digest"]}


def _plan(plan: Plan) -> dict[str, Any]:
    trial = plan.trial
    return {
        "stages": {option.stage: {"option": option.words, "replicas": list(counts)} for option, counts in plan.choice},
        "usd_per_million": trial.score,
        "usd_per_h": trial.usd_per_h,
        "attainment": trial.attainment,
        "ttft_s": dict(trial.ttft_s),
        "tpot_s": dict(trial.tpot_s),
        "e2e_s": dict(trial.e2e_s),
    }


def _rate(row: AtRate) -> dict[str, Any]:
    return {
        "rate_bps": row.rate_bps,
        "split": None if row.split is None else _plan(row.split),
        "whole": None if row.joint is None else _plan(row.joint),
        "gain": gain(row),
    }


def gain(row: AtRate) -> float | None:
    """What prompts apart from answers save, as a share of the price with both together; None where one is missing."""
    if row.split is None or row.joint is None:
        return None
    return 1 - row.split.trial.score / row.joint.trial.score


class OptionRow(NamedTuple):
    """An option of a stage, and what became of it.

    Attributes:
        stage: Of the pipeline.
        option: In words.
        usd_per_million: Dollars for a million tokens of the best plan with it; None where none was simulated.
        bound: No plan with it costs less; None where that is not known.
        verdict: Why it is or is not the one that was chosen.
    """

    stage: str
    option: str
    usd_per_million: float | None
    bound: float | None
    verdict: str


def why(planned: Planned, stage: str) -> Iterator[OptionRow]:
    """Each option of a stage, and why it is or is not the one that was chosen."""
    found, best = planned.found, planned.found.best
    for option in planned.stages[stage]:
        row = OptionRow(stage, option.words, None, None, "")
        if option in found.never:
            yield row._replace(verdict=found.never[option])
            continue
        plan = next((plan for plan in found.plans if any(one is option for one, _ in plan.choice)), None)
        if plan is not None:
            chosen = plan is best
            more = 0.0 if best is None else plan.trial.score / best.trial.score - 1
            verdict = "chosen" if chosen else f"{more:.1%} dearer: {_counts(plan, stage)}"
            yield row._replace(usd_per_million=plan.trial.score, verdict=verdict)
            continue
        yield row._replace(bound=found.bounds.get(option), verdict=_not_tried(planned, option))


def _counts(plan: Plan, stage: str) -> str:
    counts = next(counts for option, counts in plan.choice if option.stage == stage)
    if not counts:
        return "as it is written"
    return f"{' + '.join(map(str, counts))} replica{'s' if sum(counts) > 1 else ''}"


def _not_tried(planned: Planned, option: Option) -> str:
    found, best = planned.found, planned.found.best
    lowest = found.bounds.get(option, math.inf)
    if math.isinf(lowest):
        return f"more than {option.most} replicas would be needed"
    late = [plan for plan in found.missed if any(one is option for one, _ in plan.choice)]
    if best is not None and lowest >= best.trial.score:
        return f"cannot cost less than ${lowest:.3g}"
    if late:
        share = max(plan.trial.attainment for plan in late)
        return f"late with as many replicas as the best plan's price buys: {share:.0%} in time"
    if found.proven:
        return "late alone with as many replicas as the best plan's price buys"
    return f"not looked at to the end; cannot cost less than ${lowest:.3g}"


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
