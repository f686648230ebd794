"""Questions to kept plans and runs in SQL, where their points lie: polars reads what a question needs, and no more."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.face.api.finished import Run
from railyard.kit.errors import InputError, Problem, did_you_mean
from railyard.kit.files import die_with_parent, limit_memory, readable
from railyard.work.study.folder import read_result, result_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

POINTS = "points.parquet"
TABLE = "points"
"""Name of the queried table in SQL."""

LIMIT_S = 30.0
"""Timeout of a query, the start of its process included."""
LIMIT_GIB = 4.0
"""Address space of the process that answers."""
THREADS = 4
"""Threads of the same process."""

_MOST = 1e6
_WRONG = 2
_LAST = 400
_ANSWER = "from railyard.face.api.query import answer; answer()"
"""A process that imports no module of the user's, so that scripts need no guard around their main program."""
_ASKING = ("select", "with")
_READERS = re.compile(r"\bread_(csv|ipc|json|ndjson|parquet)\b", re.IGNORECASE)
"""Functions with which the SQL of Polars opens files."""
_QUOTED = re.compile(r"""["'`]([^"'`]+)["'`]""")


def query(
    sources: str | Path | Sequence[str | Path],
    sql: str = "SELECT * FROM points",
    *,
    limit_s: float = LIMIT_S,
    limit_gib: float = LIMIT_GIB,
    threads: int = THREADS,
) -> pl.DataFrame:
    """Answers a question in SQL to the points of kept plans, or to the variants of kept runs.

    It is answered in a process of its own, which opens no file but the sources.

    Args:
        sources: Folders of plans (their `points.parquet`: a row a design, demand and engine), of runs (a row a
            variant), a folder that holds such folders, or Parquet files.
        sql: One SELECT over the table `points`. Where there are several sources, the column `source` says which.
        limit_s: Seconds after which it is given up.
        limit_gib: Memory of the process (its address space), GiB.
        threads: That the process may use.

    Raises:
        InputError: A source holds neither, or the question is wrong (with the nearest right spelling of a column), or
            takes more than a limit.
    """
    import polars as pl

    given = {"limit_s": (limit_s, 1e-3), "limit_gib": (limit_gib, 1), "threads": (threads, 1)}
    for name, (value, least) in given.items():
        if not least <= value <= _MOST:
            raise InputError("there is no such limit", key=name, found=value, allowed=f"{least:g} to {_MOST:g}")
    found = [sources] if isinstance(sources, str | Path) else list(sources)
    question = {"sources": list(map(str, found)), "sql": sql, "limit_gib": limit_gib, "threads": threads}
    over = f"at most {limit_s:g} s and {limit_gib:g} GiB of memory"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ANSWER],
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"the query was stopped after {limit_s:g} s", key="SQL", found=sql, allowed=over) from None
    if done.returncode == _WRONG:
        raise InputError.many(Problem(**one) for one in json.loads(done.stdout))
    if done.returncode < 0 or b"emory" in done.stderr:
        raise InputError("the query ran out of memory", key="SQL", found=sql, allowed=over)
    if done.returncode:
        raise RuntimeError(f"the query process failed: {done.stderr.decode(errors='replace')[-_LAST:]}")
    return pl.read_ipc(BytesIO(done.stdout))


def answer() -> None:
    """Answers the question on stdin: the rows as Arrow on stdout, or what is wrong as JSON with the code `_WRONG`."""
    question = json.load(sys.stdin)
    die_with_parent(os.getppid())
    os.environ["POLARS_MAX_THREADS"] = str(question["threads"])  # Polars has not been imported
    limit_memory(int(question["limit_gib"] * (1 << 30)))
    try:
        tables = [each for source in question["sources"] for each in _tables(Path(source))]
        rows = _answered(_together(tables), question["sql"])
    except InputError as error:
        print(json.dumps([vars(problem) for problem in error.problems]))  # noqa: T201 - to who asked
        raise SystemExit(_WRONG) from None
    rows.write_ipc(sys.stdout.buffer)


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
    """Tables of a source, by the names of the folders.

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
        raise InputError("this is not a query", key="SQL", found=sql, allowed="one SELECT over the table `points`")
    reader = _READERS.search(sql)
    if reader:
        raise InputError(
            f"a query may not open files: `{reader[0]}`", key="SQL", found=sql, allowed=f"the table `{TABLE}`"
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
    return InputError(f"the query cannot be answered: {text}", key="SQL", found=sql)
