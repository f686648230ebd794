"""Messages for the user on stderr: problems with their place in a file, remarks, and colors if supported."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from railyard.kit.errors import InputError, Interrupted
from railyard.kit.prose import prose_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from railyard.kit.errors import RailyardError
    from railyard.work.scenario.load import Draft
    from railyard.work.study.presentation import Sheet


_read: list[Draft] = []
"""The scenario that the command has loaded."""
_LINES = "\n\t"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal interprets instead of showing: control characters and bidirectional overrides."""


def visible(text: str, keep: str = "") -> str:
    """Untrusted text made safe to show: characters that a terminal would interpret are escaped.

    Args:
        text: Names out of files, say.
        keep: Control characters that stay.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def show(error: RailyardError) -> None:
    """Prints every problem of an error on stderr: what, where, the line with a caret, and what is allowed."""
    problems = placed(error).problems if isinstance(error, InputError) else ()
    for text in [problem.render() for problem in problems] or [str(error)]:
        sys.stderr.write(f"{paint('error:', 'red')} {visible(text, keep=_LINES)}\n")


def placed(error: InputError) -> InputError:
    """The error with the places of its keys in the command's scenario, if it names no place."""
    if not _read:
        return error
    from railyard.work.scenario.model import Scenario
    from railyard.work.scenario.problems import known

    draft = _read[0]
    return InputError.many(
        draft.blame(InputError.many([one])).problems[0]
        if one.file is None and one.key and known(one.key.split("."), Scenario)
        else one
        for one in error.problems
    )


def scenario(path: Path, sets: Sequence[str] = ()) -> Draft:
    """A scenario file; remarks on it go to stderr.

    Raises:
        InputError: With the place of every fault.
    """
    from railyard.work.scenario import load

    draft = load.load(path, sets)
    _read[:] = [draft]
    for problem in draft.unusual:
        sys.stderr.write(f"{paint('warning:', 'yellow')} {visible(problem.render(), keep=_LINES)}\n")
    return draft


def say(text: str, colour: str | None = None) -> None:
    """One line of words on stderr."""
    sys.stderr.write(f"{paint(visible(text, keep=_LINES), colour)}\n")


def so_far(text: str) -> NoReturn:
    """Ends a command that a signal stopped, after it has printed its partial results.

    Args:
        text: What the partial results are, and what is missing.

    Raises:
        Interrupted: Always; the exit code is that of the signal.
    """
    say(f"incomplete: {text}", "yellow")
    raise Interrupted


def paint(text: str, colour: str | None) -> str:
    """The text in a color if stderr is a terminal with colors."""
    if colour is None or not sys.stderr.isatty() or "NO_COLOR" in os.environ:
        return text
    return typer.style(text, fg=colour, bold=True)


_GAP = "  "
_CELL = 26
"""Widest cell of a transposed table; longer text is wrapped."""


def emit(text: str) -> None:
    """One line, or several, of data on stdout."""
    sys.stdout.write(f"{text}\n")


def wrapped(text: str) -> str:
    """Prose in lines of at most 100 columns; continuation lines are indented."""
    return "\n".join(prose_lines(text, _PROSE, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))


_PROSE = 100


