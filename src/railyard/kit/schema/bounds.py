"""The range of a number: outside it cannot exist and is refused; outside the usual part of it a warning says so.

A range is declared with the key that it belongs to: on the `FieldRecord` or the field of a record, or in the type of a
scenario's key. Reader, JSON schema, reference page and forms take it from there.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from railyard.kit import quantities
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def integer(value: object) -> int:
    """An integer, zero or more.

    Raises:
        UnitError: A fraction, a negative number or no number.
    """
    return quantities.count(value)


def fraction(value: object) -> float:
    """A share, from `87 %` or 0.87.

    Raises:
        UnitError: Outside 0 to 1, or no ratio.
    """
    number = quantities.ratio(value)
    if not 0.0 <= number <= 1.0:
        raise quantities.UnitError(f"`{value}` is not a share", found=value, allowed="0 to 100 %")
    return number


@dataclass(frozen=True)
class Provenance:
    """Origin of a number.

    Attributes:
        value_text: The value as the file writes it, with its unit.
        source: Who says so.
        confidence: `vendor` (the maker's own figure), `measured`, `estimated` (derived, remembered or guessed: override
            it when you know better), or `user` (a value of the user's own file that gives no source).
    """

    value_text: str
    source: str
    year: int
    confidence: str


METADATA_KEY = "bounds"


def _plain(value: float) -> str:
    return f"{round(value):,}" if value == round(value) else f"{value:.12g}"


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of a number, in the base unit of its key.

    Attributes:
        low: The least value.
        above: What it must be more than; with it, `low` is unused.
        high: The largest value.
        below: What it must be less than; with it, `high` is unused.
        usual: Least and largest value without a warning; None: every allowed value is usual.
        source: Where the usual values come from.
        show: A limit as text with its unit.
        quantity: What the number is (`schema.quantity`), for a field whose name has no suffix of a unit.
    """

    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None
    usual: tuple[float, float] | None = None
    source: str = ""
    show: Callable[[Any], str] = _plain
    quantity: Any = None

    def __post_init__(self) -> None:
        if self.usual is not None and not self.source:
            raise ValueError("usual values need a source")

    def check(self, value: float) -> None:
        """Refuses a value outside.

        Raises:
            InputError: With what is allowed.
        """
        fault = self.fault(value)
        if fault is not None:
            raise InputError(fault, allowed=self.words())

    def holds(self, value: float) -> bool:
        """Whether the value is inside."""
        return self.fault(value) is None

    def unusual(self, value: float) -> str | None:
        """Remark on an allowed but unusual value; None for others."""
        if self.usual is None or self.usual[0] <= value <= self.usual[1]:
            return None
        low, high = (self.show(end) for end in self.usual)
        return f"{self.show(value)} is unusual; usual is {low} to {high} ({self.source})"

    def words(self) -> str:
        """The limits in words, such as `64 B to 64 KiB`, or `more than 0, at most 1`."""
        if self.above is self.below is None and self.low is not None and self.high is not None:
            return f"{self.show(self.low)} to {self.show(self.high)}"
        least = f"more than {self.show(self.above)}" if self.above is not None else ""
        most = f"less than {self.show(self.below)}" if self.below is not None else ""
        least = least or ("" if self.low is None else f"at least {self.show(self.low)}")
        most = most or ("" if self.high is None else f"at most {self.show(self.high)}")
        return ", ".join(end for end in (least, most) if end)

    def schema(self) -> dict[str, Any]:
        """Keywords for a JSON schema: `range` in words, and `usual` with its `source`."""
        usual = {} if self.usual is None else {"usual": [self.show(end) for end in self.usual], "source": self.source}
        return {"range": self.words(), **usual}

    def numeric_schema(self) -> dict[str, float]:
        """The limits of a bare number as keywords of JSON schema."""
        ends = {
            "minimum": self.low if self.above is None else None,
            "exclusiveMinimum": self.above,
            "maximum": self.high if self.below is None else None,
            "exclusiveMaximum": self.below,
        }
        return {name: end for name, end in ends.items() if end is not None}

    def fault(self, value: float) -> str | None:
        """Message about a value out of bounds; None for others."""
        if self.above is not None and not value > self.above:
            return f"must be more than {self.show(self.above)}"
        if self.below is not None and not value < self.below:
            return f"must be less than {self.show(self.below)}"
        if self.above is None and self.low is not None and not value >= self.low:
            return f"must be at least {self.show(self.low)}"
        if self.below is None and self.high is not None and not value <= self.high:
            return f"must be at most {self.show(self.high)}"
        return None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Checks a key of a section after its quantity was read."""
        from pydantic_core import PydanticCustomError, core_schema

        def checked(value: Any) -> Any:
            fault = self.fault(value)
            if fault is not None:
                raise PydanticCustomError("bounds", "{words}", {"words": fault, "allowed": self.words()})
            return value

        return core_schema.no_info_after_validator_function(checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Adds the limits to the key's JSON schema."""
        found = dict(handler(schema))
        bare = "integer" in found.get("type", "") or "number" in found.get("type", "")
        return {**found, **(self.numeric_schema() if bare else {}), **self.schema()}


def limits(low: float, high: float, *, usual: tuple[float, float] | None = None, source: str = "") -> Bounds:
    """Limits from `low` to `high`, plain numbers, both allowed."""
    return Bounds(low=low, high=high, usual=usual, source=source)


def more_than(above: float, high: float) -> Bounds:
    """Above `above` and at most `high`, plain numbers."""
    return Bounds(above=above, high=high)


#: A share that is there: 0 would divide by nothing.
SOME_SHARE = more_than(0.0, 1.0)
SHARE = limits(0.0, 1.0)
WIDTHS = limits(1, 32)
#: Of things of which there is at least one.
COUNTED = limits(1, 2**31 - 1)
PORTS = limits(1, 100_000)
OVERSUBSCRIPTION = limits(0.001, 1000.0, usual=(0.25, 32.0), source="published fabrics: 1:1 to 8:1, front-ends to 20:1")


def bounded(bounds: Bounds) -> Mapping[str, Bounds]:
    """Metadata of a record's field, `zero: int = field(default=1, metadata=bounded(limits(0, 3)))`."""
    return {METADATA_KEY: bounds}


def out_of_range(record: Any) -> list[tuple[str, str, str, str]]:
    """Message, field, found and allowed for each value of a record that the bounds of its field refuse."""
    found = []
    for one in fields(record):
        bounds, value = one.metadata.get(METADATA_KEY), getattr(record, one.name)
        if bounds is not None and (fault := bounds.fault(value)):
            found.append((fault, one.name, bounds.show(value), bounds.words()))
    return found


class CheckedRecord:
    """A record that knows what is wrong with its values."""

    def problems(self) -> list[tuple[str, str, str, str]]:
        """Message, field, found and allowed for each wrong value: those out of range."""
        return out_of_range(self)
