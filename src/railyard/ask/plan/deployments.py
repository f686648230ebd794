"""The cheapest deployment within the objective: best first, from a bound that no deployment can beat.

A deployment is an option and a number of replicas for each stage. Its bound is the dollars of an hour with everything
waiting over all tokens that come; simulated it can only cost more, for it draws more, and tokens that are late do not
count. The deployment with the lowest bound is looked at first: a stage that is late even if all others took no time
gets as many replicas as it needs alone; when all stages pass, the pipeline is simulated; when that is late, stages in
which late requests waited get another replica, each pool in turn. When the lowest bound left is above the best
deployment found, that one is the cheapest.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from railyard.ask.plan.stages import DeploymentTrials, options
from railyard.kit.errors import InputError
from railyard.work.pipeline.bench import Bench, variant_of
from railyard.work.scenario.load import blaming
from railyard.work.serving.requests import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.ask.plan.stages import StageOption
    from railyard.measure.result.variants import ServedVariant
    from railyard.work.pipeline.bench import PipelineTrial
    from railyard.work.scenario.load import Draft

    DeploymentChoice = tuple[tuple[StageOption, tuple[int, ...]], ...]
    Report = Callable[[str, float], None]


MOST_COMBINATIONS = 200_000
_TOLD = 3
"""Options of which an error says why they cannot do."""


@dataclass(frozen=True)
class TriedDeployment:
    """A deployment that was simulated.

    Attributes:
        choice: An option and the replicas of its pools, for each stage.
    """

    choice: DeploymentChoice
    trial: PipelineTrial

    @property
    def split(self) -> bool:
        """Whether prefill and decode of a model are disaggregated."""
        return any(option.split for option, _ in self.choice)


@dataclass
class DeploymentSearch:
    """Result of a search.

    Attributes:
        plans: Deployments in time, cheapest first; of each set of options the cheapest.
        bounds: Lowest dollars per million tokens that an option can have, by option that may do at all.
        proven: Whether nothing that the plan allows is cheaper than the first.
    """

    plans: list[TriedDeployment] = field(default_factory=list)
    missed: list[TriedDeployment] = field(default_factory=list)
    bounds: dict[StageOption, float] = field(default_factory=dict)
    never: dict[StageOption, str] = field(default_factory=dict)
    proven: bool = False
    simulations: int = 0

    @property
    def best(self) -> TriedDeployment | None:
        """The cheapest; None where nothing is in time."""
        return self.plans[0] if self.plans else None


def search(
    trials: DeploymentTrials,
    stages: Mapping[str, Sequence[StageOption]],
    *,
    tokens_per_h: float,
    most: int,
    report: Callable[[str, float], None],
) -> DeploymentSearch:
    """Finds the cheapest deployment.

    Raises:
        InputError: There are too many combinations, or no option of a stage can do.
    """
    begun, found = trials.count, DeploymentSearch()
    usable = _usable(trials, stages, found, report)
    if math.prod(len(options) for options in usable) > MOST_COMBINATIONS:
        raise InputError("the plan has too many combinations", key="plan.stages", allowed=MOST_COMBINATIONS)

    def bound(choice: DeploymentChoice) -> float:
        return _usd_per_h(trials, choice) / tokens_per_h * 1e6

    order = itertools.count()
    heap = [(bound(start), next(order), start) for start in _starts(trials, usable)]
    heapq.heapify(heap)
    _note_bounds(heap, found)
    seen = {_key(choice) for _, _, choice in heap}
    best = math.inf
    while heap and trials.count - begun < most:
        lowest, _, choice = heapq.heappop(heap)
        if lowest >= best:
            found.proven = True
            break
        share = min((trials.count - begun) / most, 0.99)
        report(f"{trials.count - begun} trials, bound ${lowest:.3g}, best ${best:.3g}", share)
        raised = _raised(trials, choice, found)
        if raised is choice:
            more = _larger(choice, _look_at(trials, choice, found))
        else:
            more = [] if raised is None else [raised]
        best = min([best, *(plan.trial.score for plan in found.plans[-1:])])
        for larger in more:
            if _key(larger) not in seen:
                seen.add(_key(larger))
                heapq.heappush(heap, (bound(larger), next(order), larger))
    found.proven |= not heap
    found.simulations = trials.count - begun
    found.plans = _cheapest_of_each(found.plans)
    return found


def _raised(trials: DeploymentTrials, choice: DeploymentChoice, found: DeploymentSearch) -> DeploymentChoice | None:
    """The deployment with at least as many replicas as each stage needs alone; None where one can never have enough."""
    raised = []
    for option, replicas in choice:
        floor = trials.floor(option)
        if floor is None:
            found.never[option] = f"too slow alone with {option.most} replicas"
            return None
        raised.append((option, tuple(max(pair) for pair in zip(replicas, floor, strict=True))))
    return choice if tuple(raised) == choice else tuple(raised)


def _look_at(trials: DeploymentTrials, choice: DeploymentChoice, found: DeploymentSearch) -> tuple[str, ...]:
    """Looks at one deployment; the stages that want another replica, none where it is in time."""
    for option, replicas in choice:
        if not trials.enough(option, replicas):
            return (option.stage,)
    plan = TriedDeployment(choice, trials.full_trial(choice))
    if plan.trial.attainment >= trials.draft.scenario.pipeline.slo.attainment:
        found.plans.append(plan)
        return ()
    found.missed.append(plan)
    return plan.trial.blamed


def _usable(
    trials: DeploymentTrials,
    stages: Mapping[str, Sequence[StageOption]],
    found: DeploymentSearch,
    report: Callable[[str, float], None],
) -> list[list[StageOption]]:
    usable = []
    for name, some in stages.items():
        report(f"options of {name}", 0.0)
        for option in some:
            why_not = trials.alone(option).why_not
            if why_not:
                found.never[option] = why_not
        usable.append([option for option in some if option not in found.never])
        if not usable[-1]:
            reasons = "; ".join(f"{option.words}: {found.never[option]}" for option in some[:_TOLD])
            raise InputError(f"stage `{name}` has no possible option: {reasons}", key=f"plan.stages.{name}")
    return usable


def _starts(trials: DeploymentTrials, usable: Sequence[Sequence[StageOption]]) -> list[DeploymentChoice]:
    """Every combination of options, each with the fewest replicas that may keep up."""
    starts = []
    for some in itertools.product(*usable):
        least = [trials.alone(option).least for option in some]
        if all(max(counts, default=0) <= option.most for counts, option in zip(least, some, strict=True)):
            starts.append(tuple(zip(some, least, strict=True)))
    return starts


def _usd_per_h(trials: DeploymentTrials, choice: DeploymentChoice) -> float:
    total = 0.0
    for option, replicas in choice:
        known = trials.alone(option)
        total += known.fixed_usd_per_h
        total += sum(count * usd for count, usd in zip(replicas, known.usd_per_h, strict=True))
    return total


def _note_bounds(heap: Sequence[tuple[float, int, DeploymentChoice]], found: DeploymentSearch) -> None:
    for lowest, _, choice in heap:
        for option, _ in choice:
            found.bounds[option] = min(lowest, found.bounds.get(option, math.inf))


def _larger(choice: DeploymentChoice, grow: Sequence[str]) -> list[DeploymentChoice]:
    """The deployments with one replica more in one pool of the stages that want it."""
    larger = []
    for place, (option, replicas) in enumerate(choice):
        if option.stage not in grow:
            continue
        for pool in range(len(replicas)):
            if replicas[pool] < option.most:
                more = (*replicas[:pool], replicas[pool] + 1, *replicas[pool + 1 :])
                larger.append((*choice[:place], (option, more), *choice[place + 1 :]))
    return larger


def _key(choice: DeploymentChoice) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((id(option), replicas) for option, replicas in choice)


def _cheapest_of_each(plans: Sequence[TriedDeployment]) -> list[TriedDeployment]:
    """The cheapest deployment of each set of options, in order of cost."""
    cheapest: dict[tuple[int, ...], TriedDeployment] = {}
    for plan in sorted(plans, key=lambda plan: plan.trial.score):
        cheapest.setdefault(tuple(id(option) for option, _ in plan.choice), plan)
    return list(cheapest.values())


FORMAT = "railyard/1"


def to_json(planned: PlannedDeployments) -> dict[str, object]:
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


def _plan(plan: TriedDeployment) -> dict[str, Any]:
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
    """What disaggregated prefill saves, as a share of the price of replicas that do both; None where one is missing."""
    if row.split is None or row.joint is None:
        return None
    return 1 - row.split.trial.score / row.joint.trial.score


class OptionRow(NamedTuple):
    """An option of a stage, and what became of it.

    Attributes:
        usd_per_million: Dollars for a million tokens of the best plan with it; None where none was simulated.
        bound: No plan with it costs less; None where that is not known.
        verdict: Why it is or is not the one that was chosen.
    """

    stage: str
    option: str
    usd_per_million: float | None
    bound: float | None
    verdict: str


CHOSEN = "chosen"
"""Verdict on the option that the best plan has."""


def why(planned: PlannedDeployments, stage: str) -> Iterator[OptionRow]:
    """The options of a stage, and why each is or is not the one that was chosen."""
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
            verdict = CHOSEN if chosen else f"costs {more:.1%} more: {_counts(plan, stage)}"
            yield row._replace(usd_per_million=plan.trial.score, verdict=verdict)
            continue
        yield row._replace(bound=found.bounds.get(option), verdict=_not_tried(planned, option))


def _counts(plan: TriedDeployment, stage: str) -> str:
    counts = next(counts for option, counts in plan.choice if option.stage == stage)
    if not counts:
        return "as it is written"
    return f"{' + '.join(map(str, counts))} replica{'s' if sum(counts) > 1 else ''}"


def _not_tried(planned: PlannedDeployments, option: StageOption) -> str:
    found, best = planned.found, planned.found.best
    lowest = found.bounds.get(option, math.inf)
    if math.isinf(lowest):
        return f"needs more than {option.most} replicas"
    late = [plan for plan in found.missed if any(one is option for one, _ in plan.choice)]
    if best is not None and lowest >= best.trial.score:
        return f"cannot cost less than ${lowest:.3g}"
    if late:
        share = max(plan.trial.attainment for plan in late)
        return f"too slow at the best plan's price: {share:.0%} SLO attainment"
    if found.proven:
        return "too slow alone at the best plan's price"
    return f"not searched to the end; cannot cost less than ${lowest:.3g}"


_FULL = 3
"""Plans that are run again on all requests."""


@dataclass(frozen=True)
class AtRate:
    """The cheapest deployments where the network between pools has a rate.

    Attributes:
        rate_bps: Of each NIC's link.
        split: With disaggregated prefill and decode; None where none is in time.
        joint: With both on the same replicas; None where none is in time.
    """

    rate_bps: float
    split: TriedDeployment | None
    joint: TriedDeployment | None


@dataclass(frozen=True)
class PlannedDeployments:
    """Result of a plan.

    Attributes:
        full: The best plans on all requests: the result's variant of each.
        best_yaml: A scenario with the best plan, to be run by itself; empty where there is none.
    """

    name: str
    stages: Mapping[str, Sequence[StageOption]]
    found: DeploymentSearch
    full: tuple[ServedVariant, ...] = ()
    rates: tuple[AtRate, ...] = ()
    best_yaml: str = field(default="", repr=False)


def plan(draft: Draft, report: Report) -> PlannedDeployments:
    """Finds the cheapest deployment of a scenario's pipeline within its objective.

    Args:
        draft: With a `pipeline` and a `plan`.
        report: Called with what is being done, and its share from 0 to 1.

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
    trials, per_h = DeploymentTrials(draft), _tokens_per_h(draft)
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
    return PlannedDeployments(draft.scenario.name, stages, found, tuple(full), rates, best)


