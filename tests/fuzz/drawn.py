"""Values drawn from a schema: its numbers with their ranges, and whole sections with any of their keys."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, WithJsonSchema

from railyard.kit.schema import quantity
from railyard.kit.schema.quantity import Bounds, Quantity
from railyard.work.scenario.model import Scenario

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

Step = str | int
Path_ = tuple[Step, ...]
DEEPEST = 12
"""Keys and numbers of items on the way to a place."""
QUANTITIES = {one.kind: one for one in vars(quantity).values() if isinstance(one, Quantity)}
_UNIONS = (typing.Union, types.UnionType)


@dataclass(frozen=True)
class Place:
    """A number of a document that has a range.

    Attributes:
        path: Keys and numbers of items from the root.
        tags: Keys that choose sections on the way, by their paths.
        bounds: The range.
        whole: It is an integer without a unit.
        unit: The kind of quantity that it is written as; None: a bare number.
    """

    path: Path_
    tags: tuple[tuple[Path_, str], ...]
    bounds: Bounds
    whole: bool
    unit: Quantity | None = None

    @property
    def plain(self) -> bool:
        """Whether it is written without a unit."""
        return self.unit is None or self.unit.bare

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
        return self._written(_inside(self.bounds, draw, whole=self.whole))

    def _written(self, value: float) -> Any:
        return _written(value, self.unit, whole=self.whole)


def _inside(limits: Bounds, draw: random.Random, *, whole: bool) -> float:
    low = limits.low if limits.above is None else limits.above * 1.01 + 0.001
    high = limits.high if limits.below is None else limits.below * 0.99
    low, high = low or 0.0, 1e6 if high is None else high
    value = low + (high - low) * draw.random() ** draw.choice((1, 4, 16, 64))
    return min(max(round(value), low), high) if whole else value


def _written(value: float, unit: Quantity | None, *, whole: bool) -> Any:
    if unit is None or unit.bare:
        return int(value) if whole else value
    return unit.show(value)


@dataclass(frozen=True)
class Spot:
    """A key of a document.

    Attributes:
        path: Keys and numbers of items from the root; `name` where the user chooses a key.
        tags: Keys that choose sections on the way, by their paths.
        hint: Its type, with what is annotated to it.
    """

    path: Path_
    tags: tuple[tuple[Path_, str], ...]
    hint: Any


@cache
def spots(model: type[BaseModel] = Scenario) -> tuple[Spot, ...]:
    """Every key, in every section of a document."""
    return tuple(_walk(model, (), (), frozenset()))


@cache
def places(model: type[BaseModel] = Scenario) -> tuple[Place, ...]:
    """Every number with a range, in every section of a document."""
    found = []
    for spot in spots(model):
        for steps, inner, metadata in _parts(spot.hint, ()):
            limits = [item for item in metadata if isinstance(item, Bounds)]
            if limits and inner in (int, float):
                unit = _unit(metadata)
                whole = inner is int and (unit is None or unit.bare)
                found.append(Place((*spot.path, *steps), spot.tags, limits[-1], whole, unit))
    return tuple(found)


def _walk(section: type[BaseModel], path: Path_, tags: Any, above: frozenset[type]) -> Iterator[Spot]:
    for key, hint in keys(section).items():
        yield Spot((*path, key), tags, hint)
        for steps, inner, _ in _parts(hint, ()):
            here = (*path, key, *steps)
            if _is_section(inner) and inner not in above and len(here) < DEEPEST:
                tag = _tag(inner)
                more = () if tag is None else (((*here, tag[0]), tag[1]),)
                yield from _walk(inner, here, (*tags, *more), above | {section})


def keys(section: type[BaseModel]) -> dict[str, Any]:
    """The types of a section's keys, each with what is annotated to it."""
    return {
        field.alias or name: typing.Annotated[(field.annotation, *field.metadata)]
        if field.metadata
        else field.annotation
        for name, field in section.model_fields.items()
    }


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and not typing.get_args(hint) and issubclass(hint, BaseModel)


def _unit(metadata: Sequence[Any]) -> Quantity | None:
    schemas = (item.json_schema for item in metadata if isinstance(item, WithJsonSchema) and item.json_schema)
    return next((QUANTITIES[one["quantity"]] for one in schemas if "quantity" in one), None)


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


@dataclass(frozen=True)
class Drawn:
    """Draws values of types.

    Attributes:
        draw: Where chance comes from.
        texts: Texts by key that documents are known to have, such as names of the catalogue.
    """

    draw: random.Random
    texts: Mapping[str, Sequence[str]]

    def section(self, model: type[BaseModel], depth: int = 0) -> dict[str, Any]:
        """A section with its required keys, and some of the others."""
        share = self.draw.choice((0.0, 0.1, 0.4)) / (1 + depth)
        fields = model.model_fields.values()
        return {
            key: self.value(hint, key, (), depth + 1)
            for (key, hint), field in zip(keys(model).items(), fields, strict=True)
            if field.is_required() or self.draw.random() < share
        }

    def value(self, hint: Any, key: str, metadata: tuple[Any, ...] = (), depth: int = 0) -> Any:
        """A value of a type, as a document has it.

        Args:
            hint: The type.
            key: Of the value; says which texts are known.
            metadata: What is annotated to the type.
            depth: Sections around it.
        """
        origin, parts = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self.value(parts[0], key, (*hint.__metadata__, *metadata), depth)
        if origin in _UNIONS:
            return self.value(self.draw.choice([one for one in parts if one is not type(None)]), key, metadata, depth)
        if origin is tuple:
            return self._list(parts, key, metadata, depth)
        if origin is dict:
            names = self.draw.sample(("one", "two", "three"), self.draw.randint(1, 2))
            return {name: self.value(parts[1], key, (), depth + 1) for name in names}
        return self.section(hint, depth) if _is_section(hint) else self._leaf(hint, key, metadata)

    def _list(self, parts: Any, key: str, metadata: Any, depth: int) -> list[Any]:
        if parts[-1] is not Ellipsis:
            return [self.value(part, key, (), depth + 1) for part in parts]
        least = max((getattr(item, "min_length", None) or 0 for item in metadata), default=0)
        return [self.value(parts[0], key, (), depth + 1) for _ in range(max(least, self.draw.randint(0, 2)))]

    def _leaf(self, hint: Any, key: str, metadata: Any) -> Any:
        if typing.get_origin(hint) is typing.Literal:
            return self.draw.choice(typing.get_args(hint))
        if hint is bool:
            return self.draw.random() < 0.5
        if hint not in (int, float):
            return self.draw.choice(self.texts.get(key) or ("some", "1", "auto"))
        unit = _unit(metadata)
        limits = [item for item in metadata if isinstance(item, Bounds)]
        if not limits and unit is not None and self.draw.random() < 0.5:
            return unit.example
        chosen = limits[-1] if limits else Bounds(low=0.0, high=unit.most if unit else 100.0)
        whole = hint is int and (unit is None or unit.bare)
        return _written(_inside(chosen, self.draw, whole=whole), unit, whole=whole)
