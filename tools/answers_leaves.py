"""Flattens what a command printed and wrote into leaves: path -> value, numbers exact, columns and long lists hashed.

Columns are hashed by value, each by itself, as 64-bit integers or floats: a file under another name, another width of
integers or an added column leave the other digests as they are.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import yaml

from railyard.measure.result import section
from railyard.measure.result.section import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.measure.result.section import Leaf

LEFT_OUT = {
    "created": "the time of day",
    "cpu_s": "how fast the machine is",
    "peak_rss_mb": "how much memory the process used",
    "version": "of the package, not of its answers",
    "scenario": "the question, repeated with its defaults",
}


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Every leaf below `value` with its path, without those of `LEFT_OUT`."""
    return section.flatten(value, path, LEFT_OUT)


def of_text(text: str, name: str) -> Iterator[tuple[str, Leaf]]:
    """Leaves of printed text: JSON where it is, a digest otherwise."""
    try:
        found = json.loads(text)
    except ValueError:
        if text.strip():
            yield name, fingerprint(text.encode())
        return
    yield from flatten(found, name)


def of_folder(folder: Path) -> Iterator[tuple[str, Leaf]]:
    """Leaves of every file below `folder` that holds answers; reports and the repeated question are left out."""
    inside = sorted(folder.iterdir())
    root = (
        inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
    )  # the folder of a run is named by its inputs
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        yield from _of_file(file, file.relative_to(root).as_posix())


def _of_file(file: Path, name: str) -> Iterator[tuple[str, Leaf]]:
    if file.name.startswith("trace.json"):
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        yield name.removesuffix(".gz"), fingerprint(json.dumps(json.loads(text), sort_keys=True).encode())
    elif file.suffix == ".json":
        yield from of_text(file.read_text(encoding="utf-8"), name)
    elif file.suffix in {".yaml", ".yml"} and file.stem != "scenario":
        yield from flatten(yaml.safe_load(file.read_text(encoding="utf-8")), name)
    elif file.suffix == ".parquet":
        yield from _of_table(pl.read_parquet(file), name)
    elif file.suffix == ".csv":
        yield from _of_table(pl.read_csv(file, infer_schema_length=None), name)


def _of_table(table: pl.DataFrame, name: str) -> Iterator[tuple[str, Leaf]]:
    yield f"{name}:rows", table.height
    for column in table.columns:
        yield f"{name}:{column}", digest(table[column])


def digest(column: pl.Series) -> str:
    """SHA-256 of a column's values, whatever the width of its type."""
    nulls = column.is_null().to_numpy().tobytes() if column.null_count() else b""
    if column.dtype.is_integer() or column.dtype == pl.Boolean:
        return fingerprint(nulls + column.cast(pl.Int64).fill_null(0).to_numpy().tobytes())
    if column.dtype.is_float():
        return fingerprint(nulls + column.cast(pl.Float64).fill_null(0).to_numpy().tobytes())
    return fingerprint(json.dumps(column.to_list(), default=str).encode())
