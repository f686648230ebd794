"""The space of designs: dotted keys with their values, every combination a point, by its number."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.schema.yaml import Mark, Node, from_plain
from railyard.work.scenario import load, override

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from railyard.work.scenario.load import Draft
    from railyard.work.scenario.plan_section import PlanSection


MOST_VALUES = 10_000
"""Most values of one key: a range with more has the wrong step."""

_NO_DESIGN = frozenset({"check", "compare", "engine", "format", "name", "plan", "repeat", "seed", "tune"})
"""First words of keys that say how a scenario is run or called, not what is built: a choice among them is none."""

_POOLS = ("workload", "serving", "pools")
"""Layouts of a service, in which any value may be a list."""

_NUMBER = re.compile(r"\s*(\$?)([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*")


@dataclass(frozen=True)
class PlanDemand:
    """Demand on every design.

    Attributes:
        share: Of the tokens, or its odds; all of them add up to 1.
    """

    name: str
    changes: Mapping[str, Node]
    share: float


@dataclass(frozen=True)
class DesignSpace:
    """Designs of a plan.

    Attributes:
        base: The scenario, without its plan and what it compares.
        delivery: Seconds from the order until parts are there, by maker or catalogue name, in small letters.
    """

    base: Draft
    keys: tuple[str, ...]
    values: tuple[tuple[Node, ...], ...]
    demands: tuple[PlanDemand, ...]
    delivery: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def size(self) -> int:
        """Number of points."""
        return math.prod(map(len, self.values))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Keys in the order in which they are set: what lies below another key after it."""
        return tuple(sorted(range(len(self.keys)), key=lambda at: len(override.full_path(self.keys[at]))))

    def place(self, point: int) -> tuple[int, ...]:
        """The value of each key, by its number; the last key runs fastest."""
        found = []
        for values in reversed(self.values):
            point, at = divmod(point, len(values))
            found.append(at)
        return tuple(reversed(found))

    def delivery_s(self, names: Iterable[str], lead_s: Mapping[str, float]) -> float:
        """Seconds from the order until the last of some parts is there; the plan's times override the catalogue's."""
        asked = [self.delivery.get(name.lower(), 0.0) for name in names]
        return max([*asked, *(found for name, found in lead_s.items() if name.lower() not in self.delivery)], default=0)

    def number(self, place: Sequence[int]) -> int:
        """The point with these values, by the number of each; what `place` gives of it."""
        found = 0
        for values, at in zip(self.values, place, strict=True):
            found = found * len(values) + at
        return found

    def settings(self, point: int) -> dict[str, Any]:
        """Keys and plain values of a point."""
        return {
            key: values[at].plain() for key, values, at in zip(self.keys, self.values, self.place(point), strict=True)
        }

    def name(self, point: int, twins: Sequence[int] = ()) -> str:
        """Name of a point in tables; values by which `twins` differ from it make no difference."""
        words = []
        chosen = zip(*(self.place(one) for one in (point, *twins)), strict=True)
        for key, values, places in zip(self.keys, self.values, chosen, strict=True):
            same = [_words(key, values[at].plain()) for at in dict.fromkeys(places)]
            words.append(same[0] if len(same) == 1 else _any_of(key, same, of=len(values)))
        return ", ".join(words) or self.base.scenario.name

    def but(self, point: int, head: str) -> tuple[int, ...]:
        """The place of a point without keys that begin with a word."""
        places = zip(self.keys, self.place(point), strict=True)
        return tuple(at for key, at in places if override.full_path(key)[0] != head)

    def draft(self, point: int, demand: int) -> Draft:
        """The scenario of a point under a demand.

        Raises:
            InputError: It is no valid scenario.
        """
        place = self.place(point)
        changes = {self.keys[at]: self.values[at][place[at]] for at in self._order}
        for key, node in self.demands[demand].changes.items():
            changes.pop(key, None)
            changes[key] = node
        return self.base.changed(changes)

    def part(self, point: int, demand: int, heads: frozenset[str]) -> tuple[object, ...]:
        """What a point has under keys that begin with some words: equal where the same is described."""
        place = self.place(point)
        mine = [(number, place[number]) for number, key in enumerate(self.keys) if override.full_path(key)[0] in heads]
        touched = any(override.full_path(key)[0] in heads for key in self.demands[demand].changes)
        return (*mine, demand if touched else -1)


