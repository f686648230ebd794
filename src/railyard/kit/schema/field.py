"""The record of one field: its key in a file, how its value is read, in which unit, and what it means.

Entries of the catalogue, topologies and fabrics carry it. The metadata of the dataclass field holds its record, so one
line is the schema, the parser, the documentation and the subject of the tests; the default is the field's own.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from railyard.kit import quantities
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema import quantity
from railyard.kit.schema import quantity as readers
from railyard.kit.schema.quantity import SHARE, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

METADATA_KEY = "railyard"

PRICE_READERS: dict[str, Callable[[object], float]] = {
    "energy price": quantities.energy_price,
    "space price": quantities.space_price,
    "build price": quantities.build_price,
    "money": quantities.money,
    "ratio": quantities.ratio,
    "share": readers.fraction,
    "share per year": readers.fraction,
    "life": quantities.years,
    "power": quantities.power,
    "length": quantities.length,
    "traffic price": quantities.storage_price,
}
PRICE_UNITS = {
    "energy price": "USD/kWh",
    "space price": "USD/(kW month)",
    "build price": "USD/MW",
    "money": "USD",
    "ratio": "1",
    "share": "1",
    "share per year": "1/year",
    "life": "years",
    "power": "W",
    "length": "m",
    "traffic price": "USD/TB",
}


@dataclass(frozen=True)
class FieldRecord:
    """Format of one field of a record in a file.

    Attributes:
        key: The key in the file.
        shape: `value` (one number), `range` (low, typical, high), `table` (numbers by name), `text`, `choice`, `flag`,
            `list` (texts), `numbers` (integers), `how_many` (a positive integer or `all`), `record` (a nested record),
            `records` (a list of them), `topology` (one within another).
        help: One sentence for people, with the convention that could be misread (one way, dense, per accelerator).
        read: Text to number; raises `units.UnitError`.
        unit: An example of a right value, for messages and the reference page.
        allowed: Names that a choice or the keys of a table may take; empty when free.
        sourced: Whether the value must say where it comes from in a file of the catalogue.
        record: The dataclass of a nested record.
        bounds: What its numbers may be.
    """

    key: str
    shape: str
    help: str
    read: Callable[[object], float] | None = None
    unit: str = ""
    allowed: tuple[str, ...] = ()
    sourced: bool = True
    record: type[Any] | None = None
    bounds: Bounds | None = None

    def number(self, value: object) -> float:
        """A number of the field, read and within its bounds.

        Raises:
            InputError: It is no such number, or outside.
        """
        assert self.read is not None
        number = self.read(value)
        if self.bounds is not None:
            self.bounds.check(number)
        return number


def _meta(record: FieldRecord) -> dict[str, FieldRecord]:
    return {METADATA_KEY: record}


class ValueField(Protocol):
    """Metadata of a field with one number."""

    def __call__(
        self, key: str, help_: str, example: str = ..., *, bounds: Bounds | None = ...
    ) -> dict[str, FieldRecord]:
        """The key, what the number says, how one is written, and what it may be."""
        ...


def _value(read: Callable[[object], float], example: str, bounds: Bounds | None = None) -> ValueField:
    def made(key: str, help_: str, example: str = example, *, bounds: Bounds | None = bounds) -> dict[str, FieldRecord]:
        return _meta(FieldRecord(key, "value", help_, read, example, bounds=bounds))

    return made


rate = _value(quantity.RATE.parse, quantity.RATE.example)
"""A rate in bit/s."""
size = _value(quantity.SIZE.parse, "80 GB")
"""A size in bytes."""
time = _value(quantity.TIME.parse, quantity.TIME.example)
"""A time in picoseconds."""
span = _value(quantity.SPAN.parse, quantity.SPAN.example)
"""A span of time in seconds."""
power = _value(quantity.POWER.parse, quantity.POWER.example)
"""A power in W."""
length = _value(quantity.LENGTH.parse, quantity.LENGTH.example)
"""A length in m."""
loss = _value(quantity.LOSS.parse, quantity.LOSS.example)
"""A loss of light in dB."""
delay_per_length = _value(quantities.delay_per_length, "5 ns/m")
"""A propagation delay in s/m."""
frequency = _value(quantity.FREQUENCY.parse, quantity.FREQUENCY.example)
"""A frequency in Hz."""
count = _value(readers.integer, "8")
"""An integer, zero or more."""
fraction = _value(readers.fraction, "95 %", SHARE)
"""A share between 0 and 1."""
spread = _value(quantities.ratio, "0.4")
"""A plain number without unit, such as a standard deviation of logarithms."""
ratio = _value(quantities.ratio, "3:1")
"""A ratio such as `3:1`."""


class TableField(Protocol):
    """Metadata of a field with numbers by name."""

    def __call__(self, key: str, help_: str, names: tuple[str, ...]) -> dict[str, FieldRecord]:
        """The key, what the numbers say, and their names."""
        ...


def _table(read: Callable[[object], float], example: str) -> TableField:
    return lambda key, help_, names: _meta(FieldRecord(key, "table", help_, read, example, allowed=names))


flops_table = _table(quantity.FLOPS.parse, quantity.FLOPS.example)
"""FLOP/s by name."""
rate_table = _table(quantity.RATE.parse, quantity.RATE.example)
"""Rates in bit/s by name."""
count_table = _table(quantity.COUNT.parse, "1024")
"""Numbers of things by name."""
time_quantiles = _table(quantity.TIME.parse, "20 ms")
"""Times in picoseconds by quantile."""


def _range(unit: quantity.Quantity) -> Callable[[str, str], dict[str, FieldRecord]]:
    return lambda key, help_: _meta(FieldRecord(key, "range", help_, unit.parse, unit.example))


power_range = _range(quantity.POWER)
"""An uncertain power in W."""
money_range = _range(quantity.MONEY)
"""An uncertain sum in USD."""
money_rate_range = _range(quantity.MONEY_RATE)
"""An uncertain price of an hour in USD/h."""
money_per_terabyte_range = _range(quantity.STORAGE_PRICE)
"""An uncertain price of capacity in USD/TB (10^12 bytes)."""
failure_rate_range = _range(quantity.FIT)
"""An uncertain number of failures in 10^9 hours."""
span_range = _range(quantity.SPAN)
"""An uncertain span of time in seconds."""


def price_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain number whose reader follows from the entry's `quantity`."""
    return _meta(FieldRecord(key, "range", help_, unit="$0.08/kWh"))


