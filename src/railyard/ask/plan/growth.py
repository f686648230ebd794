"""How a cluster grows: what stays, is bought, stranded and cabled again on each path, and what a wrong guess costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from railyard.ask.plan.build import DesignBench
from railyard.ask.plan.evaluate import sweep
from railyard.ask.plan.growth_change import GrowthChange, GrowthStage, change, lots, provisions
from railyard.ask.plan.objectives import relative
from railyard.ask.plan.outcome import layout_of
from railyard.ask.plan.price import priced
from railyard.ask.plan.space import one_design
from railyard.kit.errors import InputError
from railyard.measure.cost.capital import capital_recovery_factor
from railyard.measure.cost.cost import usd_per_h

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.ask.plan.growth_change import Lot
    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.plan_section import GrowthSection


YEAR_S = 365.0 * 86400


class BookValues:
    """When pieces were bought, by name, for what is left of their price when they go."""

    def __init__(self) -> None:
        self._bought: dict[str, list[tuple[float, float]]] = {}

    def changed(self, made: GrowthChange, now_s: float, life_years: float) -> float:
        """Books what is bought, and gives the book value of what is stranded, USD."""
        gone = sum(self._value(lot, now_s, life_years * YEAR_S) for lot in made.stranded.values())
        for lot in made.bought.values():
            self._bought.setdefault(lot.name, []).append((lot.count, now_s))
        return gone

    def _value(self, lot: Lot, now_s: float, life_s: float) -> float:
        left, worth, kept = lot.count, 0.0, []
        for count, since_s in self._bought.get(lot.name, []):
            taken = min(left, count)
            left -= taken
            worth += taken * lot.price_usd.typical * max(0.0, 1.0 - (now_s - since_s) / life_s)
            if count > taken:
                kept.append((count - taken, since_s))
        self._bought[lot.name] = kept
        return worth


PATHS = ("incremental", "forklift", "ahead")
BESIDE = "beside"
_HOUR_S = 3600.0


@dataclass(frozen=True)
class GrowthStep:
    """A path's step at a stage; dollars are typical and present values.

    Attributes:
        stranded_usd: Price of what is of no use any more, as new.
        written_off_usd: Book value of it, straight-line over the economic life, the oldest pieces first.
        idle_usd: Dollars an hour of the cluster for that time.
        running_usd: Energy, space and operations until the next stage.
    """

    stage: str
    change: GrowthChange
    capital_usd: float
    charged_usd: float
    stranded_usd: float
    written_off_usd: float
    stopped_s: float
    idle_usd: float
    running_usd: float
    tokens: float


@dataclass(frozen=True)
class GrowthPath:
    """One way to grow.

    Attributes:
        name: Of `PATHS`, or `rent`.
        steps: By stage; empty of what is rented.
        futures: Dollars per million tokens where growth ends after each stage.
        regret: By which share it is dearer there than the cheapest path.
    """

    name: str
    steps: tuple[GrowthStep, ...]
    futures: tuple[float, ...]
    regret: tuple[float, ...]


@dataclass(frozen=True)
class Growth:
    """Result of a study of growth.

    Attributes:
        paths: The best under all futures together first: by its largest regret.
    """

    stages: tuple[GrowthStage, ...]
    paths: tuple[GrowthPath, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def growth(draft: Draft) -> Growth:
    """Prices paths of growth.

    Args:
        draft: A scenario with `plan.growth`.

    Raises:
        InputError: There is none, its stages are not in order, or one cannot be built.
    """
    section = None if draft.scenario.plan is None else draft.scenario.plan.growth
    if section is None:
        hint = "write for example `plan: {growth: {stages: [{name: now}, {name: next, at: 365 d, set: {...}}]}}`"
        raise draft.blame(InputError("there is no growth to plan", key="plan.growth", hint=hint))
    stages = _stages(draft, section)
    bought = {name: _steps(stages, section, name) for name in PATHS}
    costs = {name: _futures(stages, steps, section) for name, steps in bought.items()}
    left_out = []
    try:
        islands = _islands(draft, section, stages)
    except InputError as error:
        left_out.append((BESIDE, error.problems[0].message))
    else:
        bought[BESIDE] = [
            _step(stage, change(None, stage.cluster, rebuilt=False), section, first=True) for stage in islands
        ]
        costs[BESIDE] = _islands_futures(islands, bought[BESIDE], section)
    rented = _rented(stages)
    if rented is not None:
        costs["rent"] = rented
    late = relative(list(costs.values())).tolist()
    paths = [
        GrowthPath(name, tuple(bought.get(name, ())), tuple(row), tuple(behind))
        for (name, row), behind in zip(costs.items(), late, strict=True)
    ]
    return Growth(tuple(stages), tuple(sorted(paths, key=lambda path: max(path.regret))), tuple(left_out))


def _stages(draft: Draft, section: GrowthSection) -> list[GrowthStage]:
    times = [stage.at for stage in section.stages]
    if sorted(set(times)) != times or times[0] != 0 or section.horizon <= times[-1]:
        error = InputError(
            "stages start at 0, in order, and before the horizon",
            key="plan.growth.stages",
            found=", ".join(f"{time / 86400:g} d" for time in times) + f"; horizon {section.horizon / 86400:g} d",
        )
        raise draft.blame(error)
    return _built(draft, section, [{"name": stage.name, "set": dict(stage.set)} for stage in section.stages])


def _built(draft: Draft, section: GrowthSection, demands: list[dict[str, Any]]) -> list[GrowthStage]:
    times = [stage.at for stage in section.stages]
    bench = DesignBench(one_design(draft.with_values({"plan": {"demand": demands}}, "plan.growth")))
    ends = [*times[1:], section.horizon]
    return [_stage(draft, bench, number, (times[number], ends[number])) for number in range(len(times))]


def _islands(draft: Draft, section: GrowthSection, stages: Sequence[GrowthStage]) -> list[GrowthStage]:
    """The part that each stage adds, as a cluster of its own with its part of the batch.

    Raises:
        InputError: A stage adds nothing, or what it adds cannot be built or run by itself.
    """
    demands = []
    for number, (asked, stage) in enumerate(zip(section.stages, stages, strict=True)):
        before = stages[number - 1].cluster.ranks if number else 0
        more = stage.cluster.ranks - before
        if more <= 0:
            message = f"{asked.name} adds no accelerators to those of the stage before"
            raise InputError(message, key=f"plan.growth.stages.{number}")
        batch = max(1, round(stage.batch * more / stage.cluster.ranks))
        keys = {"cluster.accelerators": more, "workload.training.global_batch": batch}
        given = {key: value for key, value in asked.set.items() if key not in _SIZES}
        demands.append({"name": asked.name, "set": {**given, **keys}})
    return _built(draft, section, demands)


_SIZES = ("accelerators", "cluster.accelerators", "global_batch", "workload.training.global_batch")


def _stage(draft: Draft, bench: DesignBench, number: int, span_s: tuple[float, float]) -> GrowthStage:
    try:
        design = bench.design(0, number)
    except InputError as error:
        raise draft.blame(error.located(key=f"plan.growth.stages.{number}")) from None
    found = next(iter(sweep(bench, [(0, number)], frozenset())))
    if found.error:
        raise draft.blame(InputError(found.error, key=f"plan.growth.stages.{number}"))
    layout = layout_of(found.layouts[0])
    hardware = bench.seated(0, number, layout)
    training = design.jobs[0].replace(layout=layout)
    money = priced(hardware.cluster, training, found, hardware.parts, design.assumptions)
    name = bench.space.demands[number].name
    return GrowthStage(
        name, *span_s, hardware.cluster, str(layout), money, round(training.step_tokens / training.seq_len)
    )


def _steps(stages: Sequence[GrowthStage], section: GrowthSection, path: str) -> list[GrowthStep]:
    found = []
    ages = BookValues()
    for number, stage in enumerate(stages):
        before = stages[number - 1].cluster if number else None
        made = change(before, stage.cluster, rebuilt=path == "forklift" and number > 0)
        if path == "ahead":
            made = _ahead(stages, number, made)
        step = _step(stage, made, section, first=number == 0)
        found.append(replace(step, written_off_usd=ages.changed(made, stage.at_s, stage.priced.typical["life_years"])))
    return found


def _ahead(stages: Sequence[GrowthStage], number: int, made: GrowthChange) -> GrowthChange:
    """The network of the last stage is bought with the first one; NICs come with their servers."""
    last = lots(stages[-1].cluster)
    rest = {name: lot for name, lot in made.bought.items() if not lot.network or lot.component == "NICs"}
    early = {name: lot for name, lot in last.items() if lot.network and lot.component != "NICs"} if number == 0 else {}
    moved = made.moved if number else 0
    gone = {name: lot for name, lot in made.stranded.items() if not lot.network or lot.component == "NICs"}
    return GrowthChange({**rest, **early}, gone, made.kept + moved, 0, made.laid - moved if number else made.laid)


def _step(stage: GrowthStage, made: GrowthChange, section: GrowthSection, *, first: bool) -> GrowthStep:
    typical = stage.priced.typical
    hourly = usd_per_h(typical)
    worth = _present(stage, stage.at_s)
    stopped_s = 0.0 if first else made.moved * section.cable_time / section.crew
    length_s = max(stage.until_s - stage.at_s - stopped_s, 0.0)
    nominal = made.usd(made.bought.values()) * (1.0 + typical["installation"])
    return GrowthStep(
        stage.name,
        made,
        capital_usd=nominal * worth,
        charged_usd=nominal * _annuities(stage, section.horizon),
        stranded_usd=made.usd(made.stranded.values()),
        written_off_usd=0.0,
        stopped_s=stopped_s,
        idle_usd=sum(hourly.values()) * stopped_s / _HOUR_S * worth,
        running_usd=_running(stage, stage.at_s, stage.until_s),
        tokens=stage.priced.tokens_per_s * length_s,
    )


def _present(stage: GrowthStage, at_s: float) -> float:
    """Present value of a dollar at a time."""
    worth: float = (1.0 + stage.priced.typical["cost_of_capital"]) ** (-at_s / YEAR_S)
    return worth


def _running(stage: GrowthStage, begin_s: float, end_s: float) -> float:
    """Present value of energy, space and operations between two times."""
    hourly = usd_per_h(stage.priced.typical)
    running = sum(hourly[name] for name in ("energy", "space", "operations"))
    return running * (end_s - begin_s) / _HOUR_S * _present(stage, (begin_s + end_s) / 2)


def _annuities(stage: GrowthStage, horizon_s: float) -> float:
    """Present value of a dollar's annuities from a stage to the horizon, or to the end of its life."""
    typical = stage.priced.typical
    capital, life = typical["cost_of_capital"], typical["life_years"]
    years = min((horizon_s - stage.at_s) / YEAR_S, life)
    middle: float = (1.0 + capital) ** -(stage.at_s / YEAR_S + years / 2)
    return capital_recovery_factor(capital, life) * years * middle


