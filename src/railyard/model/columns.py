"""Records as columns: one row a design, one array a quantity. Formulas are written once, over these arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from _typeshed import DataclassInstance

F = NDArray[np.float64]
Item = TypeVar("Item")
Kind = TypeVar("Kind", bound="DataclassInstance")


def columns_of(kind: type[Kind], items: Sequence[Item], row: Callable[[Item], dict[str, float]]) -> Kind:
    """Columns of items, by the names of the fields of `kind`; each distinct object is read once.

    Args:
        kind: A dataclass of columns.
        items: One a row.
        row: Values of one item; those that are no fields are left out.
    """
    names = [field.name for field in fields(kind)]

    def values(item: Item) -> list[float]:
        found = row(item)
        return [float(found[name]) for name in names]

    table = table_of(items, values, key=id)
    return kind(*(np.ascontiguousarray(table[:, column]) for column in range(len(names))))


def table_of(items: Sequence[Item], values: Callable[[Item], Sequence[float]], key: Callable[[Item], Hashable]) -> F:
    """Values of items, float64[items, values]; items of one key have the same values, which are worked out once.

    Args:
        items: One a row.
        values: Of one item, as many of each.
        key: What items with the same values share.
    """
    index: dict[Hashable, int] = {}
    rows: list[Sequence[float]] = []
    order = np.empty(len(items), dtype=np.int64)
    for position, item in enumerate(items):
        name = key(item)
        if name not in index:
            index[name] = len(rows)
            rows.append(values(item))
        order[position] = index[name]
    table: F = np.array(rows, dtype=np.float64).reshape(len(rows), -1)[order]
    return table


def take(columns: Kind, index: NDArray[np.int64]) -> Kind:
    """Rows of columns, by number; records and mappings of columns row by row, what is absent stays so."""
    found: Kind = _taken(columns, index)
    return found


def _taken(part: Any, index: NDArray[np.int64]) -> Any:
    if part is None:
        return None
    if isinstance(part, np.ndarray):
        return part[index]
    if isinstance(part, Mapping):
        return {name: _taken(value, index) for name, value in part.items()}
    return type(part)(*(_taken(getattr(part, field.name), index) for field in fields(part)))
