"""Words for the user on stderr: problems with their place in a file, remarks, colours where the terminal has them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from railyard.errors import InputError

if TYPE_CHECKING:
    from railyard.errors import RailyardError


def show(error: RailyardError) -> None:
    """Every problem of an error on stderr: what, where, the line with a caret, what is allowed."""
    problems = error.problems if isinstance(error, InputError) else ()
    for text in [problem.render() for problem in problems] or [str(error)]:
        sys.stderr.write(f"{paint('error:', 'red')} {text}\n")


def say(text: str, colour: str | None = None) -> None:
    """One line of words on stderr."""
    sys.stderr.write(f"{paint(text, colour)}\n")


def paint(text: str, colour: str | None) -> str:
    """The text in a colour where stderr is a terminal that wants colours."""
    if colour is None or not sys.stderr.isatty() or "NO_COLOR" in os.environ:
        return text
    return typer.style(text, fg=colour, bold=True)
