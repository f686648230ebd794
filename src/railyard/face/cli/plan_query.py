"""`railyard plan query`: questions to kept plans and runs."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from railyard.face.api.query import query, selecting
from railyard.face.cli.tables import Table, emit
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl


def ask(
    sources: Sequence[Path], *, sql: str | None, where: str, columns: str, sort: str, most: int | None, as_json: bool
) -> None:
    """Prints the answer as a table, or a JSON object a row.

    Raises:
        InputError: The question is wrong, or there is nothing to ask.
    """
    if sql is not None and (where or columns or sort or most is not None):
        raise InputError("a question is either `--sql` or made of the other options", key="--sql", found=sql)
    names = [name for name in columns.split(",") if name.strip()]
    text = (
        sql if sql is not None else selecting(where=where, columns=names, sort=sort, most=20 if most is None else most)
    )
    found = query(sources, text)
    if as_json:
        emit(json.dumps([_plain(row) for row in found.iter_rows(named=True)], ensure_ascii=False, allow_nan=False))
        return
    _table(found).print()


def _table(found: pl.DataFrame) -> Table:
    right = [at for at, kind in enumerate(found.dtypes) if kind.is_numeric()]
    table = Table(found.columns, right)
    for row in found.iter_rows():
        table.add(*(_cell(value) for value in row))
    return table


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(row: dict[str, object]) -> dict[str, object]:
    """A row as JSON has it: what is no number is null."""
    return {
        key: (None if isinstance(value, float) and not math.isfinite(value) else value) for key, value in row.items()
    }
