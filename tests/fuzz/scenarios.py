"""Scenarios that are right but for what was changed in them, drawn from the schema: `python -m tests.fuzz.scenarios N`.

A case is one of the small base scenarios with a few keys changed: to a value inside or outside of the key's range, of
another type, or to a key that nobody knows. It has to be read, or refused with file, line, key and what is allowed.
"""

from __future__ import annotations

import random
import sys
import time
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from railyard.errors import InputError
from railyard.scenario import load
from railyard.scenario.model import Scenario
from railyard.scenario.problems import known
from railyard.schema import yaml
from railyard.schema.bounds import Bounds

Step = str | int
BASES: dict[str, dict[str, Any]] = {
    "training": {
        "cluster": {"accelerators": 16, "server": "hgx-h100"},
        "workload": {"training": {"model": "llama-3.2-1b", "global_batch": 16, "sequence": 1024}},
    },
    "serving": {
        "cluster": {"accelerators": 8, "server": "hgx-h100"},
        "workload": {
            "serving": {
                "model": "llama-3-8b",
                "requests": {"synthetic": {"rate": 4, "count": 40, "input": {"mean": 200}, "output": {"mean": 20}}},
                "pools": {"both": {"tp": 1, "replicas": 2}},
            }
        },
    },
}


@dataclass(frozen=True)
class Place:
    """A number of a scenario that has a range.

    Attributes:
        path: Keys and numbers of items from the root.
        tags: Keys that choose sections on the way, by their paths.
        bounds: The range.
        whole: It is an integer without a unit.
        plain: It has no unit.
    """

    path: tuple[Step, ...]
    tags: tuple[tuple[tuple[Step, ...], str], ...]
    bounds: Bounds
    whole: bool
    plain: bool

    @property
    def key(self) -> str:
        """As errors write it."""
        return ".".join(map(str, self.path))

    def outside(self) -> list[Any]:
        """The nearest values outside."""
        limits, found = self.bounds, []
        low, high = limits.low if limits.above is None else limits.above, limits.high
        if limits.above is not None and limits.above >= 0:
            found.append(self._written(limits.above))
        elif low is not None and (low > 0 or self.plain):
            found.append(self._written(low - 1 if self.whole else low * 0.4 if low > 0 else low - 0.01))
        if limits.below is not None:
            found.append(self._written(limits.below))
        elif high is not None:
            found.append(self._written(high + 1 if self.whole else high * 2 + 1e-9))
        return found

    def inside(self, draw: random.Random) -> Any:
        """A value inside, most of them near the low end."""
        limits = self.bounds
        low = limits.low if limits.above is None else limits.above * 1.01 + 0.001
        high = limits.high if limits.below is None else limits.below * 0.99
        low, high = low or 0.0, 1e6 if high is None else high
        value = low + (high - low) * draw.random() ** draw.choice((1, 4, 16, 64))
        return self._written(min(max(round(value), low), high) if self.whole else value)

    def _written(self, value: float) -> Any:
        return self.bounds.show(value) if not self.plain else int(value) if self.whole else value


@cache
def places() -> tuple[Place, ...]:
    """Every number with a range, in every section of a scenario."""
    found: list[Place] = []
    _walk(Scenario, (), (), found, frozenset())
    return tuple(found)


def _walk(section: type[BaseModel], path: Any, tags: Any, found: list[Place], above: frozenset[type]) -> None:
    for name, field in section.model_fields.items():
        key = field.alias or name
        hint = typing.Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        for steps, inner, metadata in _parts(hint, ()):
            here = (*path, key, *steps)
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                if inner not in above and len(here) < 12:
                    tag = _tag(inner)
                    more = () if tag is None else (((*here, tag[0]), tag[1]),)
                    _walk(inner, here, (*tags, *more), found, above | {section})
                continue
            limits = [item for item in metadata if isinstance(item, Bounds)]
            if limits and inner in (int, float):
                plain = not any(letter.isalpha() or letter == "$" for letter in limits[-1].show(2.0))
                found.append(Place(here, tags, limits[-1], inner is int and plain, plain))


def _parts(hint: Any, metadata: tuple[Any, ...]) -> Any:
    """Sections and numbers in a type: steps to them, the type, what is annotated to it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        yield from _parts(parts[0], (*hint.__metadata__, *metadata))
    elif origin is tuple:
        for number, part in enumerate(parts[:1] if parts[-1] is Ellipsis else parts):
            for steps, inner, more in _parts(part, ()):
                yield (number, *steps), inner, more
    elif origin is dict:
        for steps, inner, more in _parts(parts[1], ()):
            yield ("name", *steps), inner, more
    elif parts and origin is not typing.Literal:
        for part in parts:
            yield from _parts(part, metadata)
    else:
        yield (), hint, metadata


def _tag(section: type[BaseModel]) -> tuple[str, str] | None:
    for name, field in section.model_fields.items():
        words = typing.get_args(field.annotation)
        if typing.get_origin(field.annotation) is typing.Literal and field.is_required() and name in {"kind", "name"}:
            return name, words[0]
    return None


def put(root: Any, path: typing.Sequence[Step], value: Any) -> Any:
    """The plain tree with a value at a path; what is missing on the way is made."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(root) if isinstance(root, list) else []
        items += [None] * (step + 1 - len(items))
        items[step] = put(items[step], rest, value)
        return items
    section = dict(root) if isinstance(root, dict) else {}
    section[step] = put(section.get(step), rest, value)
    return section


