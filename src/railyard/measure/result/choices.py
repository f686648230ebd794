"""Choices that commands make and keep: designs of a plan, placements of jobs, settings of a tuning."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from railyard.measure import numbers
from railyard.measure.result.section import AnswerDocument, Count, Figures, KeyFigure, Lists, Share, Values

EQUAL = 0.001
"""Share of the best design's first objective up to which another design is called equal."""


class PlanObjective(Figures):
    """Objective that ranks designs."""

    name: str = Field(description="as in the plan")
    unit: str = Field(description="of its values")
    better: Literal["large", "small"] = Field(description="which values are better")
    words: str = Field(description="what it is")


class ObjectiveBand(Figures):
    """An objective as its prices and the model are in doubt."""

    p10: float = Field(description="10th percentile")
    p50: float = Field(description="median")
    p90: float = Field(description="90th percentile")


class PlanDesign(Figures):
    """A design that was looked at closely."""

    variant: str = Field(description="its settings in words")
    settings: Values = Field(description="values of the space by key")
    same: tuple[Values, ...] = Field(default=(), description="other settings that build the same cluster")
    front: bool = Field(description="whether nothing beats it in every objective; the best is on the front")
    engine: str = Field(description="that judged it")
    outcome: Literal["finished", "died"] = Field(
        description="died: a fault of the scenario ends its job under some demand, as it does in every design then"
    )
    layouts: dict[str, str] = Field(description="layout of its job by demand")
    objectives: dict[str, float] = Field(description="typical value by objective")
    bands: dict[str, ObjectiveBand] = Field(description="by objective; empty where no doubts were drawn")
    expected_regret: float | None = Field(
        default=None, description="expected share by which it is behind the best of a draw, by the first objective"
    )
    within: float | None = Field(
        default=None, description="share by which it is behind the best at most, in eight of ten draws"
    )
    probability_best: float | None = Field(
        description="chance to be best by the first objective, 0 to 1; null where no doubts were drawn"
    )
    probability_best_by: dict[str, float] = Field(description="the same by every objective")
    figures: dict[str, float | None] = Field(description="everything else that was worked out; null: without end")
    by_demand: dict[str, dict[str, float | None]] = Field(description="objectives by demand")
    tail: float | None = Field(description="largest slowdown of a flow among its packet runs; null without one")
    why_not: str = Field(description="why it is worse than the best; empty for the best")
    beaten_by: str | None = Field(description="a design that beats it in every objective")


class PlanConstraint(Figures):
    """Constraint of the plan, and its cost."""

    name: str = Field(description="as in the plan")
    limit: tuple[str, ...] | float = Field(description="its bound, or what is excluded")
    missed_by: Count = Field(description="designs that miss it first")
    gain_without: float | None = Field(description="by which share the first objective is better without it")
    gain_a_tenth_looser: float | None = Field(description="the same where it is a tenth looser")
    best_without: str | None = Field(description="the best design without it")


class PlanSwing(Figures):
    """One factor from its low to its high end, all else typical."""

    factor: str = Field(description="in words")
    kind: str = Field(description="price, power, assumption, model")
    low: float | None = Field(description="its low end")
    high: float | None = Field(description="its high end")
    lead_low: float = Field(description="by which share the next design is behind at the low end; below 0: before")
    lead_high: float = Field(description="the same at the high end")
    best_low: str = Field(description="the best design at the low end")
    best_high: str = Field(description="the best design at the high end")


class PlanMeasure(Figures):
    """Value of knowing a factor before choosing."""

    factor: str = Field(description="in words")
    kind: str = Field(description="price, power, assumption, model")
    gain: float = Field(description="expected gain as a share of the first objective")
    changes: Share = Field(description="chance that knowing it changes the choice")


class PlanBreakEven(Figures):
    """The price of a part at which another design is as good as the first."""

    choice: str = Field(description="the other design")
    part: str = Field(description="whose price")
    price_usd: float = Field(description="typical, of one, USD")
    even_usd: float = Field(description="at which both are as good, USD")
    dearer: bool = Field(description="whether the other wins above it")


