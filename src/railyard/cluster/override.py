"""Catalogue entries with some values replaced by the scenario's own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.catalog import Entry

E = TypeVar("E", bound="Entry")

RECORDS = ("accelerator", "server", "nic", "switch")


def check(overrides: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses overrides of records that a cluster does not have.

    Raises:
        InputError: A record is unknown.
    """
    for name in overrides:
        if name not in RECORDS:
            raise InputError(
                f"there is no record `{name}` to override",
                key=f"overrides.{name}",
                allowed=RECORDS,
                hint=did_you_mean(name, RECORDS),
            )


def overridden(entry: E, values: Mapping[str, Any], record: str) -> E:
    """The entry with the given attributes replaced; values are in base units.

    A mapping is merged into the entry's own: `{"flops": {"bf16": 9e14}}` leaves the other datatypes as they are.

    Raises:
        InputError: There is no such attribute.
    """
    if not values:
        return entry
    known = {field.name for field in fields(entry)} - {"name", "provenance"}
    changed: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            key = f"overrides.{record}.{name}"
            raise InputError(
                f"{record} has no `{name}`", key=key, allowed=sorted(known), hint=did_you_mean(name, known)
            )
        default = getattr(entry, name)
        changed[name] = {**default, **value} if isinstance(default, dict) and isinstance(value, dict) else value
    return replace(entry, **changed)