def _futures(stages: Sequence[GrowthStage], steps: Sequence[GrowthStep], section: GrowthSection) -> list[float]:
    """Dollars per million tokens where growth ends after each stage, which then lasts until the horizon."""
    found = []
    for end in range(len(stages)):
        paid = sum(step.charged_usd + step.running_usd for step in steps[: end + 1])
        tokens = sum(step.tokens for step in steps[: end + 1])
        more_s = section.horizon - stages[end].until_s
        paid += _running(stages[end], stages[end].until_s, section.horizon)
        tokens += stages[end].priced.tokens_per_s * more_s
        found.append(paid / tokens * 1e6)
    return found


def _islands_futures(
    islands: Sequence[GrowthStage], steps: Sequence[GrowthStep], section: GrowthSection
) -> list[float]:
    """Dollars per million tokens of separate clusters that all run until the horizon."""
    found = []
    for end in range(len(islands)):
        paid = tokens = 0.0
        for stage, step in zip(islands[: end + 1], steps, strict=False):
            paid += step.charged_usd + _running(stage, stage.at_s, section.horizon)
            tokens += stage.priced.tokens_per_s * (section.horizon - stage.at_s)
        found.append(paid / tokens * 1e6)
    return found


def _rented(stages: Sequence[GrowthStage]) -> list[float] | None:
    """Dollars per million tokens of accelerators rented for three years; None where no price is known."""
    found = []
    for end in range(len(stages)):
        paid = tokens = 0.0
        for number, stage in enumerate(stages[: end + 1]):
            rent = stage.cluster.accelerator.contract_usd_per_h
            if rent is None:
                return None
            until_s = stage.until_s if number < end else stages[-1].until_s
            hours = (until_s - stage.at_s) / _HOUR_S
            paid += rent.typical * stage.cluster.ranks * hours * _present(stage, (stage.at_s + until_s) / 2)
            tokens += stage.priced.tokens_per_s * (until_s - stage.at_s)
        found.append(paid / tokens * 1e6)
    return found