class PlanPortPrice(Figures):
    """Highest price of another design's network for each NIC of an accelerator."""

    choice: str = Field(description="the other design")
    ports: Count = Field(description="NICs of its back-end")
    usd_per_port: float = Field(description="its network's parts over them, typical, USD")
    even_usd_per_port: float | None = Field(
        description="at which it is as good as the first, USD; null where it is not at any price"
    )


class ClosedFormError(Figures):
    """The closed form against an engine, of designs that both judged."""

    mean: float = Field(description="mean difference of the step, as a share")
    spread: float = Field(description="standard deviation of its logarithm")
    of: Count = Field(description="designs")


class PlanLooked(Figures):
    """Number of designs that were examined."""

    designs: Count = Field(description="of the space")
    in_closed_form: Count = Field(description="designs that were looked at; of a large space an optimizer chose them")
    demands: Count = Field(description="that every design has to live with")
    layouts: Count = Field(description="in closed form")
    analytic: Count = Field(description="designs and demands in closed form")
    flow: Count = Field(description="runs on flow")
    serving: Count = Field(description="runs on the engine of requests")
    packet: Count = Field(description="runs on packets")
    failed: Count = Field(description="impossible designs")
    missed: Count = Field(description="designs that miss a constraint")
    same: Count = Field(default=0, description="designs that are the same cluster as another")
    closed_form: ClosedFormError = Field(description="its error")


class PlanFailure(Figures):
    """Designs that cannot be, and why."""

    engine: str = Field(description="that refused them")
    error: str = Field(description="in words")
    designs: Count = Field(description="how many")
    such_as: str = Field(description="one of them")


class PlanEnded(Figures):
    """A design whose job a fault of the scenario ends; it is chosen only where the job of every design ends."""

    variant: str = Field(description="its settings in words")
    settings: Values = Field(description="values of the space by key")
    fault: str = Field(description="the first such fault, in words")
    lost_s: float = Field(description="what faults take from the job once, s")
    engine: str = Field(description="that judged it")
    objective: str = Field(description="by which it is listed")
    value: float | None = Field(description="of that objective, with what is lost; null: without end")


class PlanPoint(Figures):
    """A point of the space, for the picture of all."""

    name: str = Field(description="its settings in words")
    values: tuple[float | None, ...] = Field(description="in the order of the objectives")
    state: Literal["missed", "run", "closed form"] = Field(description="what became of it")


class PlanBound(Figures):
    """A design on a network that blocks nothing: what no product reaches, and what is left to gain."""

    variant: str = Field(description="its settings in words")
    engine: str = Field(description="that judged it")
    objective: str = Field(description="by which it is compared")
    value: float = Field(description="of that objective")
    ahead: float = Field(description="by which share it is better than the best design")


class PlanUnverified(Figures):
    """Designs of a kind that may hold the best, of which none ran on an engine."""

    family: str = Field(description="fabric, topology, server and kind of layout, as far as the plan chooses them")
    variant: str = Field(description="its best design by closed form")
    point: Count = Field(description="number of that in the space")
    value: float = Field(description="first objective of that, by closed form")
    ahead: float = Field(description="by which share it may be better than the best that ran")


class PlanRival(Figures):
    """A rival of the best design that ran on the same engine."""

    variant: str = Field(description="its settings in words")
    value: float = Field(description="first objective on that engine")
    behind: float = Field(description="by which share it is behind the best design there; below 0: ahead of it")


class PlanVerified(Figures):
    """The best design and its nearest rivals on the finest engine that `effort` allows."""

    variant: str = Field(description="the best design")
    engine: str = Field(description="on which it and its rivals ran")
    share_of_step: Share = Field(description="of the bytes of a step that ran there; 1: whole steps")
    stands: bool = Field(description="whether no rival is better on that engine")
    rivals: tuple[PlanRival, ...] = Field(description="the nearest first")
    packets_core_s: float | None = Field(
        description="that whole steps of all of them as packets would take of one core, about, s: what"
        " `effort.verify` has to allow; null where packets ran or cannot"
    )


