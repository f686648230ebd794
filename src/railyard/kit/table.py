"""The reader of tables that users supply: a heading, then one row per line, in cells parted by commas, tabs or bars.

It is strict, because a row that is read askew gives a wrong number and no error. Each row has exactly the cells of the
heading, columns have names that differ, and a quote is opened at the beginning of a cell and closed at its end on the
same line (RFC 4180, without line breaks in cells). Errors name file, line and column.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean, suggest
from railyard.kit.files import opened, read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


LIST = ".railyard-files"
_OLD = "-old"
_HINT = "move it, or name another folder with `--out`"


def refuse_changed(folder: Path) -> None:
    """Refuses, before any work is done, a folder that Railyard did not write or whose files of its were changed.

    Raises:
        InputError: It is such a folder, or a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("this is a file, expected a folder", file=folder)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LIST).is_file():
        raise InputError("Railyard did not write this folder and would overwrite it", file=folder, hint=_HINT)
    for name, digest in _listed(folder).items():
        if os.path.lexists(folder / name) and not _as_written(folder / name, digest):
            raise _changed(folder / name)


def take_place(new: Path, final: Path) -> None:
    """Puts a folder in the place of an earlier one, of which files that Railyard did not write stay.

    Killed between two steps, it leaves the earlier folder under `<new>-old`, which `restore` puts back.

    Args:
        new: With all its files, in the same file system.
        final: Its place.

    Raises:
        InputError: A file that Railyard did not write has the name of a new one.
        OSError: It cannot be done; the earlier folder is as it was.
    """
    names = _files(new)
    lines = [f"{_digest(new / name)}  {name}\n" for name in names]
    kept = [name for name in _foreign(final) if final.is_dir()]
    for name in kept:
        if name in names:
            raise _changed(final / name)
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        _carry(final / name, new / name)
    (new / LIST).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    old = new.with_name(f"{new.name}{_OLD}")
    if final.exists():
        final.replace(old)
    new.replace(final)
    shutil.rmtree(old, ignore_errors=True)


def left_behind(folder: Path, separator: str) -> list[tuple[Path, str]]:
    """Folders that killed processes left half-written, and the start of their names before the process number.

    Args:
        folder: That holds them, as `<name><separator><number of the process>`.
        separator: A character.
    """
    found = []
    for left in folder.iterdir():
        name, _, pid = left.name.removesuffix(_OLD).rpartition(separator)
        if pid.isdecimal() and not _alive(int(pid)):
            found.append((left, name))
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def restore(left: Path, final: Path) -> None:
    """Clears what a killed process left: an earlier folder goes back to its place when nothing took it.

    Args:
        left: What was left.
        final: The place of the folder that was to be written.
    """
    if left.name.endswith(_OLD) and not final.exists():
        with suppress(OSError):  # another process was quicker
            left.replace(final)
            return
    shutil.rmtree(left, ignore_errors=True)


def _changed(path: Path) -> InputError:
    return InputError(
        "Railyard did not write this file and would overwrite it",
        file=path,
        hint=_HINT,
    )


def _files(folder: Path) -> list[str]:
    """Names of files and links at any depth, sorted."""
    found = (Path(root) / name for root, _, names in os.walk(folder) for name in names)
    links = (
        Path(root) / name for root, names, _ in os.walk(folder) for name in names if (Path(root) / name).is_symlink()
    )
    return sorted(str(path.relative_to(folder)) for path in (*found, *links))


def _foreign(folder: Path) -> list[str]:
    """Files of a folder that Railyard did not write, or that were changed since."""
    listed = _listed(folder)
    return [name for name in _files(folder) if name != LIST and not _as_written(folder / name, listed.get(name))]


def _as_written(path: Path, digest: str | None) -> bool:
    return digest is not None and not path.is_symlink() and path.is_file() and _digest(path) == digest


def _listed(folder: Path) -> dict[str, str]:
    """Digest of each file by its name; empty where there is no list."""
    path = folder / LIST
    if not path.is_file():
        return {}
    rows = (line.split("  ", 1) for line in read_text(path, errors="surrogateescape").split("\n") if "  " in line)
    return {name: digest for digest, name in rows}