def to_json(found: Growth) -> dict[str, Any]:
    """The plan as `--json` prints it."""
    return {
        "format": "railyard-growth/1",
        "stages": [
            {
                "name": stage.name,
                "at_days": stage.at_s / 86400,
                "accelerators": stage.cluster.ranks,
                "layout": stage.layout,
                "cpmt": stage.priced.cpmt,
                "tokens_per_s": stage.priced.tokens_per_s,
            }
            for stage in found.stages
        ],
        "paths": [
            {
                "name": path.name,
                "usd_per_million_by_future": list(path.futures),
                "regret_by_future": list(path.regret),
                "steps": [_plain(step) for step in path.steps],
            }
            for path in found.paths
        ],
        "provisioning": [
            {
                "built": one.built,
                "usd_per_year_by_demand": list(one.usd_per_year),
                "regret_usd_by_demand": list(one.regret_usd),
                "largest_regret_usd": one.bound_usd,
            }
            for one in provisions(found.stages)
        ],
        "left_out": [{"name": name, "reason": reason} for name, reason in found.left_out],
    }


def _plain(step: GrowthStep) -> dict[str, Any]:
    made = step.change
    return {
        "stage": step.stage,
        "capital_usd": step.capital_usd,
        "charged_usd": step.charged_usd,
        "network_usd": made.usd(made.bought.values(), network=True),
        "stranded_usd": step.stranded_usd,
        "written_off_usd": step.written_off_usd,
        "stranded": {lot.name: lot.count for lot in made.stranded.values()},
        "bought": {lot.name: lot.count for lot in made.bought.values()},
        "cables": {"kept": made.kept, "moved": made.moved, "laid": made.laid},
        "stopped_h": step.stopped_s / _HOUR_S,
        "idle_usd": step.idle_usd,
        "running_usd": step.running_usd,
        "tokens": step.tokens,
    }