class PlanAxisValue(Figures):
    """The best design that was found with one value of an axis."""

    axis: str = Field(description="key of the space; of pools their mechanism, such as `speculative decoding`")
    value: str = Field(description="in words")
    variant: str = Field(description="the best design with it")
    engine: str = Field(description="that gave its figures")
    objective: float | None = Field(description="its first objective; null: without end")
    why_not: str = Field(description="why it is worse than the best design; empty where the best has this value")


class PlanAnswer(AnswerDocument):
    """The cluster to build, how sure that is, and what would change it."""

    format: Literal["railyard-plan/1"] = Field(description="of this document")
    name: str = Field(description="of the plan")
    version: str = Field(description="of Railyard")
    seed: Count = Field(description="of every draw")
    objectives: tuple[PlanObjective, ...] = Field(min_length=1, description="the first ranks")
    best: str | None = Field(description="the best design; null where it was stopped before one was found")
    bound: PlanBound | None = Field(description="bound that no product reaches; null if the space has none")
    front: tuple[PlanDesign, ...] = Field(description="designs that nothing beats in every objective, the best first")
    runners_up: tuple[PlanDesign, ...] = Field(description="further designs that were looked at closely")
    axes: tuple[PlanAxisValue, ...] = Field(
        description="the best design with each value of each key of the space that has several"
    )
    constraints: tuple[PlanConstraint, ...] = Field(description="the most expensive first")
    tornado: tuple[PlanSwing, ...] = Field(description="what the choice depends on, the strongest first")
    measure_first: tuple[PlanMeasure, ...] = Field(description="what to measure before choosing, the most first")
    break_even: tuple[PlanBreakEven, ...] = Field(description="the nearest to today's prices first")
    port_prices: tuple[PlanPortPrice, ...] = Field(description="of other designs, the best first")
    looked_at: PlanLooked = Field(description="how much was looked at")
    verified: PlanVerified | None = Field(
        description="how far the best design was verified; null where it did not run on an engine"
    )
    unverified: tuple[PlanUnverified, ...] = Field(
        description="kinds of designs that may win within the closed form's error and did not run, the likeliest first;"
        " where nothing ran the best design is among them"
    )
    failed: tuple[PlanFailure, ...] = Field(description="why designs are impossible, the most frequent first")
    ended: tuple[PlanEnded, ...] = Field(description="designs whose job dies, the best of these first")
    points: tuple[PlanPoint, ...] = Field(description="all possible designs, thinned to about two thousand")
    stopped: bool = Field(description="whether it was stopped before its end")
    remarks: tuple[str, ...] = Field(
        default=(), description="what its figures leave out of the best design; absent if there is nothing"
    )

    @property
    def likely(self) -> PlanDesign:
        """The best design by the first objective at typical values; draws may have chosen another."""
        first = self.objectives[0]
        sign = 1.0 if first.better == "small" else -1.0
        alive = [one for one in (*self.front, *self.runners_up) if one.outcome == self.front[0].outcome]
        return min(alive, key=lambda one: sign * one.objectives[first.name])

    def sentence(self) -> str:
        """The answer in one sentence."""
        if self.best is None:
            return f"Stopped before a design was found; {self.looked_at.in_closed_form:,} designs were examined."
        best, first, likely = self.front[0], self.objectives[0], self.likely
        value, band = best.objectives[first.name], best.bands.get(first.name)
        ends = "" if band is None else " to ".join(numbers.of_unit(end, first.unit) for end in (band.p10, band.p90))
        both = ", model and prices" if first.name == "cpmt" else ""
        within = f" (80 % interval {ends}{both})" if ends else ""
        gain = abs(likely.objectives[first.name] / value - 1.0) if value else 0.0
        if best.expected_regret is not None and gain > EQUAL:
            sure = f", the least expected regret, {numbers.percent(best.expected_regret)}"
            equal = f'; at typical values "{likely.variant}" is {numbers.percent(gain)} better'
        else:
            sure, equal = self._sure(best), self._equal(value)
        return f'Build "{self.best}": {first.words} {numbers.of_unit(value, first.unit)}{within}{sure}{equal}.'

    def _sure(self, best: PlanDesign) -> str:
        """How near the best of a draw the design is."""
        if best.probability_best is not None and not best.within:
            return f", the best in {numbers.percent(best.probability_best)} of draws"
        return (
            "" if best.within is None else f", the best or within {numbers.percent(best.within)} of it in 80 % of draws"
        )

    def _equal(self, value: float) -> str:
        others = [row.objectives[self.objectives[0].name] for row in (*self.front[1:], *self.runners_up)]
        count = sum(abs(other - value) <= EQUAL * abs(value) for other in others)
        return f"; {count} other{'s are' if count > 1 else ' is'} equal within 0.1 %" if count else ""


