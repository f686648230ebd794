"""From any ending of a command to one message and one exit code; users never see a traceback for their own mistakes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from railyard.errors import InputError, RailyardError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

INTERRUPTED = 130
OUR_FAULT = 3

# Typer has carried its own copy of click since 0.2x: only the classes that it hands out itself are sure to be the right ones.
_UsageProblem: type[Any] = typer.BadParameter.__mro__[2]


def run(arguments: Sequence[str]) -> int:
    """Runs one command and gives the exit code."""
    from railyard.cli.app import command

    try:
        outcome = command().main(args=list(arguments), prog_name="railyard", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has closed it; without this, Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except typer.Exit as ending:
        return _stopped() if ending.exit_code == INTERRUPTED else ending.exit_code
    except _UsageProblem as error:
        return _usage(error)
    except RailyardError as error:
        show(error)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the outermost frame: here a fault becomes loud, with its trace kept in a file
        return _fault(error)
    if outcome == INTERRUPTED:
        return _stopped()
    return outcome if isinstance(outcome, int) else 0


def _stopped() -> int:
    say("stopped", "yellow")
    return INTERRUPTED


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


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        say(error.format_message())
        return 2
    sys.stderr.write(f"{paint('error:', 'red')} {error.format_message()}\n")
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"\nhint: `{context.command_path} --help` lists what can be given")
    return 2


def _fault(error: Exception) -> int:
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="railyard-fault-", suffix=".txt", delete=False, encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    words = str(error).splitlines()[0] if str(error) else ""
    sys.stderr.write(f"{paint('error:', 'red')} a fault of Railyard's own: {type(error).__name__}: {words}\n")
    say(f"\nhint: please report it with the file {Path(file.name)}")
    return OUR_FAULT
