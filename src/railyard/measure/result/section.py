"""Base of every section of a result: frozen records of finite numbers, shares, counts and bands."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence


Leaf = bool | int | float | str | None

LONG = 16
"""A list of more plain values is one leaf: how many, and their fingerprint."""

EIGHT_OF_TEN = 1.2816
"""Standard deviations of a normal distribution within which eight of ten draws lie, as values in a band do."""

NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")

_CALLED: tuple[tuple[str, ...], ...] = (
    ("name",),
    ("variant",),
    ("cause", "group", "phase"),
    ("item", "field"),
    ("group", "kind", "ranks", "size_bytes"),
    ("figure",),
    ("parameter",),
    ("resource",),
    ("factor",),
    ("choice", "part"),
    ("pool",),
    ("role",),
    ("stage",),
    ("job",),
    ("key",),
    ("what",),
    ("what", "at_s"),
    ("rank", "stream"),
    ("label",),
)
"""Keys that identify the rows of a list: the first of these that all rows have and no two rows share."""


def flatten(value: Any, path: str = "", left_out: Collection[str] = ()) -> Iterator[tuple[str, Leaf]]:
    """Every leaf below a value with its path, such as `step.seconds`.

    Args:
        value: Of a JSON document.
        path: Of the value itself.
        left_out: Keys that are passed over, wherever they stand.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in left_out:
                yield from flatten(inner, f"{path}.{key}" if path else str(key), left_out)
    elif isinstance(value, list):
        yield from _listed(value, path, left_out)
    else:
        yield path, value if isinstance(value, Leaf) else str(value)


def _listed(values: Sequence[Any], path: str, left_out: Collection[str]) -> Iterator[tuple[str, Leaf]]:
    if not values:
        yield path, "empty list"
    elif len(values) > LONG and not any(isinstance(value, dict | list) for value in values):
        yield path, f"{len(values)} values {fingerprint(json.dumps(values).encode())}"
    else:
        for name, inner in zip(names(values), values, strict=True):
            yield from flatten(inner, f"{path}[{name}]", left_out)


def names(rows: Sequence[Any]) -> list[str]:
    """Distinct names of the rows of a list; their numbers if they have no names."""
    for keys in _CALLED:
        if _have(rows, keys):
            found = [", ".join(str(row[key]) for key in keys if row[key] != "") for row in rows]
            if len(set(found)) == len(found):
                return found
    return [str(number) for number in range(len(rows))]


def _have(rows: Sequence[Any], keys: Sequence[str]) -> bool:
    """Whether all rows have these keys; fractions distinguish rows of one name but are not a name themselves."""
    allowed = {key: str | int | float if key != keys[0] else str | int for key in keys}
    return all(isinstance(row, dict) and all(isinstance(row.get(key), allowed[key]) for key in keys) for row in rows)


def fingerprint(data: bytes) -> str:
    """SHA-256 of bytes, shortened."""
    return "sha256:" + hashlib.sha256(data).hexdigest()[:32]


def same(old: object, new: object) -> bool:
    """Whether two values are equal to the last digit; 1 and 1.0 are, 1 and True are not, NaN is NaN."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    return old == new or (old != old and new != new)  # noqa: PLR0124 - only NaN differs from itself


def near(old: object, new: object, within: float) -> bool:
    """Whether all numbers of two values differ by no more than a share of themselves; digests may differ."""
    if within == math.inf or "sha256:" in str(old):
        return True
    pairs = [NUMBER.findall(str(value).replace(",", "")) for value in (old, new)]
    return len(pairs[0]) == len(pairs[1]) and all(a == b or _close(a, b, within) for a, b in zip(*pairs, strict=True))


def _close(old: str, new: str, share: float) -> bool:
    """Whether two numbers in words are near one another; what is no number, such as 0.8.0, is not."""
    try:
        return math.isclose(float(old), float(new), rel_tol=share)
    except ValueError:
        return False


def reworded(old: object, new: object) -> bool:
    """Whether two values are prose with the same numbers in other words."""
    prose = isinstance(old, str) and isinstance(new, str) and " " in old and " " in new and "sha256:" not in old
    return prose and NUMBER.findall(str(old)) == NUMBER.findall(str(new))


def missing(old: Mapping[str, Leaf], new: Mapping[str, Leaf]) -> list[str]:
    """Parts that only the first has: whole sections by their own path if the second has nothing of them."""
    known = {prefix for path in new for prefix in _prefixes(path)}
    found = (next((prefix for prefix in _prefixes(path) if prefix not in known), None) for path in old)
    return list(dict.fromkeys(prefix for prefix in found if prefix is not None))


def _prefixes(path: str) -> Iterator[str]:
    """A path's sections from the outermost on, itself last; names in brackets may hold dots."""
    depth = 0
    for at, letter in enumerate(path):
        depth += (letter == "[") - (letter == "]")
        if (depth, letter) in ((0, "."), (1, "[")) and at:
            yield path[:at]
    yield path