def _digest(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _carry(source: Path, target: Path) -> None:
    """A second name for a file, so that a process that is killed loses neither; a copy where none can be given."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SHOWN = 60
_BARE = "|"
"""Dialect of cells that are never quoted, as Slurm writes them."""


class TableRow(dict[str, str]):
    """The cells of a row by column, without blanks around them.

    Attributes:
        line: In the file, from 1.
    """

    __slots__ = ("_table", "_text", "line")

    def __init__(self, table: Table, line: int, text: str, cells: Sequence[str]) -> None:
        super().__init__(zip(table.columns, cells, strict=True))
        self._table, self._text, self.line = table, text, line

    def wrong(
        self, column: str, message: str, *, allowed: object = None, hint: str | None = None, found: object = None
    ) -> InputError:
        """An error in the cell of a column, with its place."""
        found = (self.get(column) or None) if found is None else found
        text = None if found is None else str(found)[:_SHOWN]
        return self.located(InputError(message, key=column, found=text, allowed=allowed, hint=hint))

    def located(self, error: InputError) -> InputError:
        """The same error with file and line, and the place of the cell whose column is its key."""
        spans = _spans(self._text, self._table.delimiter) if error.problems else []
        columns = self._table.columns
        return InputError.many(
            replace(
                problem,
                file=problem.file or self._table.file,
                line=problem.line or self.line,
                column=problem.column or (spans[columns.index(problem.key)] + 1 if problem.key in columns else None),
            )
            for problem in error.problems
        )

    def number(self, column: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        """A number; its unit is that of the column.

        Raises:
            InputError: The cell is none, or out of range.
        """
        value = finite(self[column])
        if value is None:
            allowed = "digits, perhaps with a point and an exponent; the unit is in the column's name"
            raise self.wrong(column, "expected a number", allowed=allowed)
        if not low <= value <= high:
            raise self.wrong(column, "the number is out of range", allowed=_range(low, high))
        return value

    def integer(self, column: str, *, low: float = -math.inf, high: float = math.inf) -> int:
        """A whole number, also one that is written as `8.0`.

        Raises:
            InputError: The cell is none, or out of range.
        """
        value = self.number(column, low=low, high=high)
        if not value.is_integer():
            raise self.wrong(column, "expected a whole number")
        return int(value)

    def one_of(self, column: str, allowed: Collection[str]) -> str:
        """A word of a list.

        Raises:
            InputError: The cell is none of them; with the nearest.
        """
        if self[column] not in allowed:
            hint = did_you_mean(self[column], allowed)
            raise self.wrong(
                column, f"`{self[column][:_SHOWN]}` is not one of the allowed words", allowed=list(allowed), hint=hint
            )
        return self[column]


class Table:
    """A table as its text says it.

    Args:
        text: All of it.
        file: Its name, for messages.
        delimiter: Between cells; None: the one of `,`, tab and `|` that stands most often in the heading.
        comment: What begins a line that is skipped; empty: nothing.
        key: Columns that no two rows have alike.
        lower: Whether names of columns are read in small letters.
        needed: Columns that an empty table should have had, for the message.

    Attributes:
        delimiter: Between cells.
        line: Of the heading, from 1.

    Raises:
        InputError: There is no heading, or a column has no name or that of another.
    """

    def __init__(
        self,
        text: str,
        file: str | Path,
        *,
        delimiter: str | None = None,
        comment: str = "",
        key: Sequence[str] = (),
        lower: bool = False,
        needed: Sequence[str] = (),
    ) -> None:
        self.file = str(file)
        self._key, self._comment, self._seen = tuple(key), comment, dict[tuple[str, ...], int]()
        self._lines = text.removeprefix("\ufeff").split("\n")
        heading = next(self._numbered(0), None)
        if heading is None:
            raise InputError(
                "the table is empty", file=file, allowed=", ".join(needed) or "a heading, and one row per line"
            )
        self.line, words = heading
        self.delimiter = delimiter or max(",\t|", key=words.count)
        self.columns = tuple(self.cells(self.line, words.lower() if lower else words))
        self._check_names(words)

    def require(self, *needed: str, known: Collection[str] | None = None) -> Table:
        """The same table, whose heading has some columns.

        Args:
            needed: They must be there.
            known: All that may be; None: any.

        Raises:
            InputError: A column is missing or unknown; with the nearest.
        """
        unknown = next((name for name in self.columns if known is not None and name not in known), None)
        missing = next((name for name in needed if name not in self.columns), None)
        if unknown is None and missing is not None:
            unknown = suggest(missing, [name for name in self.columns if name not in needed])
        if unknown is not None:
            required = f"; required: {', '.join(needed)}" if needed else ""
            raise InputError(
                f"unknown column `{unknown[:_SHOWN]}`{required}",
                file=self.file,
                line=self.line,
                column=_spans(self._lines[self.line - 1], self.delimiter)[self.columns.index(unknown)] + 1,
                allowed=known and list(known),
                hint=did_you_mean(unknown, known or needed),
            )
        if missing is not None:
            raise InputError(
                f"the column `{missing}` is missing",
                file=self.file,
                line=self.line,
                found=", ".join(self.columns),
                allowed=", ".join(needed),
            )
        return self

    def __iter__(self) -> Iterator[TableRow]:
        """The rows in order.

        Raises:
            InputError: At the first that is wrong.
        """
        for line, text in self.rows():
            yield self.row(line, text)

    def rows(self) -> Iterator[tuple[int, str]]:
        """Numbers and texts of the lines below the heading that are not blank."""
        return self._numbered(self.line)

    def row(self, line: int, text: str) -> TableRow:
        """A row of `rows`.

        Raises:
            InputError: It has not a cell for every column, a quote is wrong, or its key is that of an earlier row.
        """
        cells = self.cells(line, text)
        if len(cells) != len(self.columns):
            raise InputError(
                "a row needs as many cells as the heading",
                file=self.file,
                line=line,
                column=_spans(text, self.delimiter)[len(self.columns)] + 1 if len(cells) > len(self.columns) else None,
                found=f"{len(cells)} cells",
                allowed=f"{len(self.columns)}: {', '.join(self.columns)}",
            )
        row = TableRow(self, line, text, cells)
        if self._key:
            self._refuse_twice(row)
        return row

    def _refuse_twice(self, row: TableRow) -> None:
        first = self._seen.setdefault(tuple(row[name] for name in self._key), row.line)
        if first != row.line:
            words = " and ".join(f"`{row[name][:_SHOWN]}`" for name in self._key)
            raise row.wrong(self._key[-1], f"two rows say {' and '.join(self._key)} {words}", hint=f"line {first} does")

    def _numbered(self, after: int) -> Iterator[tuple[int, str]]:
        for number in range(after, len(self._lines)):
            text = self._lines[number].removesuffix("\r")
            if text.strip() and not (self._comment and text.startswith(self._comment)):
                yield number + 1, text

    def cells(self, line: int, text: str) -> list[str]:
        """The cells of a line, however many there are; raises `InputError` where a quote or a character is wrong."""
        if "\0" in text or "\r" in text:
            odd = next(at for at, letter in enumerate(text) if letter in "\0\r")
            raise InputError("a character that is not text", file=self.file, line=line, column=odd + 1)
        if '"' not in text or self.delimiter == _BARE:
            return [cell.strip() for cell in text.split(self.delimiter)]
        return self._quoted(line, text)

    def _quoted(self, line: int, text: str) -> list[str]:
        spans = [*_spans(text, self.delimiter), len(text) + 1]
        cells = []
        for start, end in pairwise(spans):
            cell = text[start : end - 1].strip()
            inner = cell[1:-1].replace('""', "")
            if '"' in cell and not (len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner):
                raise InputError(
                    "a quote opens a cell and closes it, on the same line",
                    file=self.file,
                    line=line,
                    column=start + text[start:].index('"') + 1,
                    found=cell[:_SHOWN],
                    hint='within quotes a quote is written twice: `""`',
                )
            cells.append(cell[1:-1].replace('""', '"').strip() if '"' in cell else cell)
        return cells

    def _check_names(self, words: str) -> None:
        for at, name in enumerate(self.columns):
            if not name:
                column = _spans(words, self.delimiter)[at] + 1
                raise InputError("a column has no name", file=self.file, line=self.line, column=column, found=words)
            if name in self.columns[:at]:
                column = _spans(words, self.delimiter)[at] + 1
                raise InputError(
                    f"two columns are called `{name[:_SHOWN]}`", file=self.file, line=self.line, column=column
                )


def read(
    path: Path,
    *needed: str,
    known: Collection[str] | None = None,
    delimiter: str | None = None,
    comment: str = "",
    key: Sequence[str] = (),
    lower: bool = False,
    most: int | None = None,
) -> Table:
    """The table of a file; see `Table` and its `require`.

    Raises:
        InputError: It cannot be read, or its heading is wrong.
    """
    text = read_text(path, most)
    table = Table(text, path, delimiter=delimiter, comment=comment, key=key, lower=lower, needed=needed)
    return table.require(*needed, known=known)


def headless(text: str, file: str | Path) -> list[tuple[int, list[str]]]:
    """The lines of a table without a heading, such as a matrix, each with its cells.

    Raises:
        InputError: It is empty, or a quote or a character is wrong.
    """
    table = Table(f"-\n{text}", file)
    table.delimiter = ","
    rows = [(line - 1, table.cells(line - 1, words)) for line, words in table.rows()]
    if not rows:
        raise InputError("the table is empty", file=file)
    return rows


def finite(text: str) -> float | None:
    """A finite number in ASCII digits, perhaps with a point and an exponent; None: the text is none."""
    value = float(text) if _NUMBER.fullmatch(text) else math.inf
    return value if math.isfinite(value) else None


def _spans(text: str, delimiter: str) -> list[int]:
    """Start and end of each cell; delimiters between quotes do not count. A quote after a closing one opens again."""
    starts, quoted, begins, closed = [0], False, True, -1
    for at, letter in enumerate(text):
        if letter == '"' and delimiter != _BARE and (quoted or begins or closed == at - 1 >= 0):
            quoted = not quoted
            closed = -1 if quoted else at
        elif letter == delimiter and not quoted:
            starts.append(at + 1)
        begins = letter == delimiter or (begins and letter == " ")
    return starts


def _range(low: float, high: float) -> str:
    if math.isinf(high):
        return f"{low:g} or more"
    return f"at most {high:g}" if math.isinf(low) else f"{low:g} to {high:g}"