class SeenGain(Figures):
    """Gain on the draws of the search, which flatter."""

    default_s: float = Field(description="mean step as written, s")
    tuned_s: float = Field(description="mean step with the settings, s")
    gain: float = Field(description="by which share it is shorter")


class UnseenCase(Figures):
    """A draw of the hashes that the search has not seen, alone, under a load of others, or with another job."""

    kind: Literal["draw", "load", "job"] = Field(description="the job alone, under others' load, or another job")
    seed: Count = Field(description="of the draw")
    load: float = Field(description="of others on the network, as a share")
    job: str = Field(description="the other job and its neighbour; empty for the job as written")
    default_s: float = Field(description="step as written, s")
    tuned_s: float = Field(description="step with the settings, s")


class KindGain(Figures):
    """The gain on the cases of one kind."""

    kind: Literal["draw", "load", "job"] = Field(description="the job alone, under others' load, or another job")
    count: Count = Field(description="cases")
    gain: float = Field(description="mean share by which steps are shorter")
    low: float | None = Field(description="low end of its interval; null of one case")
    high: float | None = Field(description="high end of its interval; null of one case")


class TailChange(Figures):
    """A quantile of how long communications take, before and after."""

    what: Literal["collectives", "flows"] = Field(description="what was timed")
    tail: Literal["p50", "p99", "p99.9", "slowest"] = Field(description="quantile, by nearest rank")
    before_us: float = Field(description="as written: geometric mean over the cases, us")
    after_us: float = Field(description="with the settings: geometric mean over the cases, us")
    gain: float = Field(description="share by which the latter is shorter: mean of ratios, in logarithms")
    low: float = Field(description="low end of its interval")
    high: float = Field(description="high end of its interval")


class TimesCurve(Figures):
    """Durations of communications of all cases, before and after: points (us, share that takes longer)."""

    what: Literal["collectives", "flows"] = Field(description="what was timed")
    before_count: Count = Field(description="as written, of all cases together")
    after_count: Count = Field(description="with the settings, of all cases together")
    before: tuple[tuple[float, float], ...] = Field(description="as written")
    after: tuple[tuple[float, float], ...] = Field(description="with the settings")


class UnseenGain(Figures):
    """Gain on draws, loads and jobs that the search has not seen: what to believe."""

    gain: float = Field(description="mean share by which steps are shorter")
    low: float = Field(description="low end of its interval")
    high: float = Field(description="high end of its interval")
    confidence: float = Field(description="of the interval, 0 to 1")
    kinds: tuple[KindGain, ...] = Field(description="the same by kind of case")
    cases: tuple[UnseenCase, ...] = Field(description="case by case")
    tails: tuple[TailChange, ...] = Field(description="quantiles of communications before and after")
    curves: tuple[TimesCurve, ...] = Field(description="all of them before and after")
    slice: float = Field(description="of so many bytes one was simulated; times of flows are of such a slice")


