"""Cells of a table of steps whose column is a key of a scenario's training section, read as a scenario reads them.

A column named like a key of `software` (`cuda_graphs`, `fused_experts`, `attention_precision`, ...), of `parallelism`
(`bucket`, `schedule`, `context_heads`, ...) or of the section itself (`routing_skew`) says what that key says, with the
same units, words and ranges. Flags may be written yes, no, 1 or 0, lists with `+` between their items.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.schema.yaml import Mark, from_plain, resolve
from railyard.work.scenario.load import check
from railyard.work.scenario.section import Section, fields_given, keys_of
from railyard.work.scenario.workload import ParallelismSection, SoftwareOverrides
from railyard.work.training.spec import Layout, SoftwareProfile

if TYPE_CHECKING:
    from collections.abc import Mapping

SOFTWARE = tuple(SoftwareOverrides.model_fields)
"""Columns that are keys of `software`."""
LAYOUT = tuple(name for name in ParallelismSection.model_fields if name != "auto")
"""Columns that are keys of `parallelism`."""

_FLAGS = {"1": True, "yes": True, "true": True, "on": True, "0": False, "no": False, "false": False, "off": False}
_NOWHERE = Mark("")


def of_software(cells: Mapping[str, str]) -> dict[str, Any]:
    """What cells say of the software, by the names of `SoftwareProfile`.

    Raises:
        InputError: A cell is not what its key may be; the key is the column.
    """
    return _read(SoftwareOverrides, SoftwareProfile, {name: cells[name] for name in SOFTWARE if name in cells})


def of_layout(cells: Mapping[str, str], skip: frozenset[str]) -> dict[str, Any]:
    """What cells say of the layout, by the names of `Layout`.

    Args:
        cells: Of a row, by column.
        skip: Columns that the table reads in another way.

    Raises:
        InputError: A cell is not what its key may be; the key is the column.
    """
    wanted = {name: cells[name] for name in LAYOUT if name in cells and name not in skip}
    return _read(ParallelismSection, Layout, wanted)


def _read(section: type[Section], record: type[Any], cells: Mapping[str, str]) -> dict[str, Any]:
    hints = typing.get_type_hints(record)
    types = {key.name: hints[name] for name, key in keys_of(record).items()}
    written = {name: _value(types[name], text) for name, text in cells.items()}
    try:
        return fields_given(check(from_plain(written, _NOWHERE), section), record)
    except InputError as error:
        first = {problem.key: problem for problem in reversed(error.problems)}  # a union's cases each have one
        raise InputError.many(
            dataclasses.replace(problem, file=None, line=None, column=None, found=problem.found or cells.get(key or ""))
            for key, problem in first.items()
        ) from None


def _value(kind: Any, text: str) -> Any:
    if kind is bool:
        return _FLAGS.get(text.lower(), text)
    if typing.get_origin(kind) is tuple:
        return text.replace("+", " ").replace(";", " ").split()
    return resolve(text)
