"""Reads requests from a file: the format is recognised, every row checked, and nothing used of a file with a fault."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from railyard.graph.request_table import LAST_PS, NO_SESSION, RequestTable
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.quantities import ranges
from railyard.kit.table import Table
from railyard.work.serving.traces.formats import FORMATS, Batch, LineFaults, TraceFormat, TraceRows, batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.work.serving.traces.formats import TraceFormat


def heading(text: str, path: Path) -> Table:
    """The table under a heading, whose rows come in batches.

    Raises:
        InputError: The heading is wrong.
    """
    return Table(text, path, delimiter=",")


def columns_of(batch: Batch, table: Table, faults: LineFaults) -> tuple[Batch, dict[str, list[Any]]]:
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


def objects(batch: Batch, form: TraceFormat, faults: LineFaults) -> tuple[Batch, dict[str, list[Any]]]:
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


def _refuse_object(line: int, row: Any, form: TraceFormat, faults: LineFaults) -> None:
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


Empty = Literal["refuse", "drop"]
_SORT = "sort them: `sort: true` in a scenario, --sort, sort=True"
_DROP = "drop such rows: `drop_empty: true` in a scenario, --drop-empty, empty='drop'"
CHUNK = 65_536
_MOST_KINDS = 32_767


def read_trace(
    path: Path | str, format: str | None = None, *, sort: bool = False, empty: Empty = "refuse"
) -> RequestTable:
    """The requests of a trace.

    Args:
        path: The file.
        format: Its format; recognised from the heading, or from the keys of the first line, by default.
        sort: Put rows that are out of order in their place instead of refusing them; `source` says how many.
        empty: What becomes of rows without an answer (0 tokens), such as failed requests: `refuse` the file, or `drop`
            them; `source` says how many.

    Raises:
        InputError: The file cannot be read or recognised, or rows are wrong; with their lines.
    """
    reader = _Reader(Path(path), format, empty)
    rows = _joined(list(reader.rows(CHUNK, ordered=not sort)))
    moved = 0
    if sort and len(rows.time):
        order = np.argsort(rows.time, kind="stable")
        moved = int((np.maximum.accumulate(rows.time) > rows.time).sum())
        reader.origin = rows.time[order[0]] if reader.form.absolute else 0
        rows = _taken(rows, order)
    return reader.requests(rows, moved)


def stream_trace(
    path: Path | str, chunk: int = 100_000, *, format: str | None = None, empty: Empty = "refuse"
) -> Iterator[RequestTable]:
    """The requests of a trace, `chunk` rows at a time, in memory that does not grow with the file.

    Arrivals count from the start of the trace in every chunk, and classes keep their numbers. A fault is raised when
    its rows are reached; rows before it have been handed out by then.

    Args:
        path: The file.
        chunk: Rows of a chunk, at least 1.
        format: As in `read_trace`.
        empty: As in `read_trace`.

    Raises:
        InputError: As in `read_trace`.
    """
    if chunk < 1:
        raise InputError("a chunk has at least one row", key="chunk", found=chunk)
    reader = _Reader(Path(path), format, empty)
    for rows in reader.rows(chunk, ordered=True):
        if len(rows.time):
            yield reader.requests(rows, 0)


def read_lengths(path: Path | str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of prompts and answers of a trace, of a table without arrivals too (Vidur's arXiv summaries).

    Raises:
        InputError: As in `read_trace`.
    """
    reader = _Reader(Path(path), None, "refuse", timeless=True)
    rows = _joined(list(reader.rows(CHUNK, ordered=False)))
    return rows.input_tokens, rows.output_tokens