def how_many(key: str, help_: str) -> dict[str, FieldRecord]:
    """`all`, or an integer above zero."""
    return _meta(FieldRecord(key, "how_many", help_, unit="all"))


def text(key: str, help_: str) -> dict[str, FieldRecord]:
    """Words, which need no source."""
    return _meta(FieldRecord(key, "text", help_, sourced=False))


def texts(key: str, help_: str) -> dict[str, FieldRecord]:
    """A list of words, which need no source."""
    return _meta(FieldRecord(key, "list", help_, sourced=False))


def choice(key: str, help_: str, allowed: tuple[str, ...], *, sourced: bool = False) -> dict[str, FieldRecord]:
    """One of a few words."""
    return _meta(FieldRecord(key, "choice", help_, allowed=allowed, sourced=sourced))


def flag(key: str, help_: str) -> dict[str, FieldRecord]:
    """True or false."""
    return _meta(FieldRecord(key, "flag", help_, unit="true"))


def numbers(key: str, help_: str, example: str = "[0, 0, 1, 1]") -> dict[str, FieldRecord]:
    """A list of integers."""
    return _meta(FieldRecord(key, "numbers", help_, readers.integer, example))


def topology(key: str, help_: str) -> dict[str, FieldRecord]:
    """A topology within a topology."""
    return _meta(FieldRecord(key, "topology", help_))


def nested(key: str, help_: str, record: type[Any]) -> dict[str, FieldRecord]:
    """A record within the record."""
    return _meta(FieldRecord(key, "record", help_, record=record))


def each(key: str, help_: str, record: type[Any]) -> dict[str, FieldRecord]:
    """A list of records within the record."""
    return _meta(FieldRecord(key, "records", help_, record=record))


def records(entry: type[Any]) -> Mapping[str, FieldRecord]:
    """The field records of a dataclass, by attribute name, in the order of its fields.

    Args:
        entry: A catalogue dataclass, or a record nested in one.
    """
    return {field.name: field.metadata[METADATA_KEY] for field in fields(entry) if METADATA_KEY in field.metadata}


def values(record: type[Any], mapping: Mapping[str, object], *, what: str) -> dict[str, object]:
    """Constructor arguments of a record from what a file says, in base units.

    Args:
        record: Dataclass whose fields carry a `FieldRecord`.
        mapping: Keys as files write them; quantities as text with units.
        what: The record in the user's words, for messages.

    Raises:
        InputError: A key is unknown or a value cannot be read.
    """
    by_key = {field.key: (name, field) for name, field in records(record).items()}
    out: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in by_key:
            raise InputError(
                f"{what} has no key `{key}`", key=key, found=key, allowed=list(by_key), hint=did_you_mean(key, by_key)
            )
        name, field = by_key[key]
        out[name] = _read(field, value)
    return out


def _read(field: FieldRecord, value: object) -> Any:
    try:
        if field.shape == "flag":
            return _flag(value)
        if field.shape == "choice":
            return _choice(field, value)
        if field.shape == "numbers":
            return _numbers(field, value)
        return value if field.read is None else field.number(value)
    except InputError as error:
        raise error.located(key=field.key) from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError("expected true or false", found=value, allowed="true, false")
    return value


def _choice(field: FieldRecord, value: object) -> str:
    if value not in field.allowed:
        hint = did_you_mean(str(value), field.allowed)
        raise InputError(f"unknown value `{value}`", found=value, allowed=field.allowed, hint=hint)
    return str(value)


def _numbers(field: FieldRecord, value: object) -> tuple[float, ...]:
    if not isinstance(value, list | tuple):
        raise InputError("expected a list of integers", found=value, allowed="such as [8, 8, 16]")
    return tuple(field.number(item) for item in value)


def defaults(record: type[Any]) -> dict[str, object]:
    """Default value of every field of a record that has one, by attribute name; for documentation."""
    return {field.name: field.default for field in fields(record) if field.default is not MISSING}
