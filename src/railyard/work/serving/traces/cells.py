"""From lines to cells by column: tables under a heading, and one JSON object a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import did_you_mean
from railyard.kit.table import Table
from railyard.work.serving.traces.lines import Batch

if TYPE_CHECKING:
    from pathlib import Path

    from railyard.work.serving.traces.formats import TraceFormat
    from railyard.work.serving.traces.lines import Faults


def heading(text: str, path: Path) -> Table:
    """The table under a heading, whose rows come in batches.

    Raises:
        InputError: The heading is wrong.
    """
    return Table(text, path, delimiter=",")


def columns_of(batch: Batch, table: Table, faults: Faults) -> tuple[Batch, dict[str, list[Any]]]:
    """The cells of a table by column, and the rows that have them; rows of another width are noted."""
    width = len(table.columns)
    split = [table.cells(line, text) for line, text in zip(batch.numbers, batch.texts, strict=True)]
    if not all(len(cells) == width for cells in split):
        for line, cells in zip(batch.numbers, split, strict=True):
            if len(cells) != width:
                faults.add(line, "a row needs as many cells as the heading has", found=len(cells), allowed=str(width))
        batch = _those(batch, [len(cells) == width for cells in split])
        split = [cells for cells in split if len(cells) == width]
    by_column = list(zip(*split, strict=True)) or [()] * width
    return batch, {name: list(cells) for name, cells in zip(table.columns, by_column, strict=True)}


def objects(batch: Batch, form: TraceFormat, faults: Faults) -> tuple[Batch, dict[str, list[Any]]]:
    """The values of JSON objects by key, and the rows that have them; broken ones are noted. What is absent is None."""
    found = [parsed(text) for text in batch.texts]
    needed, known = frozenset(form.needed), frozenset(form.columns)
    # Rows of one file have the same few sets of keys: each set is looked at once.
    sound = {keys for keys in {tuple(row) for row in found if isinstance(row, dict)} if needed <= set(keys) <= known}
    good = [isinstance(row, dict) and tuple(row) in sound for row in found]
    if not all(good):
        for line, row, fine in zip(batch.numbers, found, good, strict=True):
            if not fine:
                _refuse_object(line, row, form, faults)
        batch, found = _those(batch, good), [row for row, fine in zip(found, good, strict=True) if fine]
    return batch, {name: [row.get(name) for row in found] for name in form.columns}


def parsed(text: str) -> Any:
    """A line of JSON; the words of what is wrong with it where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return f"{error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        return str(error)[:80]


def _refuse_object(line: int, row: Any, form: TraceFormat, faults: Faults) -> None:
    if not isinstance(row, dict):
        found = row if isinstance(row, str) else type(row).__name__
        faults.add(line, "the line is not a JSON object", found=found)
        return
    unknown = [name for name in row if name not in form.columns]
    missing = [name for name in form.needed if name not in row]
    if unknown:
        near = did_you_mean(unknown[0], form.columns)
        faults.add(line, f"unknown key `{unknown[0][:60]}`", allowed=", ".join(form.columns), hint=near or "")
    else:
        faults.add(line, f"a hole: `{missing[0]}` is missing")


def _those(batch: Batch, good: list[bool]) -> Batch:
    return Batch(
        [line for line, fine in zip(batch.numbers, good, strict=True) if fine],
        [text for text, fine in zip(batch.texts, good, strict=True) if fine],
    )