@dataclass
class _Reader:
    """One pass over one file, and what it has to remember from row to row."""

    path: Path
    name: str | None
    empty: Empty
    timeless: bool = False
    origin: Any = 0
    last: Any = None
    dropped: int = 0
    block_tokens: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    form: TraceFormat = field(init=False)

    def rows(self, chunk: int, *, ordered: bool) -> Iterator[TraceRows]:
        """All rows as numbers, checked, in batches."""
        if self.empty not in ("refuse", "drop"):
            raise InputError("rows without an answer are refused or dropped", key="empty", found=self.empty)
        table: Table | None = None
        for batch in batches(self.path, chunk):
            skipped = 0
            if not hasattr(self, "form"):
                table = self._recognise(batch)
                skipped = 0 if table is None else 1
            yield self._checked(Batch(batch.numbers[skipped:], batch.texts[skipped:]), table, ordered)
        if not hasattr(self, "form") or self.last is None:
            raise InputError("the file holds no requests", file=self.path)

    def requests(self, rows: TraceRows, moved: int) -> RequestTable:
        """Rows in order as requests."""
        notes = [f"{moved} rows out of order were sorted"] if moved else []
        notes += [f"{self.dropped} rows without an answer were dropped"] if self.dropped else []
        count = len(rows.time)
        counts = np.zeros(count, np.int64) if rows.block_counts is None else rows.block_counts
        names = rows.kind or ["request"] * count
        for name in dict.fromkeys(names):
            self.kinds.setdefault(name, len(self.kinds))
        if len(self.kinds) > _MOST_KINDS:
            raise InputError(f"more than {_MOST_KINDS} classes of requests", file=self.path, key="kind")
        return RequestTable(
            arrival_ps=self._arrivals(rows),
            input_tokens=rows.input_tokens.astype(np.int32),
            output_tokens=rows.output_tokens.astype(np.int32),
            block_ptr=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))),
            block_hash=rows.block_hash,
            block_tokens=rows.block_tokens,
            session=np.full(count, NO_SESSION) if rows.session is None else rows.session,
            kind=np.fromiter((self.kinds[name] for name in names), np.int16, count),
            kinds=tuple(self.kinds),
            source="; ".join([f"{self.path.name} ({self.form.title})", *notes]),
        )

    def _arrivals(self, rows: TraceRows) -> NDArray[np.int64]:
        after: NDArray[Any] = rows.time - self.origin
        if len(after) and float(after[-1]) * self.form.ps_per_tick >= LAST_PS:
            raise InputError(
                "the trace spans more than 106 days, the longest time there is",
                file=self.path,
                line=int(rows.line[-1]),
                hint="cut the file",
            )
        if after.dtype.kind == "i":
            return np.asarray(after, np.int64) * self.form.ps_per_tick
        return np.asarray(np.rint(after * float(self.form.ps_per_tick)), np.int64)

    def _recognise(self, batch: Batch) -> Table | None:
        """Sets the format; gives the table under its heading, None where there are objects."""
        objects = batch.texts[0].startswith(("{", "["))
        if objects:
            row = parsed(batch.texts[0])
            names = list(row) if isinstance(row, dict) else []
            if not isinstance(row, dict) and self.name is None:
                found = row if isinstance(row, str) else "a list"
                raise InputError("the line is not a JSON object", file=self.path, line=1, found=found)
        else:
            table = heading(batch.texts[0], self.path)
            names = list(table.columns)
        style = "jsonl" if objects else "csv"
        self.form = FORMATS.get(self.name) if self.name else _nearest(names, style, self.path)
        if self.form.style != style:
            wanted = "a table under a heading" if objects else "one JSON object per line"
            found = batch.texts[0][:60]
            raise InputError(f"{self.form.title} traces are {wanted}", file=self.path, line=1, found=found)
        if objects:
            return None
        _check_heading(names, self.form, self.path, timeless=self.timeless)
        return table

    def _checked(self, batch: Batch, table: Table | None, ordered: bool) -> TraceRows:
        faults = LineFaults(self.path)
        split = objects(batch, self.form, faults) if table is None else columns_of(batch, table, faults)
        batch, by_name = split
        if self.timeless:
            by_name.setdefault(self.form.needed[0], ["0"] * len(batch.numbers))
        rows = self.form.rows(batch, by_name, faults)
        faults.refuse()
        _check_blocks(rows, faults)
        rows = self._with_answers(rows, faults)
        faults.refuse()
        self._remember(rows, faults, ordered)
        faults.refuse()
        return rows

    def _with_answers(self, rows: TraceRows, faults: LineFaults) -> TraceRows:
        silent = rows.output_tokens == 0
        if not silent.any():
            return rows
        if self.empty == "drop":
            self.dropped += int(silent.sum())
            return _taken(rows, np.flatnonzero(~silent))
        for line in rows.line[silent].tolist():
            faults.add(line, "a request without an answer: 0 output tokens", hint=_DROP)
        return rows

    def _remember(self, rows: TraceRows, faults: LineFaults, ordered: bool) -> None:
        if not len(rows.time):
            return
        if self.last is None:
            self.origin = rows.time[0] if self.form.absolute else 0
            self.last = rows.time[0]
        before = np.concatenate(([self.last], rows.time[:-1]))
        if self.block_tokens and rows.block_tokens not in (0, self.block_tokens):
            found, allowed = rows.block_tokens, str(self.block_tokens)
            faults.add(int(rows.line[0]), "block_tokens changes within the file", found=found, allowed=allowed)
        self.block_tokens = self.block_tokens or rows.block_tokens
        if ordered:
            for row in np.flatnonzero(rows.time < before).tolist():
                faults.add(int(rows.line[row]), "out of order: earlier than the row before", hint=_SORT)
        self.last = rows.time[-1]


