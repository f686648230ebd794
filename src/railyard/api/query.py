"""Questions to kept plans and runs in SQL, where their points lie: polars reads what a question needs, and no more."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.api.finished import Run
from railyard.errors import InputError, did_you_mean
from railyard.files import readable
from railyard.processes import limit_memory
from railyard.study.kept import read_result, result_file
from railyard.study.tasks import GONE, Task
from railyard.study.workers import Local

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from railyard.errors import Problem

POINTS = "points.parquet"
TABLE = "points"
"""What SQL calls everything that is asked."""

LIMIT_S = 30
"""After which `bounded` gives a question up."""
LIMIT_BYTES = 4 << 30
"""Address space of the process that answers a question of `bounded`."""
THREADS = 4
"""Of the same process."""

_ASKING = ("select", "with")
_READERS = re.compile(r"\bread_(csv|ipc|json|ndjson|parquet)\b", re.IGNORECASE)
"""Functions with which the SQL of Polars opens files."""
_QUOTED = re.compile(r"""["'`]([^"'`]+)["'`]""")


def query(sources: str | Path | Sequence[str | Path], sql: str = "SELECT * FROM points") -> pl.DataFrame:
    """Answers a question in SQL to the points of kept plans, or to the variants of kept runs.

    The question itself opens no file. It runs in this process, without limits of time and memory; see `bounded`.

    Args:
        sources: Folders of plans (their `points.parquet`: a row a design, demand and engine), of runs (a row a
            variant), a folder that holds such folders, or Parquet files.
        sql: One SELECT over the table `points`. Where there are several sources, the column `source` says which.

    Raises:
        InputError: A source holds neither, or the question is wrong; with the nearest right spelling of a column.
    """
    found = [sources] if isinstance(sources, str | Path) else list(sources)
    tables = [each for source in found for each in _tables(Path(source))]
    return _answered(_together(tables), sql)


def bounded(sources: Sequence[Path], sql: str) -> pl.DataFrame:
    """Answers a question as `query` does, in a process of its own with limits of time, memory and threads.

    Raises:
        InputError: As `query`; or the question takes more than a limit (`LIMIT_S`, `LIMIT_BYTES`).
    """
    pool = Local(1, _limit, tries=1)
    try:
        done = next(pool.run([Task("railyard.api.query:_in_process", (list(sources), sql), LIMIT_S)]))
    finally:
        pool.close()
    if done.error:
        full = done.error == GONE or "memory" in done.error.lower()
        raise InputError(
            "the question ran out of memory" if full else f"the question was {done.error}",
            key="SQL",
            found=sql,
            allowed=f"at most {LIMIT_S} s and {LIMIT_BYTES >> 30} GiB of memory",
        )
    if isinstance(done.value, tuple):
        raise InputError.many(done.value)
    found: pl.DataFrame = done.value
    return found


def _limit() -> None:
    """Limits of the process that answers; it has not begun to use Polars."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    limit_memory(LIMIT_BYTES)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what a library says before it aborts


def _in_process(asked: tuple[list[Path], str]) -> pl.DataFrame | tuple[Problem, ...]:
    """The rows, or why there are none."""
    try:
        return query(*asked)
    except InputError as error:
        return error.problems


def selecting(*, where: str = "", columns: Sequence[str] = (), sort: str = "", most: int = 0) -> str:
    """A question of its parts.

    Args:
        where: A condition of SQL.
        columns: Their names; all when left out.
        sort: A column, the smallest first; with a `-` before it the largest.
        most: Rows at most; 0: all.
    """
    listed = ", ".join(f'"{name.strip()}"' for name in columns) or "*"
    parts = [f"SELECT {listed} FROM {TABLE}"]
    if where:
        parts.append(f"WHERE {where}")
    if sort:
        name, down = sort.removeprefix("-"), sort.startswith("-")
        parts.append(f'ORDER BY "{name}"{" DESC" if down else ""} NULLS LAST')
    if most:
        parts.append(f"LIMIT {most}")
    return " ".join(parts)


def _tables(source: Path) -> list[tuple[str, pl.LazyFrame]]:
    """What a source holds, by the names of the folders.

    Raises:
        InputError: Neither a plan nor a run.
    """
    import polars as pl

    if source.suffix == ".parquet" and source.is_file():
        return [(source.parent.resolve().name, pl.scan_parquet(readable(source)))]
    if (source / POINTS).is_file():
        return [(source.resolve().name, pl.scan_parquet(readable(source / POINTS)))]
    plans = sorted(source.glob(f"*/{POINTS}")) if source.is_dir() else []
    if plans and not (source / "result.json").is_file():
        return [(path.parent.name, pl.scan_parquet(readable(path))) for path in plans]
    try:
        file = result_file(source)
    except InputError as error:
        hint = error.problems[0].hint
        raise InputError("there is neither a plan nor a run here", file=source, hint=hint) from None
    result = read_result(file)
    return [(file.parent.resolve().name, Run(result.name, result, file.parent).table("variants").lazy())]


def _together(tables: Sequence[tuple[str, pl.LazyFrame]]) -> pl.LazyFrame:
    """All rows below each other; what one table does not have is empty there."""
    import polars as pl

    if len(tables) == 1:
        return tables[0][1]
    frames = [frame.select(pl.lit(name).alias("source"), pl.all()) for name, frame in tables]
    return pl.concat(frames, how="diagonal_relaxed")


def _answered(table: pl.LazyFrame, sql: str) -> pl.DataFrame:
    import polars as pl

    if not sql.lower().lstrip(" \n\t(").startswith(_ASKING):
        raise InputError("this is no question", key="SQL", found=sql, allowed="one SELECT over the table `points`")
    reader = _READERS.search(sql)
    if reader:
        raise InputError(
            f"a question opens no file: `{reader[0]}`", key="SQL", found=sql, allowed=f"the table `{TABLE}`"
        )
    try:
        return pl.SQLContext({TABLE: table}).execute(sql, eager=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _wrong(error, table, sql) from None


def _wrong(error: Exception, table: pl.LazyFrame, sql: str) -> InputError:
    """Why a question has no answer, with what was meant where a name is misspelt."""
    import polars as pl

    text = str(error).splitlines()[0].partition("; valid columns")[0]
    named = _QUOTED.search(text)
    if text.startswith("relation"):
        return InputError(text, key="SQL", found=sql, allowed=TABLE)
    if "column" in text and named:
        try:
            columns = table.collect_schema().names()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as unread:
            return InputError(f"the points cannot be read: {str(unread).splitlines()[0]}")
        if named[1] not in columns:
            return InputError(
                f"there is no column `{named[1]}`", key="SQL", allowed=columns, hint=did_you_mean(named[1], columns)
            )
    return InputError(f"the question cannot be answered: {text}", key="SQL", found=sql)
