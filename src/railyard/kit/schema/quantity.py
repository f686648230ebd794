"""Numbers with units in schemas: how each kind of quantity is written and read, and the range a number may have.

A range is declared with the key that it belongs to: on the `FieldRecord` or the field of a record, or in the type of a
scenario's key. Reader, JSON schema, reference page and forms take it from there.

Fields of records and of a scenario take reader and example from here. What `write` gives, `read` takes back to the same
number, to the last bit.
"""

from __future__ import annotations

import math
import re
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


_LONGEST = 64
_INT64 = 2**63 - 1
_READABLE = 1e6
_MINUTE_S = 60.0
_SPANS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_THOUSANDS = re.compile(r"(?<![\d.])\d{4,}")


def _long_span(seconds: float) -> str:
    """A span of a minute or more in the largest unit of which it is a whole number, else rounded."""
    for word, unit_s in _SPANS:
        number = seconds / unit_s
        if number > 0.5 and math.isclose(number, round(number), rel_tol=1e-12):
            return f"{round(number)} {word}"
    word, unit_s = next((word, unit_s) for word, unit_s in _SPANS if seconds >= unit_s)
    return f"{seconds / unit_s:.4g} {word}"


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity.

    Attributes:
        kind: What it is, in words.
        example: How it is written.
        parse: Text to base unit.
        show: Base unit to text.
        base: Unit to fall back on where `show` would round.
        most: Largest value that is taken; beyond it arithmetic would overflow and nothing real lies there.
        bare: A number without a unit is right too.
    """

    kind: str
    example: str
    parse: Callable[[object], float]
    show: Callable[[float], str]
    base: str
    most: float
    bare: bool = False

    def read(self, value: object) -> float:
        """The value in the base unit.

        Raises:
            InputError: It is no such quantity, or larger than `most`.
        """
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"expected {self.kind}, such as `{self.example}`")
        if isinstance(value, str) and len(value) > _LONGEST:
            raise InputError(f"expected {self.kind}; the text is too long")
        try:
            number = self.parse(value)
        except (ArithmeticError, ValueError):
            raise InputError(f"expected {self.kind}; no number can be read in this") from None
        if not number <= self.most:
            raise InputError(f"{self.kind} is at most {self.say(self.most)}", allowed=f"at most {self.say(self.most)}")
        return number

    def within(self, low: str, high: str, *, usual: tuple[str, str] | None = None, source: str = "") -> Bounds:
        """The range between two values, both allowed, given as text with units."""
        ends = None if usual is None else (self.parse(usual[0]), self.parse(usual[1]))
        low_high = {"low": self.parse(low), "high": self.parse(high)}
        return Bounds(**low_high, usual=ends, source=source, show=self.say, quantity=self)

    def above(self, low: str, high: str) -> Bounds:
        """The same without the lower value itself."""
        return Bounds(above=self.parse(low), high=self.parse(high), show=self.say, quantity=self)

    def say(self, value: float) -> str:
        """The value as a person writes a limit, such as `0`, `100 d` or `40,000 km`; for messages and pages."""
        if value == 0:
            return "0"
        seconds = {"s": value, "ps": value * 1e-12}.get(self.base, 0.0)
        if seconds >= _MINUTE_S:
            text = _long_span(seconds)
        else:
            text = f"{value:.4g}" if self.bare and value < 1 else self.show(value)
        return _THOUSANDS.sub(lambda digits: f"{int(digits[0]):,}", text)

    def write(self, value: float) -> str | float:
        """Text, or a bare number where one is right, that `read` takes back to the same number."""
        if self.bare and value < _READABLE:
            return int(value) if value == int(value) else value
        text = self.show(value)
        if self.read(text) == value:
            return text
        return f"{value!r} {self.base}".strip()


def _money(text: str) -> Callable[[float], str]:
    return lambda value: f"{quantities.format_money(value)}{text}"


def _years(value: float) -> str:
    months = round(value * 12)
    if value < 1 and math.isclose(months, value * 12, rel_tol=1e-12) and months:
        return f"{months} month{'s' if months > 1 else ''}"
    return f"{value:.12g} years"


def _hertz(value: float) -> str:
    return f"{value:.12g} Hz"


def _span(value: float) -> str:
    return f"{value / 3600:.12g} h" if value >= 3600 and value % 3600 == 0 else quantities.format_time(value * 1e12)


def _ratio(value: float) -> str:
    return f"{value:.12g}"


RATE = Quantity("a data rate", "400 Gb/s", quantities.rate, quantities.format_rate, "b/s", 1e18)
SIZE = Quantity("a size", "80 GiB", quantities.size, quantities.format_size, "B", _INT64)
TIME = Quantity("a time", "2 us", quantities.time, quantities.format_time, "ps", _INT64)
SPAN = Quantity("a span of time", "30 min", quantities.seconds, _span, "s", 1e12)
POWER = Quantity("a power", "700 W", quantities.power, quantities.format_power, "W", 1e12)
FLOPS = Quantity("a compute rate, dense", "989 TFLOP/s", quantities.flops, quantities.format_flops, "FLOP/s", 1e21)
FLOP_PER_J = Quantity(
    "operations of a joule", "0.97 TFLOP/J", quantities.flop_per_j, quantities.format_flop_per_j, "FLOP/J", 1e18
)
LENGTH = Quantity("a length", "30 m", quantities.length, quantities.format_length, "m", 1e9)
LOSS = Quantity("a loss of light", "0.75 dB", quantities.loss, quantities.format_loss, "dB", 1e3)
FIT = Quantity("a failure rate", "1333 FIT", quantities.failure_rate, quantities.format_failure_rate, "FIT", 1e9)
FREQUENCY = Quantity("a frequency", "1.83 GHz", quantities.frequency, _hertz, "Hz", 1e15)
YEARS = Quantity("a span in years", "4 years", quantities.years, _years, "years", 100.0)
COUNT = Quantity("a count", "15 T", quantities.count, quantities.format_count, "", 2.0**53, bare=True)
RATIO = Quantity("a ratio", "95 %", quantities.ratio, _ratio, "", 1e6, bare=True)
MONEY = Quantity("an amount of money", "$30k", quantities.money, _money(""), "USD", 1e15)
MONEY_RATE = Quantity("a price of time", "$2.10/h", quantities.money_rate, _money("/h"), "USD/h", 1e12)
ENERGY_PRICE = Quantity("a price of energy", "$0.08/kWh", quantities.energy_price, _money("/kWh"), "USD/kWh", 1e6)
STORAGE_PRICE = Quantity("a price of storage", "$120/TB", quantities.storage_price, _money("/TB"), "USD/TB", 1e9)
SPACE_PRICE = Quantity(
    "a price of space", "$180/kW-month", quantities.space_price, _money("/kW-month"), "USD/kW-month", 1e9
)

#: What a port or a link can have. Unusual: what no port has been sold with.
LINK_RATE = RATE.within(
    "1 Mb/s", "100 Tb/s", usual=("1 Gb/s", "3.2 Tb/s"), source="Ethernet and InfiniBand ports, 1 Gb/s to 1.6 Tb/s"
)
