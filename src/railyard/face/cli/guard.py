"""Turns any ending of a command into one message and one exit code; users see no traceback for their own mistakes."""

from __future__ import annotations

import codecs
import errno
import gc
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from railyard.face import signals
from railyard.face.terminal import paint, say, show
from railyard.kit.errors import Interrupted, RailyardError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_ASCII = str.maketrans(
    {
        **dict.fromkeys("─━", "-"),
        **dict.fromkeys("│├", "|"),
        "└": "`",
        **dict.fromkeys("█▉▊▋▌▍▎▏", "#"),
        "…": "...",
        **dict.fromkeys("–—−", "-"),
        "×": "x",
        "±": "+-",
        "µ": "u",
    }
)


def letters(*streams: Any) -> None:
    """Makes streams write what their encoding lacks in letters that it has."""
    codecs.register_error("railyard", _spelled)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "backslashreplace"):
            stream.reconfigure(errors="railyard")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


COMPLETING = "_RAILYARD_COMPLETE"
"""Set by the script of a shell while it asks for what may follow."""

OUR_FAULT = 3
CLOSED = 141
"""What a shell says of a program whose reader has gone (128 + SIGPIPE); the run itself is complete."""

# Newer versions of typer carry a copy of click: only the classes that typer hands out itself are surely the right ones.
_UsageProblem: type[Any] = typer.BadParameter.__mro__[2]


def run(arguments: Sequence[str]) -> int:
    """Runs one command and gives the exit code."""
    if sys.stdout is None:
        return _unwritten(OSError(errno.EBADF, "stdout is closed"))
    if COMPLETING in os.environ:
        from typer import completion

        completion.completion_init()
    letters(sys.stdout, sys.stderr)
    gc.set_threshold(100_000)  # imports make many objects and no garbage: by default a tenth of a command looks for it
    try:
        if list(arguments[:1]) != ["plan"]:  # which has an answer at any moment
            signals.ready()
        from railyard.face.cli.commands import command

        signals.prepare()
        named = None if COMPLETING in os.environ else arguments
        outcome = command(named).main(args=list(arguments), prog_name="railyard", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:  # the outermost frame: here every ending becomes loud and gets its code
        return next(end for kind, end in _ENDINGS if isinstance(error, kind))(error)
    return _code(outcome if isinstance(outcome, int) else 0)


def at_once(number: int) -> None:
    """Ends a process whose main thread does not hear a signal."""
    signals.heard(number)
    end(_stopped())


def end(code: int) -> None:
    """Ends the process now; what it was writing is removed, and its workers end with it."""
    for writes in ("railyard.work.study.folder", "railyard.kit.files"):
        module = sys.modules.get(writes)
        if module is not None:
            module.clear()
    multiprocessing = sys.modules.get("multiprocessing")
    for child in () if multiprocessing is None else multiprocessing.active_children():
        child.kill()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it has closed it
            stream.flush()
    os._exit(code)


def _code(code: int) -> int:
    """The exit code of a command; typer makes 130 of every signal."""
    return _stopped() if code in (128 + signals.CTRL_C, signals.exit_code()) else code


def _stopped(error: BaseException | None = None) -> int:
    del error
    say(f"stopped by {signals.name()}", "yellow")
    return signals.exit_code()


def _closed(error: BrokenPipeError) -> int:
    """Whoever read our output has closed it; Python would complain again when it flushes at exit."""
    del error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CLOSED


def _unwritten(error: OSError) -> int:
    """No space, or no stdout: what the command found is lost, and neither the input nor Railyard is at fault."""
    if sys.stderr is not None:
        sys.stderr.write(f"{paint('error:', 'red')} the output cannot be written: {error.strerror}\n")
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return 1


def _os(error: OSError) -> int:
    return _unwritten(error) if error.errno in _NOWHERE else _fault(error)


def _refused(error: RailyardError) -> int:
    show(error)
    return error.exit_code


def _usage(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        say(error.format_message())
        return 2
    sys.stderr.write(f"{paint('error:', 'red')} {error.format_message()}\n")
    context = getattr(error, "ctx", None)
    if context is not None:
        say(f"\nhint: `{context.command_path} --help` lists the options")
    return 2


def _exhausted(error: BaseException) -> int:
    del error
    sys.stderr.write(f"{paint('error:', 'red')} {signals.WORDS}\n")
    say(f"\nhint: {signals.HINT}")
    return 1


def _fault(error: BaseException) -> int:
    import tempfile
    import traceback

    if signals.came() and Interrupted.__name__ in "".join(traceback.format_exception(error)):
        return _stopped()  # a library has made an error of its own of the signal, as Pydantic does
    if signals.bound() is not None and any(word in str(error) for word in signals.SIGNS):
        return _exhausted(error)

    with tempfile.NamedTemporaryFile(
        "w", prefix="railyard-fault-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exception(error, file=file)
    words = str(error).splitlines()[0] if str(error) else ""
    sys.stderr.write(f"{paint('error:', 'red')} an internal error: {type(error).__name__}: {words}\n")
    say(f"\nhint: please report it with the file {Path(file.name)}")
    return OUR_FAULT


_NOWHERE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)

_ENDINGS: tuple[tuple[Any, Callable[[Any], int]], ...] = (
    (BrokenPipeError, _closed),
    (KeyboardInterrupt, _stopped),
    (typer.Abort, _stopped),
    (typer.Exit, lambda ending: _code(ending.exit_code)),
    (_UsageProblem, _usage),
    (RailyardError, _refused),
    (MemoryError, _exhausted),
    (OSError, _os),
    (BaseException, _fault),  # a panic of Polars is no `Exception`
)
