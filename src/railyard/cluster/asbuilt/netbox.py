"""Cables from NetBox: its table as CSV (export or import form), or the JSON of `/api/dcim/cables/`.

If cables go through patch panels, use the JSON of `/api/dcim/interfaces/`: NetBox follows cords and trunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.network_table import NetworkTable, hosts_of
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.files import parse_json, read_text
from railyard.kit.table import Table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COLUMNS = {
    "a": ("side_a_device", "device a", "a_device", "device_a"),
    "a_port": ("side_a_name", "termination a", "interface a", "a_name", "a_terminations", "a_interface"),
    "b": ("side_b_device", "device b", "b_device", "device_b"),
    "b_port": ("side_b_name", "termination b", "interface b", "b_name", "b_terminations", "b_interface"),
}
"""Names of a table's columns: of imports, of exports, of its list of connections."""

GONE = ("decommissioning",)
"""States of cables that are not installed."""

PANEL_PORTS = ("dcim.frontport", "dcim.rearport", "front port", "rear port")
"""Cable terminations that lead to or between patch panels."""

METRES = {"km": 1000.0, "m": 1.0, "cm": 0.01, "mi": 1609.344, "ft": 0.3048, "in": 0.0254}

_End = tuple[str, str]


@dataclass
class _Reading:
    file: str
    cables: list[tuple[_End, _End, float, int]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def wrong(self, message: str, line: int, found: str) -> None:
        self.problems.append(Problem(message, file=self.file, line=line or None, found=found))


def read(path: Path) -> NetworkTable:
    """Reads devices and cables; rows that cannot be read become problems of the result.

    Raises:
        InputError: It has neither form, or no cables.
    """
    text = read_text(path)
    reading = _Reading(str(path))
    if text.lstrip()[:1] in ("{", "["):
        _json(reading, text)
    else:
        _csv(reading, text)
    if not reading.cables:
        if reading.problems:
            raise InputError.many(reading.problems)
        raise InputError("it has no cables", file=path, allowed="NetBox's cables, as CSV or JSON")
    return _joined(reading)


def _csv(reading: _Reading, text: str) -> None:
    rows = Table(text, reading.file)
    heads = {head.lower(): head for head in rows.columns}
    column = {key: next((heads[name] for name in names if name in heads), None) for key, names in COLUMNS.items()}
    for key, head in column.items():
        if head is None:
            allowed = ", ".join(COLUMNS[key])
            free = set(heads) - set().union(*COLUMNS.values())
            near = next((hint for name in sorted(free) if (hint := did_you_mean(name, COLUMNS[key]))), None)
            raise InputError(
                f"a table of cables has no column for {_words(key)}",
                file=reading.file, line=rows.line, found=", ".join(heads), allowed=allowed, hint=near,
            )  # fmt: skip
    for row in rows:
        given = {key: row[str(head)] for key, head in column.items()}
        if any(_get(row, heads, f"side_{side}_type").lower() in PANEL_PORTS for side in "ab"):
            raise _through_panels(reading.file, row.line)
        if _get(row, heads, "status").lower() in GONE:
            continue
        if not all(given.values()):
            missing = ", ".join(_words(key) for key, value in given.items() if not value)
            reading.wrong(f"a cable has no {missing}", row.line, str(list(row.values()))[:80])
            continue
        length = _metres(_get(row, heads, "length"), _get(row, heads, "length_unit", "length unit"))
        ends = (given["a"], given["a_port"]), (given["b"], given["b_port"])
        reading.cables.append((*ends, length, row.line))


def _through_panels(file: str, line: int | None) -> InputError:
    return InputError(
        "a cable ends in a patch panel, and no table of cables says which port lies behind",
        file=file,
        line=line,
        allowed="the JSON of `/api/dcim/interfaces/`, in which NetBox has followed cords and trunks",
    )


def _words(key: str) -> str:
    return f"the {'port' if key.endswith('port') else 'device'} at end {key[0].upper()}"


def _get(row: Mapping[str, str], heads: Mapping[str, str], *names: str) -> str:
    return next((row[heads[name]] for name in names if name in heads), "")


def _metres(length: Any, unit: Any) -> float:
    try:
        return float(length) * METRES.get(str(unit or "m").lower(), 0.0)
    except (TypeError, ValueError):
        return 0.0


def _json(reading: _Reading, text: str) -> None:
    document = parse_json(text, reading.file)
    rows = document.get("results") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise InputError("no list of NetBox's objects", file=reading.file, allowed="`/api/dcim/cables/`")
    if any(isinstance(row, dict) and "connected_endpoints" in row for row in rows):
        _interfaces(reading, rows)
        return
    if rows and not any(isinstance(row, dict) and "a_terminations" in row for row in rows):
        raise InputError("objects of NetBox, but none is a cable", file=reading.file, allowed="`/api/dcim/cables/`")
    for number, row in enumerate(rows, 1):
        try:
            if any(one["object_type"] in PANEL_PORTS for key in ("a_terminations", "b_terminations")
                   for one in row[key] if "object_type" in one):  # fmt: skip
                raise _through_panels(reading.file, None)
            _cable(reading, row)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            reading.wrong(f"cable {number} is not as NetBox writes it", 0, repr(error)[:80])


def _cable(reading: _Reading, row: Mapping[str, Any]) -> None:
    if _value(row.get("status")) in GONE:
        return
    sides = [[_end(one["object"]) for one in row[key]] for key in ("a_terminations", "b_terminations")]
    length = _metres(row.get("length"), _value(row.get("length_unit")))
    near, far = sides
    if not near or not far:
        reading.wrong("a cable has only one end", 0, f"cable {row.get('id', '?')}")
        return
    for at in range(max(len(near), len(far))):
        reading.cables.append((near[min(at, len(near) - 1)], far[min(at, len(far) - 1)], length, 0))


def _interfaces(reading: _Reading, rows: list[Any]) -> None:
    """Interfaces with the far ends that NetBox found; a cable is in two rows."""
    seen: set[frozenset[_End]] = set()
    for number, row in enumerate(rows, 1):
        try:
            near, far = _end(row), [_end(one) for one in row["connected_endpoints"] or ()]
        except (KeyError, TypeError, AttributeError) as error:
            reading.wrong(f"interface {number} is not as NetBox writes it", 0, repr(error)[:80])
            continue
        for one in far:
            if frozenset((near, one)) not in seen:
                seen.add(frozenset((near, one)))
                reading.cables.append((near, one, 0.0, 0))


def _value(field_: Any) -> str:
    return str(field_.get("value", "")) if isinstance(field_, dict) else str(field_ or "")


def _end(item: Mapping[str, Any]) -> _End:
    return str(item["device"]["name"]), str(item["name"])


def _joined(reading: _Reading) -> NetworkTable:
    order = {
        name: at for at, name in enumerate(dict.fromkeys(end[0] for a, b, _, _ in reading.cables for end in (a, b)))
    }
    hosts = hosts_of([(a, b) for a, b, _, _ in reading.cables], (), ())
    taken: dict[_End, int] = {}
    cables = []
    for a, b, _, line in reading.cables:
        for end in (a, b):
            if taken.setdefault(end, line) != line:
                reading.wrong("two cables are in one port", line, f"{end[0]}[{end[1]}], also in line {taken[end]}")
        (one, port), (other, far) = sorted((a, b), key=lambda end: order[end[0]])
        cables.append((order[one], port, order[other], far))
    kind = ["host" if name in hosts else "switch" for name in order]
    length = np.array([length for _, _, length, _ in reading.cables])
    return NetworkTable.of(reading.file, [*order], kind, cables, length_m=length, problems=tuple(reading.problems))
