"""A plan as JSON, and as rows of tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.plan.serving.options import Option
    from railyard.ask.plan.serving.planning import AtRate, Planned
    from railyard.ask.plan.serving.search import Plan
    from railyard.measure.result.variants.serving import ServedVariant

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