class Table:
    """Rows of text under headings.

    Args:
        headings: One per column.
        right: Right-aligned columns.
        turn: Whether a table that is too wide is transposed; otherwise its last column is wrapped.
        prose: Whether the last column is wrapped at 100 columns where stdout is no terminal, too.
    """

    def __init__(
        self, headings: Sequence[str], right: Sequence[int] = (), *, turn: bool = False, prose: bool = False
    ) -> None:
        self.headings = list(headings)
        self.right = frozenset(right)
        self.turn = turn
        self.prose = prose
        self.rows: list[tuple[str, ...]] = []

    def add(self, *cells: str) -> None:
        """Adds a row."""
        self.rows.append(tuple(map(visible, cells)))

    def print(self) -> None:
        """Prints the table in a form suited to stdout."""
        if not sys.stdout.isatty():
            emit("\n".join(self.folded(_PROSE)) if self.prose else self.plain())
            return
        width = shutil.get_terminal_size().columns
        if max(map(len, self.plain().splitlines())) <= width:
            emit(_ruled(self.plain().splitlines()))
        elif self.turn:
            emit("\n\n".join(self.turned(width)))
        else:
            emit(_ruled(self.folded(width)))

    def plain(self) -> str:
        """Columns separated by two spaces, headings in one line, nothing truncated."""
        return "\n".join(_aligned([tuple(self.headings), *self.rows], self.right))

    def folded(self, width: int) -> list[str]:
        """Lines of the table with its last column wrapped to the remaining width."""
        rows = [tuple(self.headings), *self.rows]
        before = sum(max(len(row[column]) for row in rows) + len(_GAP) for column in range(len(self.headings) - 1))
        lines: list[tuple[str, ...]] = []
        for row in rows:
            first, *more = prose_lines(row[-1], max(width - before, _CELL))
            lines.append((*row[:-1], first))
            lines += [(*[""] * (len(row) - 1), part) for part in more]
        return _aligned(lines, self.right)

    def turned(self, width: int) -> Iterable[str]:
        """The transposed table, headings on the left, in as many blocks as needed for the width."""
        columns = [[_folded(cell) for cell in row] for row in self.rows]
        used = max(map(len, self.headings))
        block: list[list[list[str]]] = []
        for column in columns:
            wide = max(len(line) for cell in column for line in cell) + len(_GAP)
            if block and used + wide > width:
                yield self._block(block)
                block, used = [], max(map(len, self.headings))
            block.append(column)
            used += wide
        if block:
            yield self._block(block)

    def _block(self, columns: Sequence[Sequence[list[str]]]) -> str:
        lines: list[tuple[str, ...]] = []
        for number, heading in enumerate(self.headings):
            cells = [column[number] for column in columns]
            for line in range(max(map(len, cells))):
                parts = [cell[line] if line < len(cell) else "" for cell in cells]
                lines.append((heading if line == 0 else "", *parts))
        return _ruled(_aligned(lines, ()))


def _folded(cell: str) -> list[str]:
    return prose_lines(cell, _CELL)