def _nearest(names: list[str], style: str, path: Path) -> TraceFormat:
    """The format that these columns are of; where none fits, the one that shares the most."""
    known = [form for _, form in FORMATS.items() if form.style == style]
    for form in known:
        if set(form.needed) <= set(names) <= set(form.columns):
            return form
    best = max(known, key=lambda form: _shared(names, form))
    if _shared(names, best) == 0:
        allowed = "; ".join(f"{name}: {', '.join(form.needed)}" for name, form in FORMATS.items())
        raise InputError(
            "the format of the trace is not known", file=path, line=1, found=", ".join(names)[:120], allowed=allowed
        )
    return best


def _shared(names: list[str], form: TraceFormat) -> float:
    exact = len(set(names) & set(form.columns))
    return exact + sum(0.5 for name in names if name not in form.columns and did_you_mean(name, form.columns))


def _check_heading(names: list[str], form: TraceFormat, path: Path, *, timeless: bool) -> None:
    for name in names:
        if name not in form.columns:
            hint = did_you_mean(name, form.columns)
            raise InputError(
                f"unknown column `{name[:60]}` of {form.title}", file=path, line=1, allowed=form.columns, hint=hint
            )
    missing = [name for name in form.needed[timeless:] if name not in names]
    if missing:
        lengths_only = missing == [form.needed[0]]
        hint = "it has lengths only: `read_lengths` and synthetic arrivals can use them" if lengths_only else None
        raise InputError(f"the heading lacks `{missing[0]}` of {form.title}", file=path, line=1, hint=hint)


def _check_blocks(rows: TraceRows, faults: LineFaults) -> None:
    if rows.block_counts is None or not len(rows.block_hash):
        return
    most = -(-rows.input_tokens // rows.block_tokens) if rows.block_tokens else np.zeros_like(rows.input_tokens)
    for row in np.flatnonzero(rows.block_counts > most).tolist():
        faults.add(
            int(rows.line[row]),
            "more block hashes than the prompt has blocks",
            found=rows.block_counts[row],
            allowed=str(most[row]),
        )


def _taken(rows: TraceRows, order: NDArray[np.int64]) -> TraceRows:
    counts, hashes = rows.block_counts, rows.block_hash
    if counts is not None:
        starts = (np.cumsum(counts) - counts)[order]
        counts = counts[order]
        hashes = hashes[ranges(starts, counts)]
    return TraceRows(
        line=rows.line[order],
        time=rows.time[order],
        input_tokens=rows.input_tokens[order],
        output_tokens=rows.output_tokens[order],
        block_counts=counts,
        block_hash=hashes,
        session=None if rows.session is None else rows.session[order],
        kind=None if rows.kind is None else [rows.kind[row] for row in order.tolist()],
        block_tokens=rows.block_tokens,
    )


def _joined(parts: list[TraceRows]) -> TraceRows:
    """Batches of one file as one."""
    if len(parts) == 1:
        return parts[0]

    def column(name: str) -> Any:
        given = [getattr(part, name) for part in parts if getattr(part, name) is not None]
        return np.concatenate(given) if given else None

    names = ("line", "time", "input_tokens", "output_tokens", "block_counts", "block_hash", "session")
    kinds = [part.kind for part in parts if part.kind is not None]
    return TraceRows(
        **{name: column(name) for name in names},
        kind=list(chain.from_iterable(kinds)) if kinds else None,
        block_tokens=max(part.block_tokens for part in parts),
    )
