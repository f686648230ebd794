"""Trials of deployments by simulation, each made once: whole pipelines, and stages as if all others took no time."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.plan.space import keys_in_words
from railyard.engine.stage import BatchingStage
from railyard.kit.errors import InputError, did_you_mean
from railyard.measure.serving.latencies import quantiles
from railyard.work.pipeline.bench import Bench, idle_usd_per_h, objective_alone, served_by, takers_alone, tried
from railyard.work.pipeline.model_stage import Answer
from railyard.work.serving.summary import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from railyard.engine.serving import Pool
    from railyard.graph.request_table import RequestTable
    from railyard.measure.serving.objective import Objective
    from railyard.work.pipeline.batched import Built
    from railyard.work.pipeline.bench import PipelineTrial
    from railyard.work.pipeline.model_stage import PipelineJob
    from railyard.work.pipeline.section import ModelStage, StageSection
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario
    from railyard.work.scenario.plan_section import ChoicesSection


ROLES = {"together": ("both",), "apart": ("prefill", "decode"), "hybrid": ("prefill", "decode", "both")}
"""Pools of each layout, in the order in which their replicas are counted."""


@dataclass(frozen=True, eq=False)
class StageOption:
    """One way in which a stage may be built.

    Attributes:
        keys: Values under the stage's own keys.
        pools: Pools whose replicas are counted; one without a name for stages that are no models, none where nothing
            is to be counted.
        most: Replicas of each at most.
        split: Whether prefill and decode are disaggregated, for some requests at least.
    """

    stage: str
    words: str
    keys: tuple[tuple[str, Any], ...] = ()
    pools: tuple[str, ...] = ()
    most: int = 1
    split: bool = False

    def changes(self, replicas: Sequence[int]) -> dict[str, object]:
        """Dotted keys of the scenario, with so many replicas of each pool."""
        base = f"workload.pipeline.stages.{self.stage}"
        found = {f"{base}.{key}": value for key, value in self.keys if key != "pools"}
        pools: dict[str, dict[str, Any]] = dict(next((value for key, value in self.keys if key == "pools"), {}))
        for name, count in zip(self.pools, replicas, strict=True):
            if name:
                pools[name] = {**pools[name], "replicas": count}
            else:
                found[f"{base}.replicas"] = count
        return {**found, f"{base}.pools": pools} if pools else found


def options(scenario: Scenario) -> dict[str, tuple[StageOption, ...]]:
    """What each stage may be; a stage of which the plan says nothing is what is written.

    Raises:
        InputError: There is no plan, or it names a stage that is not there or cannot be chosen.
    """
    plan, stages = scenario.plan, scenario.pipeline.stages
    if plan is None:
        raise InputError("there is nothing to plan: the scenario has no `plan`", key="plan")
    for name, choices in plan.stages.items():
        if name not in stages:
            raise InputError(
                f"there is no stage `{name}`",
                key=f"plan.stages.{name}",
                allowed=tuple(stages),
                hint=did_you_mean(name, tuple(stages)),
            )
        if stages[name].kind in {"tool", "host"}:
            raise InputError(
                f"`{name}` is of kind `{stages[name].kind}`, which has no choices", key=f"plan.stages.{name}"
            )
        if stages[name].kind != "model" and set(choices.layouts) != {"together"}:
            raise InputError("only models have layouts", key=f"plan.stages.{name}.layouts")
        if stages[name].kind != "model" and choices.speculative:
            raise InputError("only models use speculative decoding", key=f"plan.stages.{name}.speculative")
    return {name: _of(name, stage, plan.stages.get(name), scenario) for name, stage in stages.items()}


def _of(name: str, stage: StageSection, choices: ChoicesSection | None, scenario: Scenario) -> tuple[StageOption, ...]:
    if choices is None:
        return (StageOption(name, "as written"),)
    if stage.kind == "model":
        return tuple(_models(name, stage, choices, scenario))
    servers = choices.servers or (getattr(stage, "server", ""),)
    degrees = choices.tp or (getattr(stage, "tp", 1),)
    found = []
    for server, degree in itertools.product(servers, degrees):
        keys: dict[str, Any] = {"server": server}
        if stage.kind != "retrieve":
            keys["tp"] = degree
        words = server if degree == 1 else f"{server} tp {degree}"
        found.append(StageOption(name, words, tuple(keys.items()), ("",), choices.most))
    return tuple(found)


def _models(name: str, stage: ModelStage, choices: ChoicesSection, scenario: Scenario) -> Iterator[StageOption]:
    template = _template(stage)
    servers = choices.servers or (stage.server or scenario.cluster.server,)
    degrees = choices.tp or (template.get("tp", 1),)
    routers = choices.routers or (stage.router.kind,)
    left = {"replicas", "server", "tp", *(("speculative",) if choices.speculative else ())}
    plain = {key: value for key, value in template.items() if key not in left}
    sides = {
        "both": (servers, degrees),
        "prefill": (choices.prefill.servers or servers, choices.prefill.tp or degrees),
        "decode": (choices.decode.servers or servers, choices.decode.tp or degrees),
    }
    for layout, router, guess in itertools.product(choices.layouts, routers, choices.speculative or (None,)):
        roles = ROLES[layout]
        for built in itertools.product(*(itertools.product(*sides[role]) for role in roles)):
            if layout == "hybrid" and built[2] not in built[:2]:
                continue  # replicas for everything are of a kind that already exists
            pools = {
                role: {**plain, "tp": tp, **({} if server == built[0][0] else {"server": server})}
                for role, (server, tp) in zip(roles, built, strict=True)
            }
            if guess is not None:
                pools |= {role: {**pool, "speculative": guess} for role, pool in pools.items() if role != "prefill"}
            keys = {"server": built[0][0], "router": {"kind": router}, "pools": pools}
            more = [router] if len(routers) > 1 else []
            if len(choices.speculative) > 1:
                more.append(f"speculative ({keys_in_words(guess)})" if guess else "no guesses")
            words = ", ".join([_words(layout, roles, built), *more])
            yield StageOption(name, words, tuple(keys.items()), roles, choices.most, split=layout != "together")


def _template(stage: ModelStage) -> dict[str, Any]:
    """A pool as it is written: what the plan does not choose stays."""
    pools = stage.pools
    written = pools.both or pools.prefill
    return {} if written is None else written.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def _words(layout: str, roles: Sequence[str], built: Sequence[tuple[str, int]]) -> str:
    sides = [f"{server} tp {tp}" for server, tp in built]
    if layout == "together":
        return sides[0]
    return ", ".join(f"{role} {side}" for role, side in zip(roles, sides, strict=True))


_SLACK = 0.9
"""Share of the bound that is used: a trial is finite, and what is late at its end still ends."""


def least_replicas(built: Built, requests: RequestTable) -> tuple[int, ...]:
    """Fewer replicas of each pool than these cannot keep up with the requests; () where nothing is counted."""
    stage, span_s = built.stage, max(requests.duration_s, 1e-9)
    if isinstance(stage, BatchingStage):
        tokens = requests.input_tokens if stage.tokens is None else np.full(len(requests), stage.tokens)
        work = stage.items * _prompts_s(stage.deployment.pools[0], np.minimum(tokens, stage.most_tokens))
        return (_count(work / span_s),)
    if not isinstance(stage, Answer):
        return ()
    asked = stage.asked(requests)
    shared = asked.block_tokens > 0  # a prefix that is cached is no work: of prompts nothing is sure then
    by_role = {pool.role: pool for pool in stage.job.deployment.pools}
    if set(by_role) == {"both"}:
        pool = by_role["both"]
        prompts = 0.0 if shared else _prompts_s(pool, asked.input_tokens)
        return (_count((prompts + _answers_s(pool, asked)) / span_s),)
    if "both" in by_role:
        return (1, 1, 1)
    prompts = 0.0 if shared else _prompts_s(by_role["prefill"], asked.input_tokens)
    return _count(prompts / span_s), _count(_answers_s(by_role["decode"], asked) / span_s)


def _count(load: float) -> int:
    return max(math.ceil(_SLACK * load), 1)


def _prompts_s(pool: Pool, tokens: NDArray[np.integer[Any]]) -> float:
    cost = pool.cost
    rows = np.asarray(cost.tokens) > 0
    each = ((cost.compute_s + cost.network_s)[rows] / np.asarray(cost.tokens)[rows]).min()
    count = tokens.astype(np.float64)
    return float((count * each + cost.attention_per_pair_s * count * (count + 1) / 2).sum())


def _answers_s(pool: Pool, requests: RequestTable) -> float:
    cost = pool.cost
    context = float(requests.input_tokens.mean() + requests.output_tokens.mean() / 2)
    sequences = max(pool.kv_blocks * pool.block_tokens / max(context, 1.0), 1.0)
    batch = np.arange(1, max(int(min(pool.max_sequences, sequences)), 1) + 1, dtype=np.float64)
    guesses = pool.speculative.draft_tokens if pool.speculative else 0
    tokens = batch * (1 + guesses)
    seconds = cost.host_s + np.interp(tokens, cost.tokens, cost.compute_s + cost.network_s)
    seconds = seconds + batch * (cost.attention_per_sequence_s + context * cost.attention_per_kv_token_s)
    yields = pool.speculative.yields if pool.speculative else 1.0
    return float((seconds / batch).min() / yields * (requests.output_tokens - 1.0).sum())


_LIGHT = 50.0
"""A load so many times lighter shows what is left when nobody waits."""
_FEW = 300
"""Requests that show it."""
_MANY = 3
"""Multiple of the fewest replicas, and number above it, from which replicas are many."""


@dataclass(frozen=True)
class StageAlone:
    """Facts of an option without a simulation of the pipeline.

    Attributes:
        least: Replicas of each pool below which it cannot keep up.
        usd_per_h: Of one replica of each pool, at least.
        why_not: Why it can never do; empty where it may.
    """

    least: tuple[int, ...]
    usd_per_h: tuple[float, ...]
    fixed_usd_per_h: float = 0.0
    why_not: str = ""


@dataclass(eq=False)
class DeploymentTrials:
    """Everything that is tried for one scenario."""

    draft: Draft
    count: int = 0
    _alone: dict[StageOption, StageAlone] = field(default_factory=dict)
    _enough: dict[tuple[StageOption, tuple[int, ...]], bool] = field(default_factory=dict)
    _floor: dict[StageOption, tuple[int, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bench = Bench(self.draft)

    def job(self, choice: Sequence[tuple[StageOption, tuple[int, ...]]]) -> PipelineJob:
        """The pipeline with these options and replicas.

        Raises:
            InputError: It cannot be built.
        """
        changes: dict[str, Any] = {}
        for option, replicas in choice:
            changes |= option.changes(replicas)
        return self._bench.job(changes)

    def full_trial(self, choice: Sequence[tuple[StageOption, tuple[int, ...]]]) -> PipelineTrial:
        """Simulates the pipeline with these options and replicas."""
        self.count += 1
        return tried(self.job(choice))

    def alone(self, option: StageOption) -> StageAlone:
        """What is known of an option by closed forms, and by a trial under a light load."""
        if option not in self._alone:
            try:
                self._alone[option] = self._look_at(option)
            except InputError as error:
                self._alone[option] = StageAlone((), (), why_not=error.problems[0].message)
        return self._alone[option]

    def _look_at(self, option: StageOption) -> StageAlone:
        job = self._alone_job(option, (1,) * len(option.pools))
        stage = job.stages[option.stage]
        taken = takers_alone(job, option.stage)
        usd = [idle_usd_per_h(job, one) for one in stage.hardware]
        if not option.pools:
            return StageAlone((), (), fixed_usd_per_h=sum(usd))
        least = least_replicas(stage, taken)
        counted, rest = usd[: len(option.pools)], usd[len(option.pools) :]
        slow = self._late_without_load(job, option)
        return StageAlone(least, tuple(counted), sum(rest), slow)

    def _late_without_load(self, job: PipelineJob, option: StageOption) -> str:
        """Why an option is too slow even when nobody waits; empty where it is not."""
        self.count += 1
        few = job.requests.head(_FEW)
        light = scaled(few, rate=few.rate_per_s / _LIGHT)
        objective = self._objective(job, option.stage)
        found = served_by(job, light)
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
        return f"too slow even without load: {share:.0%} meet the SLO" + (f" ({', '.join(limits)})" if limits else "")

    def enough(self, option: StageOption, replicas: tuple[int, ...]) -> bool:
        """Whether a stage of so many replicas is in time if all other stages took none of it."""
        if not option.pools or self._cannot_be_judged(option.stage):
            return True
        key = (option, replicas)
        if key not in self._enough:
            self.count += 1
            job = self._alone_job(option, replicas)
            objective = self._objective(job, option.stage)
            found = served_by(job, job.requests)
            self._enough[key] = float(objective.met(found).mean()) >= objective.attainment
        return self._enough[key]

    def floor(self, option: StageOption) -> tuple[int, ...] | None:
        """Fewer replicas of each pool are late even with many of the others; None where the most there may be are.

        What is in time stays so with another replica, so doubling and halving find the number.
        """
        if option not in self._floor:
            least = self.alone(option).least
            many = tuple(min(_MANY * count + _MANY, option.most) for count in least)
            found = [self._needed(option, pool, least[pool], many) for pool in range(len(least))]
            self._floor[option] = None if None in found else tuple(count for count in found if count is not None)
        return self._floor[option]

    def _needed(self, option: StageOption, pool: int, least: int, many: tuple[int, ...]) -> int | None:
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
        return objective_alone(job, self.draft.scenario.pipeline, name)

    def _alone_job(self, option: StageOption, replicas: tuple[int, ...]) -> PipelineJob:
        return self._bench.job_alone(option.stage, option.changes(replicas))