def space_of(draft: Draft) -> DesignSpace:
    """The space of a scenario's plan.

    Raises:
        InputError: It is empty, has no end, or a key is no key of a scenario.
    """
    section = draft.scenario.plan
    tree = draft.tree.value.get("plan")
    if section is None or tree is None or not (section.space or section.stages):
        raise draft.blame(_nothing(section))
    if not section.space:
        raise draft.blame(
            InputError("this plan is of stages: `railyard plan serving` looks for their deployment", key="plan.stages")
        )
    listed = tree.value["space"].value
    keys = tuple(section.space)
    values = tuple(_values(key, listed[key]) for key in keys)
    _refuse_twins(tree.value["space"], keys)
    for key, nodes in zip(keys, values, strict=True):
        load.refuse_twins(key, nodes)
        if override.full_path(key)[0] in _NO_DESIGN:
            problem = (
                tree.value["space"]
                .place_of(key)
                .problem(f"`{key}` does not change the design", key=f"plan.space.{key}")
            )
            raise InputError.many([problem])
    base = _base(draft)
    delivery = {name.lower(): seconds for name, seconds in section.delivery.items()}
    return DesignSpace(base, keys, values, _demands(draft, section, keys), delivery)


def one_design(draft: Draft) -> DesignSpace:
    """The space of a scenario as it is, under the demands of its plan."""
    section = draft.scenario.plan
    demands = (PlanDemand(draft.scenario.name, {}, 1.0),) if section is None else _demands(draft, section, ())
    return DesignSpace(_base(draft), (), (), demands)


def _base(draft: Draft) -> Draft:
    return load.without_compare(draft).changed({"plan": from_plain(None, Mark("plan"))})


def _nothing(section: PlanSection | None) -> InputError:
    if section is None:
        hint = "write for example `plan: {space: {fabric: [roce, uec]}, objectives: [cpmt]}`"
        return InputError("there is nothing to plan: the scenario has no `plan`", key="plan", hint=hint)
    return InputError(
        "the space is empty: no key has values", key="plan.space", hint="write for example `fabric: [roce, uec]`"
    )


def _demands(draft: Draft, section: PlanSection, keys: Sequence[str]) -> tuple[PlanDemand, ...]:
    if not section.demand:
        return (PlanDemand(draft.scenario.name, {}, 1.0),)
    names = [one.name for one in section.demand]
    if len(set(names)) < len(names):
        raise draft.blame(InputError("two demands have the same name", key="plan.demand"))
    total = math.fsum(one.weight for one in section.demand)
    nodes = draft.tree.value["plan"].value["demand"].value
    changes = [dict(node.value["set"].value) if "set" in node.value else {} for node in nodes]
    chosen = {override.full_path(key): key for key in keys}
    for one, these in zip(section.demand, changes, strict=True):
        for key, node in these.items():
            if override.full_path(key) in chosen:
                text = f"the demand `{one.name}` sets `{key}`, which the space varies"
                raise InputError.many([node.problem(text, key="plan.demand", hint="leave it out of one of them")])
    return tuple(
        PlanDemand(one.name, these, one.weight / total) for one, these in zip(section.demand, changes, strict=True)
    )


def _refuse_twins(node: Node, keys: Sequence[str]) -> None:
    """A short name and the key that it stands for would set the same thing twice.

    Raises:
        InputError: Two keys are one.
    """
    seen: dict[tuple[str, ...], str] = {}
    for key in keys:
        path = override.full_path(key)
        if path in seen:
            raise InputError.many([node.place_of(key).problem(f"`{key}` and `{seen[path]}` are the same key", key=key)])
        seen[path] = key


def _values(key: str, node: Node) -> tuple[Node, ...]:
    if node.items is not None:
        if override.full_path(key) == _POOLS:
            return _layouts(key, node)
        if not node.items:
            raise InputError.many(
                [node.problem("there are no values", key=f"plan.space.{key}", allowed="at least one")]
            )
        return tuple(node.items)
    return tuple(from_plain(value, node.mark) for value in _ranged(key, node))


def _layouts(key: str, node: Node) -> tuple[Node, ...]:
    """The layouts of a service, each with every combination of the lists in it.

    Raises:
        InputError: There are none, or too many.
    """
    count = sum(_combinations(item) for item in node.items or ())
    if not 0 < count <= MOST_VALUES:
        what = "there are no values" if not count else f"the layouts have {count:,} combinations"
        allowed = "at least one" if not count else f"at most {MOST_VALUES:,}"
        raise InputError.many([node.problem(what, key=f"plan.space.{key}", allowed=allowed)])
    return tuple(one for item in node.items or () for one in _laid_out(item))


def _words(key: str, value: Any) -> str:
    return _layout_words(value) if override.full_path(key) == _POOLS else load.name_of({key: value})


