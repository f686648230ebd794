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
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.plan.serving.options import Option
    from railyard.ask.plan.serving.trials import Trials
    from railyard.work.pipeline.bench import PipelineTrial

    Choice = tuple[tuple[Option, tuple[int, ...]], ...]

MOST_COMBINATIONS = 200_000
_TOLD = 3
"""Options of which an error says why they cannot do."""


@dataclass(frozen=True)
class Plan:
    """A deployment that was simulated.

    Attributes:
        choice: An option and the replicas of its pools, for each stage.
        trial: What came of it.
    """

    choice: Choice
    trial: PipelineTrial

    @property
    def split(self) -> bool:
        """Whether prompts and answers of a model are apart."""
        return any(option.split for option, _ in self.choice)


@dataclass
class Found:
    """What a search found.

    Attributes:
        plans: Deployments in time, cheapest first; of each set of options the cheapest.
        missed: Deployments that were simulated and late.
        bounds: Lowest dollars per million tokens that an option can have, by option that may do at all.
        never: Why an option can never do.
        proven: Whether nothing that the plan allows is cheaper than the first.
        simulations: How many there were.
    """

    plans: list[Plan] = field(default_factory=list)
    missed: list[Plan] = field(default_factory=list)
    bounds: dict[Option, float] = field(default_factory=dict)
    never: dict[Option, str] = field(default_factory=dict)
    proven: bool = False
    simulations: int = 0

    @property
    def best(self) -> Plan | None:
        """The cheapest; None where nothing is in time."""
        return self.plans[0] if self.plans else None


def search(
    trials: Trials,
    stages: Mapping[str, Sequence[Option]],
    *,
    tokens_per_h: float,
    most: int,
    report: Callable[[str, float], None],
) -> Found:
    """Finds the cheapest deployment.

    Args:
        trials: Simulates.
        stages: Options by stage.
        tokens_per_h: That come.
        most: Simulations at most.
        report: Told what is being done, and its share from 0 to 1.

    Raises:
        InputError: There are too many combinations, or no option of a stage can do.
    """
    begun, found = trials.count, Found()
    usable = _usable(trials, stages, found, report)
    if math.prod(len(options) for options in usable) > MOST_COMBINATIONS:
        raise InputError("the plan has too many combinations", key="plan.stages", allowed=MOST_COMBINATIONS)

    def bound(choice: Choice) -> float:
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


def _raised(trials: Trials, choice: Choice, found: Found) -> Choice | None:
    """The deployment with at least as many replicas as each stage needs alone; None where one can never have enough."""
    raised = []
    for option, replicas in choice:
        floor = trials.floor(option)
        if floor is None:
            found.never[option] = f"late alone with {option.most} replicas"
            return None
        raised.append((option, tuple(max(pair) for pair in zip(replicas, floor, strict=True))))
    return choice if tuple(raised) == choice else tuple(raised)


def _look_at(trials: Trials, choice: Choice, found: Found) -> tuple[str, ...]:
    """Looks at one deployment; the stages that want another replica, none where it is in time."""
    for option, replicas in choice:
        if not trials.enough(option, replicas):
            return (option.stage,)
    plan = Plan(choice, trials.full_trial(choice))
    if plan.trial.attainment >= trials.draft.scenario.pipeline.slo.attainment:
        found.plans.append(plan)
        return ()
    found.missed.append(plan)
    return plan.trial.blamed


def _usable(
    trials: Trials, stages: Mapping[str, Sequence[Option]], found: Found, report: Callable[[str, float], None]
) -> list[list[Option]]:
    """Options that may do, by stage."""
    usable = []
    for name, options in stages.items():
        report(f"options of {name}", 0.0)
        for option in options:
            why_not = trials.alone(option).why_not
            if why_not:
                found.never[option] = why_not
        usable.append([option for option in options if option not in found.never])
        if not usable[-1]:
            reasons = "; ".join(f"{option.words}: {found.never[option]}" for option in options[:_TOLD])
            raise InputError(f"stage `{name}` can be none of what the plan names: {reasons}", key=f"plan.stages.{name}")
    return usable


def _starts(trials: Trials, usable: Sequence[Sequence[Option]]) -> list[Choice]:
    """Every combination of options, each with the fewest replicas that may keep up."""
    starts = []
    for options in itertools.product(*usable):
        least = [trials.alone(option).least for option in options]
        if all(max(counts, default=0) <= option.most for counts, option in zip(least, options, strict=True)):
            starts.append(tuple(zip(options, least, strict=True)))
    return starts


def _usd_per_h(trials: Trials, choice: Choice) -> float:
    total = 0.0
    for option, replicas in choice:
        known = trials.alone(option)
        total += known.fixed_usd_per_h
        total += sum(count * usd for count, usd in zip(replicas, known.usd_per_h, strict=True))
    return total


def _note_bounds(heap: Sequence[tuple[float, int, Choice]], found: Found) -> None:
    for lowest, _, choice in heap:
        for option, _ in choice:
            found.bounds[option] = min(lowest, found.bounds.get(option, math.inf))


def _larger(choice: Choice, grow: Sequence[str]) -> list[Choice]:
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


def _key(choice: Choice) -> tuple[tuple[int, tuple[int, ...]], ...]:
    return tuple((id(option), replicas) for option, replicas in choice)


def _cheapest_of_each(plans: Sequence[Plan]) -> list[Plan]:
    """Of each set of options the cheapest deployment, in order of cost."""
    cheapest: dict[tuple[int, ...], Plan] = {}
    for plan in sorted(plans, key=lambda plan: plan.trial.score):
        cheapest.setdefault(tuple(id(option) for option, _ in plan.choice), plan)
    return list(cheapest.values())
