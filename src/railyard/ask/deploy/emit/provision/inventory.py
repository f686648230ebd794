"""What is known of the devices that were delivered: by which address, serial number or port each one asks.

A table with a row a device: `device` as the plan calls it, and `mac`, `serial` or `circuit_id` (option 82), as far as
known. Nothing is made up: what the table does not say stays to be filled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from railyard.kit import table
from railyard.kit.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

COLUMNS = ("device", "mac", "serial", "circuit_id")

MAC = re.compile(r"[0-9a-f]{2}(?:[:.-]?[0-9a-f]{2}){5}")
SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{3,63}")
CIRCUIT = re.compile(r"[\x20-\x7e]{1,120}")
"""Four characters of a serial number at least: what ends in it is taken for the device."""


@dataclass(frozen=True)
class Known:
    """A device as it asks.

    Attributes:
        mac: `00:11:22:33:44:55` of the port that it boots by; empty where not known.
        serial: Its number, which systems send with their request.
        circuit_id: What the relay says of the port that it hangs on (RFC 3046, suboption 1).
    """

    mac: str = ""
    serial: str = ""
    circuit_id: str = ""


def read(path: Path, devices: Collection[str]) -> dict[str, Known]:
    """What is known, by the plan's names.

    Args:
        path: Of the table (CSV).
        devices: Names of the plan.

    Raises:
        InputError: A column, a name or an address is wrong, or two devices have the same.
    """
    rows = table.read(path, "device", known=COLUMNS, lower=True)
    found: dict[str, Known] = {}
    problems: list[Problem] = []
    for row in rows:
        wrong = list(_wrong(row, devices, found))
        problems += [row.wrong(column, words, hint=_near(column, row, devices, words)).problems[0]
                     for column, words in wrong]  # fmt: skip
        if not wrong:
            mac = re.sub(r"[^0-9a-f]", "", row.get("mac", "").lower())
            pairs = ":".join(mac[at : at + 2] for at in range(0, len(mac), 2))
            found[row["device"]] = Known(pairs, row.get("serial", ""), row.get("circuit_id", ""))
    problems += [Problem(words, file=str(path), found=value) for words, value in _twice(found)]
    if problems:
        raise InputError.many(problems)
    return found


def _near(column: str, row: dict[str, str], devices: Collection[str], words: str) -> str | None:
    return did_you_mean(row[column], devices) if words.startswith("the plan has") else None


def _wrong(given: dict[str, str], devices: Collection[str], found: dict[str, Known]) -> Iterable[tuple[str, str]]:
    """Columns and what is wrong in them."""
    device = given["device"]
    if device not in devices:
        yield "device", "the plan has no such device"
    elif device in found:
        yield "device", "the device has two rows"
    shapes = (("mac", MAC, "no MAC address"), ("serial", SERIAL, "no serial number of 4 to 64 letters, digits, `.-_`"))
    for column, shape, words in (*shapes, ("circuit_id", CIRCUIT, "no printable text of up to 120 letters")):
        value = given.get(column, "")
        text = value.lower() if column == "mac" else value
        if value and not shape.fullmatch(text):
            yield column, words
    mac = re.sub(r"[^0-9a-f]", "", given.get("mac", "").lower())
    if len(mac) == 12 and int(mac[:2], 16) & 1:
        yield "mac", "a MAC address of a group, which no device has"


def _twice(found: dict[str, Known]) -> Iterable[tuple[str, str]]:
    for column in ("mac", "serial", "circuit_id"):
        seen: dict[str, str] = {}
        for device, known in found.items():
            value = getattr(known, column)
            if value and value in seen:
                yield f"{seen[value]} and {device} have the same {column}", value
            seen[value] = device
    ends = sorted((known.serial[::-1], device) for device, known in found.items() if known.serial)
    for (one, first), (other, second) in pairwise(ends):
        if other != one and other.startswith(one):
            yield f"the serial number of {second} ends in that of {first}, so that they cannot be told apart", one[::-1]
