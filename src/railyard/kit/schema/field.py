"""The record of one field: its key in a file, how its value is read, in which unit, and what it means.

Entries of the catalogue, topologies and fabrics carry it. The metadata of the dataclass field holds its record, so one
line is the schema, the parser, the documentation and the subject of the tests; the default is the field's own.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any

from railyard.kit import quantities
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.schema import bounds as readers
from railyard.kit.schema import quantity
from railyard.kit.schema.bounds import SHARE, Bounds

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


def rate(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A rate in bit/s."""
    return _meta(FieldRecord(key, "value", help_, quantity.RATE.parse, quantity.RATE.example, bounds=bounds))


def size(key: str, help_: str, example: str = "80 GB", *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A size in bytes."""
    return _meta(FieldRecord(key, "value", help_, quantity.SIZE.parse, example, bounds=bounds))


def time(
    key: str, help_: str, example: str = quantity.TIME.example, *, bounds: Bounds | None = None
) -> dict[str, FieldRecord]:
    """A time in picoseconds."""
    return _meta(FieldRecord(key, "value", help_, quantity.TIME.parse, example, bounds=bounds))


def span(
    key: str, help_: str, example: str = quantity.SPAN.example, *, bounds: Bounds | None = None
) -> dict[str, FieldRecord]:
    """A span of time in seconds."""
    return _meta(FieldRecord(key, "value", help_, quantity.SPAN.parse, example, bounds=bounds))


def power(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A power in W."""
    return _meta(FieldRecord(key, "value", help_, quantity.POWER.parse, quantity.POWER.example, bounds=bounds))


def length(
    key: str, help_: str, example: str = quantity.LENGTH.example, *, bounds: Bounds | None = None
) -> dict[str, FieldRecord]:
    """A length in m."""
    return _meta(FieldRecord(key, "value", help_, quantity.LENGTH.parse, example, bounds=bounds))


def loss(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A loss of light in dB."""
    return _meta(FieldRecord(key, "value", help_, quantity.LOSS.parse, quantity.LOSS.example, bounds=bounds))


def delay_per_length(key: str, help_: str) -> dict[str, FieldRecord]:
    """A propagation delay in s/m."""
    return _meta(FieldRecord(key, "value", help_, quantities.delay_per_length, "5 ns/m"))


def frequency(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A frequency in Hz."""
    return _meta(FieldRecord(key, "value", help_, quantity.FREQUENCY.parse, quantity.FREQUENCY.example, bounds=bounds))


def count(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """An integer, zero or more."""
    return _meta(FieldRecord(key, "value", help_, readers.integer, "8", bounds=bounds))


def how_many(key: str, help_: str) -> dict[str, FieldRecord]:
    """`all`, or an integer above zero."""
    return _meta(FieldRecord(key, "how_many", help_, unit="all"))


def fraction(key: str, help_: str, *, bounds: Bounds = SHARE) -> dict[str, FieldRecord]:
    """A share between 0 and 1."""
    return _meta(FieldRecord(key, "value", help_, readers.fraction, "95 %", bounds=bounds))


def flops_table(key: str, help_: str, names: tuple[str, ...]) -> dict[str, FieldRecord]:
    """FLOP/s by name."""
    return _meta(FieldRecord(key, "table", help_, quantity.FLOPS.parse, quantity.FLOPS.example, allowed=names))


def rate_table(key: str, help_: str, names: tuple[str, ...]) -> dict[str, FieldRecord]:
    """Rates in bit/s by name."""
    return _meta(FieldRecord(key, "table", help_, quantity.RATE.parse, quantity.RATE.example, allowed=names))


def count_table(key: str, help_: str, names: tuple[str, ...]) -> dict[str, FieldRecord]:
    """Numbers of things by name."""
    return _meta(FieldRecord(key, "table", help_, quantity.COUNT.parse, "1024", allowed=names))


def time_quantiles(key: str, help_: str, names: tuple[str, ...]) -> dict[str, FieldRecord]:
    """Times in picoseconds by quantile."""
    return _meta(FieldRecord(key, "table", help_, quantity.TIME.parse, "20 ms", allowed=names))


def spread(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A plain number without unit, such as a standard deviation of logarithms."""
    return _meta(FieldRecord(key, "value", help_, quantities.ratio, "0.4", bounds=bounds))


def power_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain power in W."""
    return _meta(FieldRecord(key, "range", help_, quantity.POWER.parse, quantity.POWER.example))


def money_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain sum in USD."""
    return _meta(FieldRecord(key, "range", help_, quantity.MONEY.parse, quantity.MONEY.example))


def money_rate_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain price of an hour in USD/h."""
    return _meta(FieldRecord(key, "range", help_, quantity.MONEY_RATE.parse, quantity.MONEY_RATE.example))


def money_per_terabyte_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain price of capacity in USD/TB (10^12 bytes)."""
    return _meta(FieldRecord(key, "range", help_, quantity.STORAGE_PRICE.parse, quantity.STORAGE_PRICE.example))


def failure_rate_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain number of failures in 10^9 hours."""
    return _meta(FieldRecord(key, "range", help_, quantity.FIT.parse, quantity.FIT.example))


def span_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain span of time in seconds."""
    return _meta(FieldRecord(key, "range", help_, quantity.SPAN.parse, quantity.SPAN.example))


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


def price_range(key: str, help_: str) -> dict[str, FieldRecord]:
    """An uncertain number whose reader follows from the entry's `quantity`."""
    return _meta(FieldRecord(key, "range", help_, unit="$0.08/kWh"))


def ratio(key: str, help_: str, *, bounds: Bounds | None = None) -> dict[str, FieldRecord]:
    """A ratio such as `3:1`."""
    return _meta(FieldRecord(key, "value", help_, quantities.ratio, "3:1", bounds=bounds))


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