def _any_of(key: str, words: Sequence[str], *, of: int) -> str:
    """Values of a key that build the same: `any oversubscription`, `oversubscription 1:1 or 2:1`."""
    name = key.rpartition(".")[2].replace("_", " ")
    rest = [each.removeprefix(f"{name} ") for each in words[1:]]
    return f"any {name}" if len(words) == of else " or ".join((words[0], *rest))


def _layout_words(pools: Mapping[str, Any]) -> str:
    """Pools of a layout with all that is chosen of them: `prefill 6 x tp 2 and decode tp 4`."""
    found = []
    for role, section in pools.items():
        count = [f"{section['replicas']} x"] if "replicas" in section else []
        found.append(" ".join([role, *count, keys_in_words(section, "replicas")]).strip())
    return " and ".join(found)


def keys_in_words(section: Mapping[str, Any], *but: str) -> str:
    """Keys and values of a pool but some: `tp 4 ffn (ep 8)`; what is null is not there."""
    return " ".join(
        f"{key} ({keys_in_words(value)})" if isinstance(value, dict) else f"{key} {value}"
        for key, value in section.items()
        if key not in but and value is not None
    )


def _combinations(node: Node) -> int:
    if node.items is not None:
        return sum(map(_combinations, node.items))
    return math.prod(map(_combinations, node.value.values())) if isinstance(node.value, dict) else 1


def _laid_out(node: Node) -> Iterator[Node]:
    """Every combination of the lists in a layout of pools, such as `{both: {tp: [2, 4, 8]}}`."""
    if node.items is not None:
        for item in node.items:
            yield from _laid_out(item)
    elif isinstance(node.value, dict):
        keys, each = list(node.value), [list(_laid_out(child)) for child in node.value.values()]
        for chosen in itertools.product(*each):
            yield dataclasses.replace(node, value=dict(zip(keys, chosen, strict=True)))
    else:
        yield node


def _ranged(key: str, node: Node) -> list[float | int | str]:
    """Values of a range, in its unit.

    Raises:
        InputError: It has no end, no step, or too many values.
    """
    ends = {name: child.plain() for name, child in node.value.items()}

    def wrong(message: str, **more: Any) -> InputError:
        return InputError.many([node.problem(message, key=f"plan.space.{key}", **more)])

    example = "such as {from: 1024, to: 8192, factor: 2}"
    if ends.get("to") is None:
        raise wrong("the range is endless: it has no `to`", allowed=example)
    low, high, unit = _ends(ends["from"], ends["to"], wrong)
    step, factor = ends.get("step"), ends.get("factor")
    if (step is None) == (factor is None):
        raise wrong("a range has either a `step` or a `factor`", allowed=example)
    if factor is not None:
        if not factor > 1 or low <= 0:
            raise wrong("the range is endless: its factor must exceed 1, and its start 0", found=str(factor))
        count = math.floor(math.log(high / low) / math.log(factor) + 1e-9) + 1
    else:
        step, also = _number(step, wrong)
        if not step > 0:
            raise wrong("the range is endless: its step must exceed 0", found=str(step))
        if also not in ("", unit):
            raise wrong("a range has one unit", found=f"{unit or 'none'} and {also}")
        count = math.floor((high - low) / step + 1e-9) + 1
    if count > MOST_VALUES:
        raise wrong(f"the range has {count:,} values", allowed=f"at most {MOST_VALUES:,}")
    numbers = [low * factor**n if factor is not None else low + n * float(step or 0) for n in range(count)]
    return [_written(number, unit) for number in numbers]


def _ends(start: object, to: object, wrong: Any) -> tuple[float, float, str]:
    (low, one), (high, other) = _number(start, wrong), _number(to, wrong)
    if one != other:
        raise wrong("a range has one unit", found=f"{one or 'none'} and {other or 'none'}")
    if not math.isfinite(low) or not math.isfinite(high):
        raise wrong("the range is endless: both ends must be finite", found=str(to))
    if high < low:
        raise wrong("a range goes from the smaller value to the larger", found=f"{start} to {to}")
    return low, high, one


def _number(value: object, wrong: Any) -> tuple[float, str]:
    """A number and its unit; a dollar sign is one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong("expected a number, with its unit where it has one", found=str(value))
    return float(found[2]), found[1] + found[3]


def _written(number: float, unit: str) -> float | int | str:
    rounded = float(f"{number:.12g}")
    plain: float | int = int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded
    if not unit:
        return plain
    return f"${plain}{unit[1:]}" if unit.startswith("$") else f"{plain} {unit}"