def _tokens_per_h(draft: Draft) -> float:
    requests = requests_of(draft)
    if requests.duration_s <= 0:
        error = InputError("requests that all arrive at once have no load to plan for", key="requests")
        raise draft.blame(error, "workload", "pipeline")
    total = float(requests.input_tokens.sum(dtype=float) + requests.output_tokens.sum(dtype=float))
    return total / requests.duration_s * 3600


def _written_out(choice: DeploymentChoice) -> dict[str, Any]:
    """Dotted keys of a deployment, and of a scenario without its plan."""
    changes: dict[str, Any] = {"plan": None}
    for option, replicas in choice:
        changes |= option.changes(replicas)
    return changes


def _best_of(
    trials: DeploymentTrials,
    stages: Mapping[str, Sequence[StageOption]],
    found: DeploymentSearch,
    *,
    split: bool,
    per_h: float,
    report: Report,
) -> TriedDeployment | None:
    """The cheapest plan with disaggregated prefill, or without; other stages as in the best plan of all."""
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


def _at_rate(
    draft: Draft, rate_bps: float, base: TriedDeployment | None, per_h: float, report: Report
) -> TriedDeployment | None:
    """A plan's options, with as many replicas as they need over links of another rate; None where none is in time."""
    if base is None:
        return None
    slower = draft.with_values({"cluster.back_end.link_rate": f"{rate_bps!r} b/s"}, "plan.link_rates")
    stages = {option.stage: (option,) for option, _ in base.choice}
    return _quietly(
        DeploymentTrials(slower), stages, per_h, lambda what, share: report(f"{rate_bps / 1e9:g} Gb/s: {what}", share)
    )


def _quietly(
    trials: DeploymentTrials, stages: Mapping[str, Sequence[StageOption]], per_h: float, report: Report
) -> TriedDeployment | None:
    """The cheapest plan, None where there is none."""
    section = trials.draft.scenario.plan
    if section is None or not all(stages.values()):
        return None
    try:
        return search(trials, stages, tokens_per_h=per_h, most=section.simulations, report=report).best
    except InputError:  # a stage can be none of its options: even without load it is late
        return None