class TuneTrial(Figures):
    """Settings that were tried together on draws of the search."""

    settings: Values = Field(description="dotted keys and values that differ; none: as written")
    draws: Count = Field(description="of the search that they ran on: the better half goes on to the next")
    change: float | None = Field(
        description="mean step against as written on the same draws, less 1; null where it cannot be, or was not run"
    )
    error: str = Field(description="why it cannot; else empty")
    kept: bool = Field(description="whether these are the settings that were found")


class SettingChange(Figures):
    """A setting as written and as it was found."""

    key: str = Field(description="dotted")
    before: Any = Field(description="as written; null where nothing was said")
    after: Any = Field(description="as found")
    alone: float | None = Field(
        description="share by which steps are shorter with this change alone, on the draws of the search; null where "
        "a tuning that was stopped had not run that"
    )
    without: float | None = Field(
        description="share by which they are longer with all the others and not this one, there; null likewise"
    )


class TuneAnswer(AnswerDocument):
    """Settings that make a step shorter, and whether to believe it."""

    format: Literal["railyard-tune/1"] = Field(description="of this document")
    name: str = Field(description="of the scenario")
    version: str = Field(description="of Railyard")
    engine: str = Field(description="on which it was tried")
    stopped: bool = Field(description="whether it was stopped before its end: the settings are the best so far")
    settings: Values = Field(description="dotted keys and values that differ")
    recommended: Values = Field(description="the settings where they are surely better; else empty")
    changes: tuple[SettingChange, ...] = Field(description="the settings next to the written ones")
    seen: SeenGain = Field(description="on the draws of the search")
    unseen: UnseenGain | None = Field(
        description="on draws and loads unseen; null where it was stopped before two of these"
    )
    trials: tuple[TuneTrial, ...] = Field(description="in their order")
    environment: str = Field(description="lines of a shell script for NCCL")
    tuner: str = Field(description="table of NCCL's example tuner plugin")

    def sentence(self) -> str:
        """The answer in one sentence."""
        keep = f"Keep the settings as written{', because the search was stopped' if self.stopped else ''}"
        if not self.settings:
            return f"{keep}: none that was tried is better."
        count = f"{len(self.settings)} setting{'s' if len(self.settings) > 1 else ''}"
        if self.unseen is None:
            gain = numbers.percent(self.seen.gain)
            return f"{keep}: steps are {gain} shorter with {count}, on draws of the search only."
        found = self.unseen
        gain, low, high = map(numbers.percent, (found.gain, found.low, found.high))
        interval = f"({100 * found.confidence:g} % interval {numbers.pair(low, high, 'to')})"
        where = f"{len(found.cases)} unseen case{'s' if len(found.cases) > 1 else ''}"
        if self.recommended:
            return f"Change {count}: steps are {gain} shorter {interval} on {where}."
        return f"{keep}: {count} may gain by chance only, steps are {gain} shorter {interval} on {where}."

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """The step as written and as found, the change on unseen cases, and how much was tried."""
        seen, found = self.seen, self.unseen
        change = "not judged" if found is None else f"{-100 * found.gain:+.1f} %"
        ends = "" if found is None else f"{-100 * found.high:+.1f} to {-100 * found.low:+.1f} %"
        return (
            KeyFigure("Step as written", numbers.seconds(seen.default_s), "mean of the draws of the search"),
            KeyFigure("Step with the settings", numbers.seconds(seen.tuned_s), f"{-100 * seen.gain:+.1f} % there"),
            KeyFigure("On unseen cases", change, ends),
            KeyFigure("Trials", f"{len(self.trials):,}", f"on engine {self.engine}"),
        )

    def lists(self) -> Lists:
        """Why the gain of the search is too large."""
        if not self.settings or (self.unseen is not None and self.seen.gain <= self.unseen.gain):
            return ()
        flatters = f"The search itself saw {numbers.percent(self.seen.gain)}: it chose by that, so the figure flatters."
        return (("How far to believe it", (flatters,)),)


