"""Catalogue entries with some values replaced by the scenario's own."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from railyard.catalog.types import Server
from railyard.kit.errors import InputError, did_you_mean

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
    return _with_domains(replace(entry, **changed))


def _with_domains(entry: E) -> E:
    """Memory domains for more or fewer accelerators and NICs than the entry has, dealt out as the entry's are.

    Raises:
        InputError: A domain is named that the server does not have, or none is.
    """
    if not isinstance(entry, Server):
        return entry
    for key, domains in (("accelerator_numa", entry.accelerator_numa), ("nic_numa", entry.nic_numa)):
        if not domains or max(domains) >= entry.numa_nodes:
            raise InputError(
                f"the server has {entry.numa_nodes} memory domains",
                key=f"overrides.server.{key}",
                found=list(domains),
                allowed=f"a list of 0 to {entry.numa_nodes - 1}",
            )
    return replace(
        entry,
        accelerator_numa=_dealt(entry.accelerator_numa, entry.accelerators),
        nic_numa=_dealt(entry.nic_numa, entry.nics),
    )


def _dealt(domains: tuple[int, ...], count: int) -> tuple[int, ...]:
    return tuple(domains[number * len(domains) // count] for number in range(count))
