"""What each stage may be: every server, layout, degree and router that the scenario's `plan` names for it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.work.pipeline.section import ModelStage, StageSection
    from railyard.work.scenario.model import Scenario
    from railyard.work.scenario.plan_section import ChoicesSection

ROLES = {"together": ("both",), "apart": ("prefill", "decode"), "hybrid": ("prefill", "decode", "both")}
"""Pools of each layout, in the order in which their replicas are counted."""


@dataclass(frozen=True, eq=False)
class Option:
    """One way in which a stage may be built.

    Attributes:
        stage: Its name.
        words: How it is called in tables.
        keys: Values under the stage's own keys.
        pools: Pools whose replicas are counted; one without a name for stages that are no models, none where nothing
            is to be counted.
        most: Replicas of each at most.
        split: Whether prompts and answers are apart, for some requests at least.
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


def options(scenario: Scenario) -> dict[str, tuple[Option, ...]]:
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
                f"`{name}` is of kind `{stages[name].kind}`, of which nothing is chosen", key=f"plan.stages.{name}"
            )
        if stages[name].kind != "model" and set(choices.layouts) != {"together"}:
            raise InputError("only models have layouts", key=f"plan.stages.{name}.layouts")
    return {name: _of(name, stage, plan.stages.get(name), scenario) for name, stage in stages.items()}


def _of(name: str, stage: StageSection, choices: ChoicesSection | None, scenario: Scenario) -> tuple[Option, ...]:
    if choices is None:
        return (Option(name, "as written"),)
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
        found.append(Option(name, words, tuple(keys.items()), ("",), choices.most))
    return tuple(found)


def _models(name: str, stage: ModelStage, choices: ChoicesSection, scenario: Scenario) -> Iterator[Option]:
    template = _template(stage)
    servers = choices.servers or (stage.server or scenario.cluster.server,)
    degrees = choices.tp or (template.get("tp", 1),)
    routers = choices.routers or (stage.router.kind,)
    plain = {key: value for key, value in template.items() if key not in {"replicas", "server", "tp"}}
    sides = {
        "both": (servers, degrees),
        "prefill": (choices.prefill.servers or servers, choices.prefill.tp or degrees),
        "decode": (choices.decode.servers or servers, choices.decode.tp or degrees),
    }
    for layout, router in itertools.product(choices.layouts, routers):
        roles = ROLES[layout]
        for built in itertools.product(*(itertools.product(*sides[role]) for role in roles)):
            if layout == "hybrid" and built[2] not in built[:2]:
                continue  # replicas for everything are of a kind that is there already
            pools = {
                role: {**plain, "tp": tp, **({} if server == built[0][0] else {"server": server})}
                for role, (server, tp) in zip(roles, built, strict=True)
            }
            keys = {"server": built[0][0], "router": {"kind": router}, "pools": pools}
            words = _words(layout, roles, built, router if len(routers) > 1 else "")
            yield Option(name, words, tuple(keys.items()), roles, choices.most, split=layout != "together")


def _template(stage: ModelStage) -> dict[str, Any]:
    """A pool as it is written: what the plan does not choose stays."""
    pools = stage.pools
    written = pools.both or pools.prefill
    return {} if written is None else written.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def _words(layout: str, roles: Sequence[str], built: Sequence[tuple[str, int]], router: str) -> str:
    sides = [f"{server} tp {tp}" for server, tp in built]
    if layout == "together":
        router_words = sides[0]
    else:
        router_words = ", ".join(f"{role} {side}" for role, side in zip(roles, sides, strict=True))
    return f"{router_words}, {router}" if router else router_words
