"""Field types of a scenario: quantities that are written with their unit, and plain values that are taken strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from railyard.kit.errors import InputError
from railyard.kit.schema.quantity import (
    COUNT,
    ENERGY_PRICE,
    FLOPS,
    FREQUENCY,
    LENGTH,
    LINK_RATE,
    LOSS,
    MONEY,
    MONEY_RATE,
    POWER,
    RATE,
    RATIO,
    SIZE,
    SPACE_PRICE,
    SPAN,
    STORAGE_PRICE,
    TIME,
    YEARS,
    Quantity,
    limits,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _reader(quantity: Quantity) -> Callable[[object], float]:
    def read(value: object) -> float:
        try:
            return quantity.read(value)
        except InputError as error:
            problem = error.problems[0]
            words = {"words": problem.message, "allowed": problem.allowed, "hint": problem.hint}
            raise PydanticCustomError("unit", "{words}", words) from None

    return read


def _schema(quantity: Quantity) -> dict[str, Any]:
    kinds = ["string", "number"] if quantity.bare else "string"
    most = f"at most {quantity.say(quantity.most)}"
    return {
        "type": kinds,
        "description": quantity.kind,
        "quantity": quantity.kind,
        "examples": [quantity.example],
        "range": most,
    }


def field_type(quantity: Quantity, base: type) -> Any:
    """The quantity as a type for a pydantic field."""
    return Annotated[
        base,
        BeforeValidator(_reader(quantity)),
        PlainSerializer(quantity.write, return_type=Any),
        WithJsonSchema(_schema(quantity)),
    ]


if TYPE_CHECKING:
    Rate = Annotated[float, RATE]
    Size = Annotated[int, SIZE]
    Time = Annotated[int, TIME]
    Span = Annotated[float, SPAN]
    Power = Annotated[float, POWER]
    Flops = Annotated[float, FLOPS]
    Length = Annotated[float, LENGTH]
    Loss = Annotated[float, LOSS]
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
    Loss = field_type(LOSS, float)
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
        raise PydanticCustomError("text", "this has unprintable characters")
    return text


#: Strict plain values: pydantic's lax mode would take `true` for 1 and "12" for 12.
Whole = Annotated[int, Strict()]
Positive = Annotated[Whole, limits(1, 2**31 - 1)]
Natural = Annotated[Whole, limits(0, 2**31 - 1)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict(), StringConstraints(min_length=1, max_length=200), AfterValidator(_printable)]
Value = Any
LinkRate = Annotated[Rate, LINK_RATE]

#: Ranges of what must not be zero: something divides by it, or waits for it.
SOME_RATE = RATE.within("1 kb/s", "1000 Pb/s")
SOME_FLOPS = FLOPS.within("1 MFLOP/s", "1000 EFLOP/s")
SOME_SIZE = SIZE.within("1 B", "1 EB")
SOME_TIME = SPAN.within("1 us", "36525 d")
SOME_PS = TIME.within("1 ns", "100 d")
