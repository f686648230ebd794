"""Words for the user on stderr: problems with their place in a file, remarks, colours where the terminal has them."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, NoReturn

import typer

from railyard.kit.errors import InputError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.kit.errors import RailyardError
    from railyard.work.scenario.load import Draft

_read: list[Draft] = []
"""The scenario that the command has read."""
_LINES = "\n\t"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys in place of showing it: control characters, and those that turn the direction of writing."""


def visible(text: str, keep: str = "") -> str:
    """Text of strangers as it can be shown: what a terminal would obey is spelled out.

    Args:
        text: Names out of files, say.
        keep: Control characters that stay.
    """
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], text)


def show(error: RailyardError) -> None:
    """Every problem of an error on stderr: what, where, the line with a caret, what is allowed."""
    problems = placed(error).problems if isinstance(error, InputError) else ()
    for text in [problem.render() for problem in problems] or [str(error)]:
        sys.stderr.write(f"{paint('error:', 'red')} {visible(text, keep=_LINES)}\n")


def placed(error: InputError) -> InputError:
    """The error with the places of its keys in the command's scenario, where it names none."""
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
    """A scenario file; what is unusual in it is said on stderr.

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
    """Ends a command that a signal stopped, once it has printed what it had found.

    Args:
        text: What that is, and what is missing.

    Raises:
        Interrupted: Always; the exit code is that of the signal.
    """
    say(f"incomplete: {text}", "yellow")
    raise Interrupted


def paint(text: str, colour: str | None) -> str:
    """The text in a colour where stderr is a terminal that wants colours."""
    if colour is None or not sys.stderr.isatty() or "NO_COLOR" in os.environ:
        return text
    return typer.style(text, fg=colour, bold=True)