def _aligned(rows: Sequence[tuple[str, ...]], right: Iterable[int]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    to_right = set(right)
    return [
        _GAP.join(
            cell.rjust(width) if column in to_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _ruled(lines: Sequence[str]) -> str:
    """The first line as a heading, bold if colors are on, with a rule below it."""
    rule = "─" * max(map(len, lines))
    head = lines[0] if "NO_COLOR" in os.environ else f"\x1b[1m{lines[0]}\x1b[0m"
    return "\n".join([head, rule, *lines[1:]])


_AFTER_S = 0.5
_EVERY_S = 0.1
_SAYS_S = 2.0
_MINUTES_S = 180.0
_LONG_S = 120.0
_LEAST = 0.1
"""Share of the work that tells its pace: the first of many unequal parts does not."""


def print_parts(parts: Iterable[str | Sheet]) -> None:
    """Prints lines and tables."""
    for part in parts:
        if isinstance(part, str):
            emit(part if "\n" in part else wrapped(part))
            continue
        if part.title:
            emit(wrapped(part.title))
        table = Table(part.headings, part.to_right, turn=True)
        for cells in part.rows:
            table.add(*cells)
        table.print()


class Progress:
    """Shows the progress of a run; called with a stage and its share from 0 to 1, and used as a context manager.

    Args:
        wanted: False disables it.
        every_s: Interval of lines if stderr is not a terminal; None: never.
        shorter: How to shorten the work, for a note when minutes of it are left; empty: no note.
    """

    def __init__(self, *, wanted: bool, every_s: float | None = None, shorter: str = "") -> None:
        terminal = sys.stderr.isatty()
        self._shorter = shorter if wanted else ""
        self.wanted = wanted and terminal
        self.begin = time.monotonic()
        self.last = 0.0
        self.width = 0
        self._stage = self._whole = (self.begin, 0.0)
        self._seen = 0.0
        self._latest = ("", 0.0)
        self._due: float | None = None
        self._lines = _Lines(every_s, self._line) if wanted and not terminal and every_s is not None else None

    def __enter__(self) -> Progress:
        """Begins."""
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clears the bar."""
        if self._lines is not None:
            self._lines.end()
        self._write("")

    def __call__(self, stage: str, share: float) -> None:
        """Reports that `stage` is done to `share`."""
        now = time.monotonic()
        before = self._latest[0].partition(":")[0]
        if share < self._seen or share <= 0.0:
            self._whole = (now, share)
        if share < self._seen or (before and stage.partition(":")[0] != before):
            self._stage = (now, share)
        self._latest, self._seen = (stage, share), share
        self._due = self._end(now, share)
        left = self._left(now)
        if self._shorter and self._due is not None and self._due - now > _LONG_S:
            self._write("")
            say(f"this takes about {(self._due - now) / 60:.0f} min; {self._shorter}")
            self._shorter = ""
        if not self.wanted or now - self.begin < _AFTER_S or now - self.last < _EVERY_S:
            return
        self.last = now
        filled = round(20 * min(max(share, 0.0), 1.0))
        self._write(f"{'#' * filled}{'.' * (20 - filled)} {share:4.0%}  {now - self.begin:5.1f} s{left}  {stage}")

    def _line(self) -> str:
        stage, share = self._latest
        now = time.monotonic()
        return f"{now - self.begin:.0f} s, {share:.0%}: {stage}{self._left(now)}"

    def _end(self, now: float, share: float) -> float | None:
        """When the work will end at the pace of the current stage, or of all so far; None while unknown.

        A share that falls starts other work, and another word before the colon another stage of it.
        """
        for begin, first in (self._stage, self._whole):
            took_s, done = now - begin, share - first
            if took_s >= _SAYS_S and done >= _LEAST and share < 1.0:
                return now + took_s * (1.0 - share) / done
        return None

    def _left(self, now: float) -> str:
        """Time left of the current stage, in words; empty while unknown, or where it takes longer than was thought."""
        if self._due is None or self._due <= now:
            return ""
        left_s = self._due - now
        return f", {left_s:.0f} s left" if left_s < _MINUTES_S else f", {left_s / 60:.0f} min left"

    def _write(self, text: str) -> None:
        if not self.wanted:
            return
        cut = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + cut.ljust(self.width) + ("\r" if not cut else ""))
        sys.stderr.flush()
        self.width = len(cut)


class _Lines(Thread):
    """Writes a line at intervals, even while one task takes long.

    Args:
        every_s: Interval.
        line: Returns the line.
    """

    def __init__(self, every_s: float, line: Callable[[], str]) -> None:
        super().__init__(name="progress", daemon=True)
        self._every_s, self._line, self._over = every_s, line, Event()

    def run(self) -> None:
        while not self._over.wait(self._every_s):
            sys.stderr.write(f"{self._line()}\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Stops writing."""
        self._over.set()
        self.join()


Scenario = Annotated[Path, typer.Argument(metavar="SCENARIO", help="The scenario, a YAML file.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Engine = Annotated[str | None, typer.Option("--engine", metavar="NAME", help="Engine, in place of the scenario's.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set one dotted key; may be repeated.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=A,B,C", help="Compare these values of a key; may be repeated."),
]
Ray = Annotated[
    str | None, typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: auto, local, HOST:6379.")
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder in which the run's folder is written.")]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Keep the answer and its page in this folder; `railyard ui` shows those in runs/.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only data and errors.")]
Details = Annotated[bool, typer.Option("--details", help="Print every column and table.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
Extra = Annotated[
    Path | None, typer.Option("--catalog", metavar="FILE", help="Your catalogue, on top of the built-in one.")
]

Names = Annotated[Path | None, typer.Option("--names", metavar="FILE", help="Names of a scenario's servers, in order.")]
Cluster = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="A scenario, of which only `cluster` is read.")
]
Junit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE.xml", help="Write a JUnit report, for build systems.")
]
System = Annotated[str, typer.Option("--os", metavar="NAME", help="Of Ethernet switches: frr, sonic, eos or junos.")]
