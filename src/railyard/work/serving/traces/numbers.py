"""Cells to columns of numbers: at once where all are well, one by one to name those that are not."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.serving.traces.lines import Batch, Faults

_WHOLE = re.compile(r"-?[0-9]{1,19}\Z")
_DECIMAL = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")
_NUMBERS = frozenset({int, float})
_TEXTS = frozenset({str})


def integers(
    batch: Batch, cells: list[Any], name: str, faults: Faults, *, high: int, low: int = 0
) -> NDArray[np.int64]:
    """A column of integers, written out or from JSON; where one is wrong it is noted and 1 stands there."""
    kinds = set(map(type, cells))
    if kinds <= {int}:
        fits = not cells or low <= min(cells) <= max(cells) <= high
    else:
        fits = kinds == _TEXTS and all(map(_WHOLE.match, cells))
    if fits:
        column = np.fromiter(map(int, cells), object if kinds == _TEXTS else np.int64, len(cells))
        if not len(column) or low <= column.min() <= column.max() <= high:
            return column.astype(np.int64)
    out = np.ones(len(cells), np.int64)
    for row, (line, cell) in enumerate(zip(batch.numbers, cells, strict=True)):
        if type(cell) is int or (isinstance(cell, str) and _WHOLE.match(cell)):
            if low <= int(cell) <= high:
                out[row] = int(cell)
                continue
            faults.add(line, f"{name} is {_wrong(int(cell))}", found=cell, allowed=f"{low} to {high}")
        else:
            _refuse_cell(line, cell, name, "an integer", faults)
    return out


def decimal(batch: Batch, cells: list[Any], name: str, faults: Faults) -> NDArray[Any]:
    """A column of finite numbers from 0 on; where one is wrong it is noted and 0 stands there."""
    kinds = set(map(type, cells))
    if kinds <= _NUMBERS or (kinds == _TEXTS and all(map(_DECIMAL.match, cells))):
        column = np.fromiter(map(float, cells), float, len(cells)) if _moderate(cells) else np.array([math.nan])
        if np.isfinite(column).all() and (column >= 0).all():
            return column
    out = np.zeros(len(cells))
    for row, (line, cell) in enumerate(zip(batch.numbers, cells, strict=True)):
        if type(cell) in _NUMBERS or (isinstance(cell, str) and _DECIMAL.match(cell)):
            value = float(cell) if _moderate([cell]) else math.inf
            if math.isfinite(value) and value >= 0:
                out[row] = value
                continue
            faults.add(line, f"{name} is {_wrong(value)}", found=cell, allowed="0 or more")
        else:
            _refuse_cell(line, cell, name, "a number", faults)
    return out


def _moderate(cells: list[Any]) -> bool:
    """No integer so long that it has no float."""
    return all(type(cell) is not int or abs(cell) < 2**1000 for cell in cells)


def _wrong(value: float) -> str:
    return "negative" if value < 0 else "zero" if value == 0 else "too large"


def _refuse_cell(line: int, cell: object, name: str, wanted: str, faults: Faults) -> None:
    if cell is None or cell == "":
        faults.add(line, f"a hole: {name} is empty", allowed=wanted)
    else:
        faults.add(line, f"{name}: expected {wanted}", found=cell)
