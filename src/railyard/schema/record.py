"""Fields of topology and fabric records: one line is the key in a file, its unit, its meaning and how it is read."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from railyard import units
from railyard.catalog import readers
from railyard.catalog.fields import METADATA_KEY, FieldRecord, records
from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def ratio(key: str, help_: str) -> dict[str, FieldRecord]:
    """A ratio such as `3:1`."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, units.ratio, "3:1", sourced=False)}


def whole(key: str, help_: str) -> dict[str, FieldRecord]:
    """A whole number."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, readers.whole, "8", sourced=False)}


def rate(key: str, help_: str) -> dict[str, FieldRecord]:
    """A rate in bit/s, one way."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, units.rate, "400 Gb/s", sourced=False)}


def size(key: str, help_: str) -> dict[str, FieldRecord]:
    """A size in bytes."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, units.size, "4 KiB", sourced=False)}


def time(key: str, help_: str) -> dict[str, FieldRecord]:
    """A time in picoseconds."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, units.time, "1 us", sourced=False)}


def length(key: str, help_: str) -> dict[str, FieldRecord]:
    """A length in m."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, units.length, "50 km", sourced=False)}


def share(key: str, help_: str) -> dict[str, FieldRecord]:
    """A share between 0 and 1."""
    return {METADATA_KEY: FieldRecord(key, "value", help_, readers.fraction, "95 %", sourced=False)}


def flag(key: str, help_: str) -> dict[str, FieldRecord]:
    """True or false."""
    return {METADATA_KEY: FieldRecord(key, "flag", help_, unit="true", sourced=False)}


def numbers(key: str, help_: str) -> dict[str, FieldRecord]:
    """A list of whole numbers."""
    return {METADATA_KEY: FieldRecord(key, "numbers", help_, readers.whole, "[8, 8, 16]", sourced=False)}


def choice(key: str, help_: str, allowed: tuple[str, ...]) -> dict[str, FieldRecord]:
    """One of a few words."""
    return {METADATA_KEY: FieldRecord(key, "choice", help_, allowed=allowed, sourced=False)}


def inner(key: str, help_: str) -> dict[str, FieldRecord]:
    """A topology within a topology."""
    return {METADATA_KEY: FieldRecord(key, "topology", help_, sourced=False)}


def values(record: type[Any], mapping: Mapping[str, object], *, what: str) -> dict[str, Any]:
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
            return _numbers(value)
        return value if field.read is None else field.read(value)
    except InputError as error:
        raise error.located(key=field.key) from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError("true or false is wanted", found=value, allowed="true, false")
    return value


def _choice(field: FieldRecord, value: object) -> str:
    if value not in field.allowed:
        hint = did_you_mean(str(value), field.allowed)
        raise InputError(f"there is no `{value}` here", found=value, allowed=field.allowed, hint=hint)
    return str(value)


def _numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise InputError("a list of whole numbers is wanted: write for example `[8, 8, 16]`", found=value)
    return tuple(readers.whole(item) for item in value)


def defaults(record: type[Any]) -> dict[str, Any]:
    """Default value of every field of a record that has one, by attribute name; for documentation."""
    import dataclasses

    return {field.name: field.default for field in fields(record) if field.default is not dataclasses.MISSING}
