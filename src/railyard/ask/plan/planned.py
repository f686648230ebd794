"""State of a plan, and how it judges points."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.objectives import Constraint, constraints_of, merged, named, objective
from railyard.ask.plan.space import space_of
from railyard.kit.errors import InputError, did_you_mean
from railyard.work.scenario import override
from railyard.work.scenario.load import owner
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from railyard.ask.plan.confidence import Confidence
    from railyard.ask.plan.objectives import DesignObjective, RelaxedConstraint
    from railyard.ask.plan.outcome import DesignOutcome
    from railyard.ask.plan.space import DesignSpace
    from railyard.ask.plan.uncertainty import DesignChoice
    from railyard.catalog import Catalog
    from railyard.kit.schema.yaml import Node
    from railyard.measure.result.choices import PlanBreakEven, PlanPortPrice, PlanUnverified, PlanVerified
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.model import Scenario
    from railyard.work.scenario.plan_section import PlanSection


_PARTS = {
    "cluster.server": "servers",
    "cluster.storage.name": "storage",
    "cluster.storage.nic": "nics",
    "cluster.memory_pool.name": "memory-pools",
    **{f"cluster.back_end.{key}": "switches" for key in ("switch", "spine_switch", "border_switch")},
}
"""Keys that name a part, and its kind in the catalogue."""

_MANY = 32
"""Values of a key that are all read."""


def refuse_misspelt(space: DesignSpace) -> None:
    """Reads every value of every key once, and every key of every demand with the first and the last point.

    Raises:
        InputError: A key is no key of a scenario, or a value is none that it may have; with its line, what is allowed
            and the nearest right spelling.
    """
    for number, (key, values) in enumerate(zip(space.keys, space.values, strict=True)):
        for at in _looked_at(len(values)):
            tries = (_read(space, point, key) for point in _neighbours(space, number, at))
            _refuse(values[at], key, f"plan.space.{key}", tries)
    for number, demand in enumerate(space.demands):
        for key, node in demand.changes.items():
            tries = (_read(space, point, key, number) for point in (space.size - 1, 0))
            _refuse(node, key, f"plan.demand.{number}.set.{key}", tries)


def _refuse(node: Node, key: str, where: str, tries: Iterable[InputError | None]) -> None:
    """Raises InputError where a value can be read with no values of other keys."""
    wrong = None
    for wrong in tries:
        if wrong is None:
            return
    if wrong is not None:
        problem = wrong.problems[0]
        # The nearest short name of a key that no scenario has; dotted keys were compared where they part.
        meant = did_you_mean(key, override.SHORT) if problem.message == f"unknown key `{key}`" else None
        more = {"found": problem.found, "allowed": problem.allowed, "hint": meant or problem.hint}
        raise InputError.many([node.problem(problem.message, key=where, **more)])


def _neighbours(space: DesignSpace, number: int, at: int) -> Iterator[int]:
    """Points with a value: with all other keys at their first, then each of these at each of its own."""
    first = [0] * len(space.keys)
    first[number] = at
    yield space.number(first)
    for other, values in enumerate(space.values):
        for value in _looked_at(len(values)) if other != number else ():
            if value > 0:
                yield space.number([value if at == other else each for at, each in enumerate(first)])


def _looked_at(values: int) -> Sequence[int]:
    """The values that are read: the ends of long ranges."""
    return range(values) if values <= _MANY else (0, values - 1)


def _read(space: DesignSpace, point: int, key: str, demand: int = 0) -> InputError | None:
    path = ".".join(override.full_path(key))
    try:
        scenario = space.draft(point, demand).scenario
    except InputError as error:
        keys = (*space.keys, *space.demands[demand].changes)
        return error if any(owner(keys, one.key or "") == key for one in error.problems) else None
    try:
        _find_parts(scenario, compose.catalog_of(space.draft(point, demand)), path)
    except InputError as error:
        return error
    return None


def _find_parts(scenario: Scenario, catalog: Catalog, path: str) -> None:
    """Looks for the parts that a key names.

    Raises:
        InputError: The catalogue does not have one.
    """
    if path == "workload.training.model" and isinstance(scenario.training.model, str):
        catalog.model(scenario.training.model)
    for key, kind in _PARTS.items():
        if not f"{key}.".startswith(f"{path}."):
            continue
        found: Any = scenario
        for step in key.split("."):
            found = getattr(found, step, None)
        if isinstance(found, str):
            catalog.entry(kind, found)


_UNKNOWN_SPREAD = 0.05
"""Spread of the closed form's error where fewer than three designs were run, as a logarithm."""


