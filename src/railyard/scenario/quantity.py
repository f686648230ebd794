"""Field types of a scenario: quantities that are written with their unit, and plain values that are taken strictly.

A quantity is read by `railyard.units` and kept in its base unit; written back it is text again, and reading that text
gives the same number to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from railyard import units

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 64
_INT64 = 2**63 - 1
_READABLE = 1e6


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity.

    Attributes:
        kind: What it is, as the JSON schema describes it.
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
        """The value in the base unit, or pydantic's kind of error with the words of `railyard.units`."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            words = {"kind": self.kind, "example": self.example}
            raise PydanticCustomError("unit", "{kind} is due here: write for example `{example}`", words)
        if isinstance(value, str) and len(value) > _LONGEST:
            raise PydanticCustomError("unit", "this is too long for {kind}", {"kind": self.kind})
        try:
            number = self.parse(value)
        except units.UnitError as error:
            problem = error.problems[0]
            raise PydanticCustomError(
                "unit", "{words}", {"words": problem.message, "allowed": problem.allowed, "hint": problem.hint}
            ) from None
        except (ArithmeticError, ValueError):
            raise PydanticCustomError("unit", "cannot read a number in this") from None
        if not number <= self.most:
            raise PydanticCustomError(
                "unit", "{kind} of more than {most} is not taken", {"kind": self.kind, "most": self.show(self.most)}
            )
        return number

    def write(self, value: float) -> str | float:
        """Text, or a bare number where one is right, that `read` takes back to the same number."""
        if self.bare and value < _READABLE:
            return int(value) if value == int(value) else value
        text = self.show(value)
        if self.read(text) == value:
            return text
        return f"{value!r} {self.base}".strip()

    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        kinds = ["string", "number"] if self.bare else ["string"]
        return {"type": kinds if self.bare else "string", "description": self.kind, "examples": [self.example]}


def field_type(quantity: Quantity, base: type) -> Any:
    """The quantity as a type for a pydantic field."""
    return Annotated[
        base,
        BeforeValidator(quantity.read),
        PlainSerializer(quantity.write, return_type=Any),
        WithJsonSchema(quantity.schema()),
    ]


def _money(text: str) -> Callable[[float], str]:
    return lambda value: f"{units.format_money(value)}{text}"


def _years(value: float) -> str:
    return f"{value:.12g} years"


def _hertz(value: float) -> str:
    return f"{value:.12g} Hz"


def _span(value: float) -> str:
    return f"{value / 3600:.12g} h" if value >= 3600 and value % 3600 == 0 else units.format_time(value * 1e12)


def _ratio(value: float) -> str:
    return f"{value:.12g}"


RATE = Quantity("a data rate", "400 Gb/s", units.rate, units.format_rate, "b/s", 1e18)
SIZE = Quantity("a size", "80 GiB", units.size, units.format_size, "B", _INT64)
TIME = Quantity("a time", "2 us", units.time, units.format_time, "ps", _INT64)
SPAN = Quantity("a span of time", "30 min", units.seconds, _span, "s", 1e12)
POWER = Quantity("a power", "700 W", units.power, units.format_power, "W", 1e12)
FLOPS = Quantity("a compute rate, dense", "989 TFLOP/s", units.flops, units.format_flops, "FLOP/s", 1e21)
LENGTH = Quantity("a length", "30 m", units.length, units.format_length, "m", 1e9)
FREQUENCY = Quantity("a frequency", "1.83 GHz", units.frequency, _hertz, "Hz", 1e15)
YEARS = Quantity("a span in years", "4 years", units.years, _years, "years", 100.0)
COUNT = Quantity("a count", "15 T", units.count, units.format_count, "", 2.0**53, bare=True)
RATIO = Quantity("a ratio", "95 %", units.ratio, _ratio, "", 1e6, bare=True)
MONEY = Quantity("an amount of money", "$30k", units.money, _money(""), "USD", 1e15)
MONEY_RATE = Quantity("a price of time", "$2.10/h", units.money_rate, _money("/h"), "USD/h", 1e12)
ENERGY_PRICE = Quantity("a price of energy", "$0.08/kWh", units.energy_price, _money("/kWh"), "USD/kWh", 1e6)
STORAGE_PRICE = Quantity("a price of storage", "$120/TB", units.storage_price, _money("/TB"), "USD/TB", 1e9)
SPACE_PRICE = Quantity("a price of space", "$180/kW-month", units.space_price, _money("/kW-month"), "USD/kW-month", 1e9)

if TYPE_CHECKING:
    Rate = Annotated[float, RATE]
    Size = Annotated[int, SIZE]
    Time = Annotated[int, TIME]
    Span = Annotated[float, SPAN]
    Power = Annotated[float, POWER]
    Flops = Annotated[float, FLOPS]
    Length = Annotated[float, LENGTH]
    Frequency = Annotated[float, FREQUENCY]
    Years = Annotated[float, YEARS]
    Count = Annotated[int, COUNT]
    Ratio = Annotated[float, RATIO]
    Money = Annotated[float, MONEY]
    MoneyRate = Annotated[float, MONEY_RATE]
    EnergyPrice = Annotated[float, ENERGY_PRICE]
    StoragePrice = Annotated[float, STORAGE_PRICE]
    SpacePrice = Annotated[float, SPACE_PRICE]
else:
    Rate = field_type(RATE, float)
    Size = field_type(SIZE, int)
    Time = field_type(TIME, int)
    Span = field_type(SPAN, float)
    Power = field_type(POWER, float)
    Flops = field_type(FLOPS, float)
    Length = field_type(LENGTH, float)
    Frequency = field_type(FREQUENCY, float)
    Years = field_type(YEARS, float)
    Count = field_type(COUNT, int)
    Ratio = field_type(RATIO, float)
    Money = field_type(MONEY, float)
    MoneyRate = field_type(MONEY_RATE, float)
    EnergyPrice = field_type(ENERGY_PRICE, float)
    StoragePrice = field_type(STORAGE_PRICE, float)
    SpacePrice = field_type(SPACE_PRICE, float)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("text", "this holds characters that cannot be printed")
    return text


#: Strict plain values: pydantic's lax mode would take `true` for 1 and "12" for 12.
Whole = Annotated[int, Strict(), Field(ge=-_INT64, le=_INT64)]
Positive = Annotated[int, Strict(), Field(ge=1, le=2**31 - 1)]
Natural = Annotated[int, Strict(), Field(ge=0, le=2**31 - 1)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict(), StringConstraints(min_length=1, max_length=200), AfterValidator(_printable)]
Value = Any
