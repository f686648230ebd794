"""The exception tree. Users only ever see these.

    RailyardError
    ├── InputError        what the user wrote is wrong: exit code 2
    ├── SimulationError   a run cannot finish: exit code 1 (`Hung`: for dead links; `Stalled`: though none is dead)
    ├── OutputError       what was found cannot be kept, the disk being full: exit code 1
    └── StaleCoreError    Railyard was updated and its compiled part was not: exit code 1

An `InputError` names the file, line, key, what was found, what is allowed and the nearest right spelling, and may carry
several problems, because a file with five typing errors should be fixed in one go.
"""

from __future__ import annotations

import difflib
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails

T = TypeVar("T")

# Columns of a source line that an error shows; one with a caret is shown as far as that.
_LONGEST = 90
# Letters of what was found that an error shows: a cell may hold a whole file.
_LONGEST_FOUND = 400
_MOST_SHOWN_BYTES = 256 << 20
"""Largest file of which a source line is shown; of larger ones only its number."""


class RailyardError(Exception):
    """Base of every error that Railyard raises on purpose."""

    exit_code = 1


class Stopped(RailyardError):
    """The user stopped the run; it ends every thread at once, and is no fault."""


class Interrupted(KeyboardInterrupt):
    """The process was asked to end, with what was found so far; a `KeyboardInterrupt` alone asks for the end."""


class SimulationError(RailyardError):
    """A run cannot finish: a deadlock, a flow without a path, a fault that never ends."""


class Hung(SimulationError):
    """Communications wait for dead links that nothing brings back.

    Attributes:
        since_ps: From when on the first of them has waited, in simulated time: its start, or the links' death.
        what: That one, in words.
    """

    def __init__(self, message: str, since_ps: int, what: str) -> None:
        super().__init__(message)
        self.since_ps = since_ps
        self.what = what


class Stalled(SimulationError):
    """Packets go on and flows never end, though no link is dead: pauses that wait for one another, too many errors."""


class OutputError(RailyardError):
    """Results cannot be stored: the disk is full, or files may not grow so large. Nothing is left behind."""

    def __init__(self, reason: str, file: Path) -> None:
        super().__init__(f"the output cannot be written: {reason}\n  --> {file}")


class StaleCoreError(RailyardError):
    """The compiled part is older than the Python part: a source tree was updated and not built again."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"the compiled core is older than Railyard's Python code, which asks it for `{missing}`: build it again,"
            " with `pip install -e .` in the source tree"
        )


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the input, and where.

    Attributes:
        message: What is wrong, without a full stop.
        file: The file in which it stands.
        line: Line, counted from 1.
        column: Column, counted from 1.
        key: Dotted key, for example `cluster.back_end.link_rate`.
        found: What stands there.
        allowed: What may stand there.
        hint: How to fix it; the nearest right spelling where there is one.
        unknown: Whether what was found is a name that nothing has: it is misspelt, not impossible.
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    found: str | None = None
    allowed: str | None = None
    hint: str | None = None
    unknown: bool = False

    def headline(self) -> str:
        """The fault: `key: message`, with the hint behind it, or on a line of its own below a table."""
        text = f"{self.key}: {self.message}" if self.key else self.message
        between = "\n" if "\n" in self.message else "; "
        return f"{text}{between}{self.hint}" if self.hint else text

    def render(self) -> str:
        """The whole problem: headline, place, source line with a caret, found and allowed."""
        lines = [self.headline()]
        lines += self._place()
        if self.found is not None and self.found not in self.message:
            lines.append(f"  found: {_cut(self.found, _LONGEST_FOUND)}")
        if self.allowed:
            lines.append(f"  allowed: {self.allowed}")
        return "\n".join(lines)

    def _place(self) -> list[str]:
        if self.file is None:
            return []
        if self.line is None:
            return [f"  --> {self.file}"]
        place = f"  --> {self.file}:{self.line}" + (f":{self.column}" if self.column is not None else "")
        source = _source_line(self.file, self.line, self.column or 0)
        if source is None:
            return [place]
        gutter = f"{self.line:4d} |"
        blank = " " * 5 + "|"
        caret = [f"{blank} {' ' * (self.column - 1)}^"] if self.column is not None else []
        return [place, blank, f"{gutter} {source}", *caret]


def _source_line(file: str, line: int, column: int) -> str | None:
    path = Path(file)
    if not path.is_file() or path.stat().st_size > _MOST_SHOWN_BYTES:
        return None
    with path.open(encoding="utf-8", errors="replace") as handle:
        text = next(islice(handle, line - 1, None), None)
    return None if text is None else _cut(text.rstrip("\n"), max(_LONGEST, column))


def _cut(text: str, longest: int) -> str:
    """A source line that is not too long: rows of a table have hundreds of columns, and the message names the cell."""
    return text if len(text) <= longest else text[:longest] + " ..."


NAMED = 20
"""Problems of a kind in one file that are named one by one; the others of it are counted."""


def abridged(problems: Iterable[Problem]) -> list[Problem]:
    """The problems of a file of many lines, of which each kind is named so often at most."""
    out: list[Problem] = []
    times: dict[str, int] = {}
    for problem in problems:
        times[problem.message] = times.get(problem.message, 0) + 1
        if times[problem.message] <= NAMED:
            out.append(problem)
    more = ((message, count - NAMED) for message, count in times.items() if count > NAMED)
    return out + [
        Problem(f"{message}: {count} more of these are not listed", file=out[0].file) for message, count in more
    ]


def causes(rows: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Pydantic's errors, without lists that are too short only because their wrong items were not counted."""
    inner = {row["loc"][:length] for row in rows for length in range(len(row["loc"]))}
    return [row for row in rows if row["type"] != "too_short" or row["loc"] not in inner]