ENGINES = {"training": "flow", "serving": "serving"}
"""Engines of promising designs, by kind of work."""

_GRIDS = frozenset({("economics",), *(("economics", key) for key in ("grid", "site", "sites"))})
"""Keys that may name a grid."""


@dataclass
class PlannedDesigns:
    """Result of a plan of designs.

    Attributes:
        objectives: The first ranks.
        outcomes: Every point that was looked at, by point, demand and engine.
        missed: Points that miss a constraint, and the name of the first that they miss.
        choices: Designs that were looked at closely, the best first.
        on_front: Of each choice, whether nothing beats it in every objective; the best is on the front.
        regret: By point, objectives that compare it with the best for each demand.
        closed_form: Mean and spread of the logarithm of an engine's step over that in closed form, and of how many.
        points: That were looked at in closed form, in order.
        twins: Of a point, later ones that build the same cluster for the same work.
        twin_of: The point that is kept of such, by each of the others.
        stopped: What stopped it before its end: `user`, `time`; empty where nothing did.
        engine: That runs the promising: `flow` of training, `serving` of what answers requests.
        engines: That designs are judged by, the most exact first; packets only where they ran two designs or more, for
            a design on packets and one on flow are not compared by the same measure.
        unverified: Families of designs that may be the best within the closed form's error, and did not run.
        verified: What ran of the best design and its nearest rivals; None where the best did not run.
    """

    space: DesignSpace
    objectives: tuple[DesignObjective, ...]
    constraints: tuple[Constraint, ...]
    outcomes: dict[tuple[int, int, str], DesignOutcome] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    missed: dict[int, str] = field(default_factory=dict)
    choices: list[DesignChoice] = field(default_factory=list)
    on_front: list[bool] = field(default_factory=list)
    regret: dict[int, Mapping[str, float]] = field(default_factory=dict)
    sure: Confidence | None = None
    relaxed: list[RelaxedConstraint] = field(default_factory=list)
    even: tuple[PlanBreakEven, ...] = ()
    ports: tuple[PlanPortPrice, ...] = ()
    closed_form: tuple[float, float, int] = (0.0, _UNKNOWN_SPREAD, 0)
    layouts: int = 0
    points: list[int] = field(default_factory=list)
    twins: dict[int, list[int]] = field(default_factory=dict)
    twin_of: dict[int, int] = field(default_factory=dict)
    stopped: str = ""
    engine: str = "flow"
    engines: tuple[str, ...] = ("flow", "analytic")
    unverified: list[PlanUnverified] = field(default_factory=list)
    verified: PlanVerified | None = None

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the demands."""
        return tuple(demand.share for demand in self.space.demands)

    def name(self, point: int) -> str:
        """Name of a point, with the values that make no difference."""
        return self.space.name(point, self.twins.get(point, ()))

    def seen(self, point: int, demand: int) -> DesignOutcome | None:
        """The best that is known of a point, by the most exact engine that judges; None where nothing is."""
        for engine in self.engines:
            found = self.outcomes.get((point, demand, engine))
            if found is not None and not found.error:
                return found
        return None

    def rows(self, point: int, engine: str = "") -> list[Mapping[str, float]] | None:
        """Figures of a point under each demand, by one engine where it is named; None where one is missing."""
        demands = range(len(self.space.demands))
        found = [self.outcomes.get((point, one, engine)) if engine else self.seen(point, one) for one in demands]
        return None if any(one is None or one.error for one in found) else [one.figures for one in found if one]

    def figures(self, point: int, engine: str = "") -> dict[str, float] | None:
        """Objectives of a point, all demands together, by one engine where it is named."""
        rows = self.rows(point, engine)
        if rows is None:
            return None
        return {**merged(rows, self.shares), **self.regret.get(point, {})}

    def ran(self, point: int, engine: str = "") -> bool:
        """Whether an engine ran a point under every demand; that of the promising where none is named."""
        found = [self.outcomes.get((point, demand, engine or self.engine)) for demand in range(len(self.space.demands))]
        return all(one is not None and not one.error for one in found)


def begin(draft: Draft) -> tuple[PlannedDesigns, PlanSection]:
    """A plan before anything is looked at.

    Raises:
        InputError: Its space is empty or without end, its constraints cannot be kept, no engine gives an objective.
    """
    space = space_of(draft)
    section = draft.scenario.plan
    if section is None:  # `space_of` has refused it
        raise InputError("there is nothing to plan", key="plan")
    work = draft.kind
    if work not in ENGINES:
        pipeline = "`railyard plan serving` plans the stages of a pipeline" if work == "pipeline" else None
        raise draft.blame(
            InputError(
                f"designs are planned for {' and '.join(ENGINES)}, and this scenario has `{work}`",
                key="workload",
                hint=pipeline,
            )
        )
    refuse_misspelt(space)
    lacks = _lacking(draft, space)
    demands = len(space.demands)
    try:
        names = list(dict.fromkeys(section.objectives))
        objectives = tuple(
            objective(name, f"plan.objectives.{number}", demands=demands, lacks=lacks, work=work)
            for number, name in enumerate(names)
        )
        keys = [f"plan.delivery.{name}" for name in section.delivery]
        named(list(section.delivery), keys, compose.catalog_of(draft))
        catalog = compose.catalog_of(draft)
        constraints = constraints_of(section.constraints, catalog, demands=demands, lacks=lacks, work=work)
        if work == "serving":
            constraints += _in_time(draft)
            _refuse_packets(section)
    except InputError as error:
        raise draft.blame(error) from None
    engine = ENGINES[work]
    return PlannedDesigns(space, objectives, tuple(constraints), engine=engine, engines=(engine, "analytic")), section


def _in_time(draft: Draft) -> list[Constraint]:
    """What a scenario's limits of latency ask of every design; nothing where it has none."""
    slo = draft.scenario.serving.slo
    if slo.ttft is None and slo.tpot is None and slo.e2e is None:
        return []
    return [Constraint("slo", "attainment", slo.attainment, large=True)]