class PlacedRow(Figures):
    """A job and its nodes."""

    job: str = Field(description="its name")
    state: str = Field(description="placed, waits; of Kueue also admitted, runs, preempted, moved, has quota")
    wanted: Count | None = Field(description="nodes that it asks; null where it asks pods")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where it waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches; empty where it waits")
    remarks: tuple[str, ...] = Field(description="why it waits, what of its wishes is not met")


class PolicyRow(Figures):
    """Effect of a policy on the job that is placed."""

    policy: str = Field(description="its name")
    bound: bool = Field(description="whether it is only a worst case")
    nodes: tuple[str, ...] = Field(description="names in the order of ranks; empty where the job waits")
    groups: tuple[Count, ...] = Field(description="how many groups of each level it touches")
    least: tuple[Count, ...] = Field(description="the fewest possible with the free nodes")
    step_s: float | None = Field(description="mean step there, s; null where the job waits")
    usd_per_1000_steps: float | None = Field(description="as the job's part of the cluster; null where it waits")


LEAST_GAIN = 0.001
"""Share of a step below which another policy is not worth a word."""


class PlacementAnswer(AnswerDocument):
    """Nodes of jobs, and what other rules would have made of them."""

    format: Literal["railyard-placement/1"] = Field(description="of this document")
    name: str = Field(description="of the table of jobs")
    version: str = Field(description="of Railyard")
    rule: str = Field(description="by which jobs are placed")
    levels: tuple[str, ...] = Field(description="of the cluster, from the innermost; empty where the rule has its own")
    total: Count | None = Field(description="nodes of the cluster; null where queues share it out")
    idle: Count | None = Field(description="nodes that are left; null where queues share it out")
    jobs: tuple[PlacedRow, ...] = Field(description="in the order of the table")
    policies: tuple[PolicyRow, ...] = Field(description="of a scenario's job, the chosen one first; else empty")

    def sentence(self) -> str:
        """The answer in one sentence."""
        waiting = [row.job for row in self.jobs if not row.nodes]
        placed = f"Policy {self.rule} places {len(self.jobs) - len(waiting)} of {len(self.jobs)} jobs"
        if waiting:
            more = f" and {len(waiting) - 1} more wait" if len(waiting) > 1 else " waits"
            placed += f"; job {waiting[0]}{more}"
        if self.idle is not None:
            placed += f"; {self.idle:,} of {self.total:,} nodes stay free"
        best = self.best()
        if best is not None and self.gain(best) >= LEAST_GAIN:
            placed += f"; {best.policy} makes a step {numbers.percent(self.gain(best))} faster"
        return f"{placed}."

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """Jobs that are placed, nodes that stay free, and the step by this policy and by the best one."""
        waiting, best = sum(not row.nodes for row in self.jobs), self.best()
        found = [KeyFigure("Placed", f"{len(self.jobs) - waiting:,} of {len(self.jobs):,} jobs", f"{waiting:,} wait")]
        if self.idle is not None:
            found.append(KeyFigure("Free nodes", f"{self.idle:,}", f"of {self.total:,}"))
        if best is not None:
            step = numbers.seconds(self.policies[0].step_s)
            found.append(KeyFigure("Step", step, f"{numbers.seconds(best.step_s)} by {best.policy}"))
        return tuple(found)

    def best(self) -> PolicyRow | None:
        """The policy with the shortest step, bounds left out; None where nothing was compared."""
        steps = [row for row in self.policies if not row.bound and row.step_s is not None]
        return min(steps, key=lambda row: row.step_s or 0.0, default=None)

    def gain(self, row: PolicyRow) -> float:
        """Share of its own step by which another policy is faster than the chosen one."""
        first = self.policies[0].step_s
        return 0.0 if first is None or not row.step_s else first / row.step_s - 1.0