_SHORT = 80
"""Characters of what is allowed from which on a reason does not list it."""


class InputError(RailyardError):
    """Faulty input of the user."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
        found: object = None,
        allowed: object = None,
        hint: str | None = None,
        unknown: bool = False,
    ) -> None:
        problem = Problem(
            message=message,
            file=None if file is None else str(file),
            line=line,
            column=column,
            key=key,
            found=None if found is None else str(found),
            allowed=_allowed_text(allowed),
            hint=hint,
            unknown=unknown,
        )
        self.problems: tuple[Problem, ...] = (problem,)
        super().__init__(problem.render())

    @classmethod
    def many(cls, problems: Iterable[Problem]) -> InputError:
        """One error that carries several problems; at least one is due."""
        listed = tuple(problems)
        error = cls(listed[0].message)
        error.problems = listed
        error.args = ("\n".join(problem.render() for problem in listed),)
        return error

    @property
    def reason(self) -> str:
        """The first problem in one line, with what is allowed where that is short."""
        problem = self.problems[0]
        text = problem.headline().splitlines()[0]
        return f"{text} (allowed: {problem.allowed})" if problem.allowed and len(problem.allowed) < _SHORT else text

    def located(
        self,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
    ) -> InputError:
        """The same error with the place filled in wherever a problem does not say it yet.

        A `key` given here is put in front of the problem's own key.
        """
        problems = (
            replace(
                problem,
                file=problem.file or (None if file is None else str(file)),
                line=problem.line if problem.line is not None else line,
                column=problem.column if problem.column is not None else column,
                key=".".join(part for part in (key, problem.key) if part) or None,
            )
            for problem in self.problems
        )
        return InputError.many(problems)


@contextmanager
def keyed(key: str) -> Iterator[None]:
    """Puts a key in front of those of errors."""
    try:
        yield
    except InputError as error:
        raise error.located(key=key) from None


class Refusals:
    """Collects the errors of parts that do not need one another, so that one does not hide the others.

    Each part runs in a `with` block of the same object; `raise_all` then raises what was found, each problem once.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        del kind, trace
        if not isinstance(error, InputError):
            return False
        self.problems += [problem for problem in error.problems if problem not in self.problems]
        return True

    def kept(self, make: Callable[[], T]) -> T | None:
        """Result of `make`; None if it is refused, with the problem recorded."""
        with self:
            return make()
        return None

    def raise_all(self) -> None:
        """Raises all problems together.

        Raises:
            InputError: There is at least one.
        """
        if self.problems:
            raise InputError.many(self.problems)


def _allowed_text(allowed: object) -> str | None:
    if allowed is None or isinstance(allowed, str):
        return allowed
    if isinstance(allowed, list | tuple | set | frozenset):
        return _listed(
            [str(one) for one in (sorted(allowed, key=str) if isinstance(allowed, set | frozenset) else allowed)]
        )
    return str(allowed)


_MOST_ALLOWED = 900
"""Characters of a list of what is allowed; a longer list is cut, with its length."""


def _listed(items: list[str]) -> str:
    whole = ", ".join(items)
    if len(whole) <= _MOST_ALLOWED:
        return whole
    shown, length = 0, 0
    while length + len(items[shown]) + 2 <= _MOST_ALLOWED // 2:
        length += len(items[shown]) + 2
        shown += 1
    shown = max(shown, 1)
    return f"{', '.join(items[:shown])} and {len(items) - shown:,} more ({len(items):,} in total)"


_LOOKS_ALIKE = str.maketrans("oli", "011")


def suggest(word: str, allowed: Iterable[str]) -> str | None:
    """The entry of `allowed` that is spelt most like `word`, or None when nothing comes near.

    Where letters alone lead nowhere, those that look like digits count as them: `h1oo` is `h100`.
    """
    choices = list(allowed)
    lowered = {choice.lower(): choice for choice in choices}
    if word.lower() in lowered:
        return lowered[word.lower()]
    near = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if near:
        return lowered[near[0]]
    alike = {choice.lower().translate(_LOOKS_ALIKE): choice for choice in reversed(choices)}
    near = difflib.get_close_matches(word.lower().translate(_LOOKS_ALIKE), list(alike), n=1, cutoff=0.6)
    return alike[near[0]] if near else None


def did_you_mean(word: str, allowed: Iterable[str]) -> str | None:
    """The hint "did you mean `x`?", or None when nothing comes near."""
    near = suggest(word, allowed)
    return None if near is None else f"did you mean `{near}`?"
