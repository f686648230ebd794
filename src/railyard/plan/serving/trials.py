"""Trials of deployments by simulation, each made once: whole pipelines, and stages as if all others took no time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.economics.deployment import deployment_cost
from railyard.economics.serving import Goodput as Sold
from railyard.engine.stages import CAUSES, takers
from railyard.errors import InputError
from railyard.measure.serving.objective import Objective
from railyard.measure.serving.percentiles import quantiles
from railyard.plan.serving.bounds import least_replicas, least_usd_per_h
from railyard.scenario.source import Mark, from_plain
from railyard.scenario.variants import Variant, without_compare
from railyard.study.memo import Memo
from railyard.study.pipeline.bill import parts
from railyard.study.pipeline.measuring import objective_of, uses_of
from railyard.study.pipeline.prepare import job_of, takers_of
from railyard.study.pipeline.shown import shown, streaming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.engine.stages import Journey
    from railyard.plan.serving.options import Option
    from railyard.scenario.load import Draft
    from railyard.study.pipeline.prepare import PipelineJob
    from railyard.workload.serving.requests import Requests

_QUEUE = CAUSES.index("queue")
_LIGHT = 50.0
"""A load so many times lighter shows what is left when nobody waits."""
_FEW = 300
"""Requests that show it."""
_MANY = 3
"""So many times the fewest replicas, and so many more, are many."""
_BLAMED = 0.02
"""A stage in which late requests wait less than this share of their time is not why they are late."""


@dataclass(frozen=True)
class Trial:
    """A deployment that was simulated.

    Attributes:
        attainment: Share of the requests in time.
        score: Dollars (typical) per million tokens in time, over the time in which the requests came.
        usd_per_h: Of the deployment, typical.
        ttft_s, tpot_s, e2e_s: Quantiles.
        blamed: Stages in which late requests waited, and models.
    """

    attainment: float
    score: float
    usd_per_h: float
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    e2e_s: Mapping[str, float | None]
    blamed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alone:
    """What is known of an option without simulating the pipeline.

    Attributes:
        least: Replicas of each pool below which it cannot keep up.
        usd_per_h: Of one replica of each pool, at least.
        fixed_usd_per_h: Of what is not counted in replicas.
        why_not: Why it can never do; empty where it may.
    """

    least: tuple[int, ...]
    usd_per_h: tuple[float, ...]
    fixed_usd_per_h: float = 0.0
    why_not: str = ""


@dataclass(eq=False)
class Trials:
    """Everything that is tried for one scenario.

    Attributes:
        draft: The scenario.
        count: Simulations so far.
    """

    draft: Draft
    count: int = 0
    _known: Memo = field(default_factory=Memo)
    _alone: dict[Option, Alone] = field(default_factory=dict)
    _enough: dict[tuple[Option, tuple[int, ...]], bool] = field(default_factory=dict)
    _floor: dict[Option, tuple[int, ...] | None] = field(default_factory=dict)

    def job(self, choice: Sequence[tuple[Option, tuple[int, ...]]]) -> PipelineJob:
        """The pipeline with these options and replicas.

        Raises:
            InputError: It cannot be built.
        """
        changes: dict[str, Any] = {}
        for option, replicas in choice:
            changes |= option.changes(replicas)
        return job_of(Variant("plan", {}, _changed(without_compare(self.draft), changes)), self._known)

    def whole(self, choice: Sequence[tuple[Option, tuple[int, ...]]]) -> Trial:
        """Simulates the pipeline with these options and replicas."""
        self.count += 1
        job = self.job(choice)
        return _trial(job, job.run(job.requests))

    def alone(self, option: Option) -> Alone:
        """What is known of an option by closed forms, and by a trial under a light load."""
        if option not in self._alone:
            try:
                self._alone[option] = self._look_at(option)
            except InputError as error:
                self._alone[option] = Alone((), (), why_not=error.problems[0].message)
        return self._alone[option]

    def _look_at(self, option: Option) -> Alone:
        job = self._alone_job(option, (1,) * len(option.pools))
        stage = job.stages[option.stage]
        taken = self._taken(job, option.stage)
        usd = [least_usd_per_h(job, one) for one in stage.hardware]
        if not option.pools:
            return Alone((), (), fixed_usd_per_h=sum(usd))
        least = least_replicas(stage, taken)
        counted, rest = usd[: len(option.pools)], usd[len(option.pools) :]
        slow = self._late_without_load(job, option)
        return Alone(least, tuple(counted), sum(rest), slow)

    def _taken(self, job: PipelineJob, name: str) -> Requests:
        """The requests that take a stage."""
        when = self.draft.scenario.pipeline.stages[name].when.model_copy(update={"unless": None})
        taken = takers(takers_of(when), self.draft.scenario.seed, name, job.requests.input_tokens, None)
        return job.requests.take(np.flatnonzero(taken))

    def _late_without_load(self, job: PipelineJob, option: Option) -> str:
        """Why an option is too slow even when nobody waits; empty where it is not."""
        self.count += 1
        few = job.requests.head(_FEW)
        light = few.scaled(rate=few.rate_per_s / _LIGHT)
        objective = self._objective(job, option.stage)
        found = shown(job.variant.draft.scenario.pipeline, job.run(light)).served
        share = float(objective.met(found).mean())
        if share >= objective.attainment:
            return ""
        limits = [
            f"{name} p90 {value['p90']:.3g} s of {limit:.3g} s"
            for name, value, limit in (
                ("TTFT", quantiles(found.ttft_s), objective.ttft_s),
                ("TPOT", quantiles(found.tpot_s), objective.tpot_s),
                ("end to end", quantiles(found.e2e_s), objective.e2e_s),
            )
            if limit is not None and value["p90"] is not None and value["p90"] > limit
        ]
        return f"too slow even without load: {share:.0%} in time" + (f" ({', '.join(limits)})" if limits else "")

    def enough(self, option: Option, replicas: tuple[int, ...]) -> bool:
        """Whether a stage of so many replicas is in time if all other stages took none of it."""
        if not option.pools or self._cannot_be_judged(option.stage):
            return True
        key = (option, replicas)
        if key not in self._enough:
            self.count += 1
            job = self._alone_job(option, replicas)
            objective = self._objective(job, option.stage)
            found = shown(job.variant.draft.scenario.pipeline, job.run(job.requests)).served
            self._enough[key] = float(objective.met(found).mean()) >= objective.attainment
        return self._enough[key]

    def floor(self, option: Option) -> tuple[int, ...] | None:
        """Fewer replicas of each pool are late even with many of the others; None where the most there may be are.

        What is in time stays so with another replica, so doubling and halving find the number.
        """
        if option not in self._floor:
            least = self.alone(option).least
            many = tuple(min(_MANY * count + _MANY, option.most) for count in least)
            found = [self._needed(option, pool, least[pool], many) for pool in range(len(least))]
            self._floor[option] = None if None in found else tuple(count for count in found if count is not None)
        return self._floor[option]

    def _needed(self, option: Option, pool: int, least: int, many: tuple[int, ...]) -> int | None:
        def does(count: int) -> bool:
            return self.enough(option, (*many[:pool], count, *many[pool + 1 :]))

        low, high = least - 1, least
        while not does(high):
            if high >= option.most:
                return None
            low, high = high, min(2 * high, option.most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if does(middle) else (middle, high)
        return high

    def _cannot_be_judged(self, name: str) -> bool:
        """Whether others decide who takes the stage, or whether it is waited for."""
        stages = self.draft.scenario.pipeline.stages
        return stages[name].when.unless is not None or any(stage.quorum is not None for stage in stages.values())

    def _objective(self, job: PipelineJob, name: str) -> Objective:
        """What of the objective the stage alone must meet."""
        stages = self.draft.scenario.pipeline.stages
        speaking = streaming(stages)
        whole = objective_of(job)
        names = list(stages)
        behind = any(names.index(name) > names.index(model) for model in speaking)
        return Objective(
            None if behind else whole.ttft_s,
            whole.tpot_s if name in speaking else None,
            whole.e2e_s,
            whole.attainment,
        )

    def _alone_job(self, option: Option, replicas: tuple[int, ...]) -> PipelineJob:
        """A pipeline of that stage only."""
        draft = without_compare(self.draft)
        written = draft.tree.value["workload"].value["pipeline"].value["stages"].value[option.stage]
        kept = {key: node for key, node in written.value.items() if key not in {"after", "quorum"}}
        if "when" in kept:
            kept["when"] = from_plain(
                {key: value for key, value in kept["when"].plain().items() if key != "unless"}, written.mark
            )
        node = type(written)(
            {option.stage: type(written)(kept, written.mark, dict.fromkeys(kept, written.mark))},
            written.mark,
            {option.stage: written.mark},
        )
        alone = draft.changed({"plan": from_plain(None, written.mark), "workload.pipeline.stages": node})
        return job_of(Variant("alone", {}, _changed(alone, option.changes(replicas))), self._known)


def _changed(draft: Draft, changes: Mapping[str, Any]) -> Draft:
    mark = Mark("plan")
    return draft.changed({key: from_plain(value, mark) for key, value in changes.items()}) if changes else draft


def _trial(job: PipelineJob, journey: Journey[Requests]) -> Trial:
    requests, pipeline = journey.requests, job.variant.draft.scenario.pipeline
    seen = shown(pipeline, journey)
    found = seen.served
    met = objective_of(job).met(found)
    span = max(found.span_s, requests.duration_s, 1e-9)
    uses = [use for used in uses_of(job, journey, span).values() for use in used]
    during = max(requests.duration_s, 1e-9)
    cost = deployment_cost(
        uses=uses,
        parts=list(parts(job)),
        goodput=Sold.of(met, found.input_tokens, found.output_tokens, during, found.cached_tokens),
        assumptions=job.assumptions,
    )
    total = cost.owned.tokens["total"]
    return Trial(
        attainment=float(met.mean()),
        score=float("inf") if total is None else total.typical,
        usd_per_h=cost.usd_per_h.typical,
        ttft_s=quantiles(found.ttft_s),
        tpot_s=quantiles(found.tpot_s),
        e2e_s=quantiles(found.e2e_s),
        blamed=_blamed(job, seen.whole, ~met),
    )


def _blamed(job: PipelineJob, whole: np.ndarray[Any, np.dtype[np.float64]], late: Any) -> tuple[str, ...]:
    """Models, and stages in which late requests waited; all of them where nobody was through."""
    rows = whole[late & ~np.isnan(whole[:, 0, 0])]
    names = list(job.stages)
    if len(rows) == 0:
        return tuple(names)
    queue = rows[:, :, _QUEUE].mean(axis=0) / max(float(rows.sum(axis=(1, 2)).mean()), 1e-12)
    return tuple(
        name for number, name in enumerate(names) if queue[number] >= _BLAMED or job.stages[name].kind == "model"
    )