def _refuse_packets(section: PlanSection) -> None:
    """Raises InputError where designs of a service are to run on packets."""
    if section.effort.verify:
        raise InputError("no engine runs requests on packets", key="plan.effort.verify", allowed="0 s")


def _lacking(draft: Draft, space: DesignSpace) -> frozenset[str]:
    """Inputs that objectives may need and the scenario does not have."""
    has = {"tokens": _with_end(draft, space), "grid": _with_grid(space)}
    return frozenset(name for name, there in has.items() if not there)


def _with_grid(space: DesignSpace) -> bool:
    told = [override.full_path(key)[:2] in _GRIDS for key in space.keys]
    places = itertools.product(
        *(range(len(each) if here else 1) for here, each in zip(told, space.values, strict=True))
    )
    return all(_grid_of(space, space.number(place), one) for place in places for one in range(len(space.demands)))


def _grid_of(space: DesignSpace, point: int, demand: int) -> bool:
    """Whether the grid of a design is known; of one that cannot be read nothing is asked."""
    try:
        return space.draft(point, demand).scenario.economics.at_site("grid") is not None
    except InputError:
        return True


def _with_end(draft: Draft, space: DesignSpace) -> bool:
    if draft.kind != "training":
        return False
    key = override.full_path("tokens")
    keys = [*space.keys, *(set.intersection(*(set(demand.changes) for demand in space.demands)))]
    return bool(draft.scenario.training.tokens) or key in map(override.full_path, keys)