SAME = 1e-6
"""Relative difference of two figures that are the same."""

Share = Annotated[float, Field(ge=-SAME, le=1 + SAME)]
"""A share from 0 to 1."""
Count = Annotated[int, Field(ge=0)]
Number = int | float
"""A figure that is counted on some paths and computed on others; it is written as it came."""
Values = dict[str, object]
"""Settings and scenarios: whatever the document holds."""


class Figures(BaseModel):
    """A part of a result: exactly these keys. A key with a default is absent where nothing was said for it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    def plain(self) -> dict[str, Any]:
        """The section as JSON values, without keys that were never set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    def text(self) -> str:
        """The section as the text of a file."""
        return json.dumps(self.plain(), ensure_ascii=False, allow_nan=False)

    def __getitem__(self, key: str) -> Any:
        """The value of `result.json` under a key: a path into the file is the same path into the object.

        Raises:
            KeyError: There is no such key.
        """
        return self.plain()[key]


@dataclass(frozen=True)
class KeyFigure:
    """A figure at the head of the page.

    Attributes:
        value: The figure with its unit.
        band: Its range, and of what; empty if it is not known.
    """

    name: str
    value: str
    band: str = ""


Lists = tuple[tuple[str, tuple[str, ...]], ...]
"""Titles of the first screen, each with its sentences."""


class AnswerDocument(Figures, ABC):
    """The document of a command other than `run`: what its first screen says in words."""

    @abstractmethod
    def sentence(self) -> str:
        """The answer in one sentence."""

    def key_figures(self) -> tuple[KeyFigure, ...]:
        """The figures at the head of the page."""
        return ()

    def lists(self) -> Lists:
        """Sentences that belong to the decision, below titles."""
        return ()


class Band(Figures):
    """A figure with every assumption at its low-cost, middle and high-cost value."""

    low: float = Field(description="every assumption at its low-cost end")
    typical: float = Field(description="every assumption typical")
    high: float = Field(description="every assumption at its high-cost end")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        slack = SAME * max(abs(self.high), 1.0)
        if not (self.low <= self.typical + slack and self.typical <= self.high + slack):
            raise ValueError(f"low, typical and high are not in order: {self.low}, {self.typical}, {self.high}")
        return self

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low, self.typical, self.high

    def mapped(self, change: Callable[[float], float]) -> Band:
        """The band of what follows from each end by itself."""
        low, typical, high = map(change, self.ends)
        return Band(low=low, typical=typical, high=high)


class NamedBand(Figures):
    """One part of a figure that has a band."""

    name: str = Field(description="of the part")
    low: float = Field(description="every assumption at its low-cost end")
    typical: float = Field(description="every assumption typical")
    high: float = Field(description="every assumption at its high-cost end")

    @property
    def ends(self) -> tuple[float, float, float]:
        """Low, typical and high."""
        return self.low, self.typical, self.high


def require_equal(what: str, found: float, expected: float) -> None:
    """Two figures are the same but for rounding.

    Raises:
        ValueError: They are not.
    """
    if abs(found - expected) > SAME * max(abs(expected), abs(found)):
        raise ValueError(f"{what}: expected {expected}, got {found}")


def require_sum(parts: Iterable[tuple[float, float, float]], total: Band) -> None:
    """Parts add up to their total at each end.

    Raises:
        ValueError: They do not.
    """
    columns = list(zip(*parts, strict=True))
    for end, column, expected in zip(("low", "typical", "high"), columns, total.ends, strict=True):
        require_equal(f"the parts do not add up to the total at the {end} end", math.fsum(column), expected)


class SourceRow(Figures):
    """The origin of one number."""

    item: str = Field(description="what it belongs to: `h100-sxm`, `cost of capital`")
    field: str = Field(description="which number of it")
    value: str = Field(description="as written, with its unit")
    source: str = Field(description="who says so")
    year: int | str = Field(description="of the source; empty where none is named")
    confidence: str = Field(description="vendor, measured, estimated, published or user")


class ProvenanceFigures(Figures):
    """Provenance of a result."""

    version: str = Field(description="of Railyard")
    engine: str = Field(description="that ran the work")
    seed: int = Field(description="of every random choice")
    digest: str = Field(description="fingerprint of the first variant's run")
    created: str | None = Field(
        default=None,
        description="date and time, UTC; absent where a run that was killed and goes on gives the same bytes",
    )
    sources: tuple[SourceRow, ...] = Field(description="of prices, powers and rates")
    left_out: tuple[str, ...] = Field(description="what engine and model leave out")
    defaults: tuple[str, ...] = Field(description="what was chosen because the document did not say")