def document(base: Any, changes: typing.Sequence[tuple[Place, Any]]) -> dict[str, Any]:
    """A base scenario with values at places."""
    root = base
    for place, value in changes:
        for path, word in place.tags:
            root = put(root, path, word)
        root = put(root, place.path, value)
    return dict(root)


def refusal(values: dict[str, Any], file: Path) -> InputError | None:
    """What a scenario file of these values is refused with; None where it is read."""
    file.write_text(yaml.to_text(values), encoding="utf-8")
    try:
        load.load(file)
    except InputError as error:
        return error
    return None


def misplaced(error: InputError, file: Path) -> list[str]:
    """Problems that do not say where they are, or what is wrong there."""
    whole = Path(file).read_text(encoding="utf-8").splitlines()
    return [
        problem.render()
        for problem in error.problems
        if problem.file != str(file) or not problem.line or problem.line > len(whole) or not problem.key
    ]


LONGEST_S = 30.0
"""Of one case on a machine that others use too."""
WRONG: tuple[Any, ...] = ("", "x", True, None, -1, 1e30, [], {}, "1 furlong", "-3 s", float("nan"), [1], {"a": 1})


def case(draw: random.Random) -> tuple[dict[str, Any], list[Place]]:
    """A scenario with one to three changes, and those places whose value is outside its range."""
    name = draw.choice(sorted(BASES))
    root: dict[str, Any] = BASES[name]
    spoilt = []
    for _ in range(draw.randint(1, 3)):
        place = draw.choice([one for one in places() if one.path[0] != "workload" or one.path[1] == name])
        kind = draw.random()
        beyond = place.outside()
        if kind < 0.4 and beyond:
            root = document(root, [(place, draw.choice(beyond))])
            spoilt.append(place)
        elif kind < 0.8:
            root = document(root, [(place, place.inside(draw))])
        elif kind < 0.95:
            root = document(root, [(place, draw.choice(WRONG))])
        else:
            root = put(root, (*place.path[:-1], "no_such_key"), 1)
    return root, spoilt


def campaign(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Reads so many cases.

    Raises:
        AssertionError: One is refused without its place, or read although a value is outside its range.
    """
    draw, file = random.Random(seed), folder / "case.yaml"
    counts = {"read": 0, "refused": 0}
    for _ in range(count):
        values, spoilt = case(draw)
        error = refusal(values, file)
        counts["read" if error is None else "refused"] += 1
        if error is None:
            kept = [place.key for place in spoilt if _still(values, place)]
            assert not kept, f"read with values outside the ranges of {kept}:\n{file.read_text('utf-8')}"
        else:
            wrong = misplaced(error, file)
            assert not wrong, f"{wrong[0]}\n\n{file.read_text('utf-8')}"
            strange = [one.key for one in error.problems if "unknown key" not in one.message and not _known(one.key)]
            assert not strange, f"{strange} are no keys:\n{file.read_text('utf-8')}"
    return counts


def _known(key: str | None) -> bool:
    """Whether the schema knows a key."""
    path = tuple((key or "").split("."))
    return known(path, Scenario) == path


def _still(values: Any, place: Place) -> bool:
    """Whether the value is still there, in a section of the same kind: a later change may have replaced either."""
    same = all(_at(values, path) == word for path, word in place.tags)
    return same and _at(values, place.path) in place.outside()


def _at(values: Any, path: typing.Sequence[Step]) -> Any:
    for step in path:
        held = isinstance(values, dict) and step in values
        if not held and not (isinstance(values, list) and isinstance(step, int) and step < len(values)):
            return None
        values = values[step]
    return values


RUN = {"cluster", "economics", "jitter", "collectives", "recovery", "packet", "faults", "workload"}


def runs(count: int, seed: int, folder: Path) -> dict[str, int]:
    """Runs so many small scenarios that can be read, with one or two values inside their ranges, most of them small.

    Raises:
        AssertionError: One is refused without its place, or takes longer than `LONGEST_S`.
    """
    from railyard.errors import RailyardError
    from railyard.study.study import run

    draw, file = random.Random(seed), folder / "case.yaml"
    counts = {"finished": 0, "refused": 0, "not run": 0}
    while sum(counts.values()) < count:
        name = draw.choice(sorted(BASES))
        asked = [one for one in places() if one.path[0] in RUN and (one.path[0] != "workload" or one.path[1] == name)]
        chosen = [draw.choice(asked) for _ in range(draw.randint(1, 2))]
        values = document(BASES[name], [(place, place.inside(draw)) for place in chosen])
        if refusal(values, file) is not None:
            continue
        begun = time.monotonic()
        try:
            run(load.load(file), searched=False)
            counts["finished"] += 1
        except InputError as error:
            wrong = misplaced(error, file)
            assert not wrong, f"{wrong[0]}\n\n{file.read_text('utf-8')}"
            counts["refused"] += 1
        except RailyardError:
            counts["not run"] += 1
        taken = time.monotonic() - begun
        assert taken < LONGEST_S, f"took {taken:.0f} s:\n{file.read_text('utf-8')}"
    return counts


if __name__ == "__main__":
    import tempfile

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        total = campaign(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, Path(temporary))
    sys.stdout.write(
        f"{total['read']:,} read, {total['refused']:,} refused with their places, {time.monotonic() - begun:.0f} s\n"
    )
