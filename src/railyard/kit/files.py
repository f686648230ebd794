"""The files of users: opened in one way, and written so that they appear in full or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import shutil
import signal
import stat
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from railyard.kit.errors import InputError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import polars as pl

    from railyard.kit.errors import RailyardError


_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None, number: int = signal.SIGKILL) -> None:
    """Ends this process when the one that started it ends, however that ends (Linux).

    Args:
        parent: Its process number, where it could have ended before this call: then this process ends now.
        number: The signal that ends this process.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        raise SystemExit(128 + signal.SIGTERM)


def limit_memory(limit_bytes: int) -> None:
    """Bounds the address space of this process: an allocation beyond it raises `MemoryError`."""
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextmanager
def signals_held() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM wait until the end of the block, so that nothing inside is left half changed.

    Gives a function that says whether one is waiting. It takes effect in the main thread, which hears signals, and for
    those that have a handler in Python.
    """
    waiting: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM] if threading.current_thread() is threading.main_thread() else []
    before = {number: signal.getsignal(number) for number in numbers}
    held = {number: handler for number, handler in before.items() if callable(handler)}
    for number in held:
        signal.signal(number, lambda came, _frame: waiting.append(came))
    try:
        yield lambda: bool(waiting)
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""System errors of a full disk, a user's full share of it, or a file of the largest size."""

MOST_BYTES = 256 << 20
"""Largest file that is read at once."""

MOST_STREAMED = 64 << 30
"""Largest file that is read piece by piece."""

_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
Errors = Literal["strict", "replace", "surrogateescape"]
_BUFFER_BYTES = 1 << 18


def opened(path: Path, most: int | None = None) -> io.BufferedReader:
    """A user's file, to read: the only way in which Railyard opens one.

    It is regular, has at most `most` bytes (`MOST_STREAMED`), and is refused at its end if it has changed since it was
    opened, so that reading it ends and nothing rests on half of a file.

    Raises:
        InputError: It cannot be read, is a pipe or a device, is too large; later, that it has changed.
    """
    most = MOST_STREAMED if most is None else most
    try:
        _refuse(path, path.stat(), most)  # to open a device or a pipe may do something to it
        return io.BufferedReader(_SizedFile(path, most), _BUFFER_BYTES)
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=path) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"the file cannot be read: {reason}", file=path) from error


def readable(path: Path, most: int | None = None) -> Path:
    """A path that a library opens by itself, once `opened` has not refused it.

    Raises:
        InputError: As `opened`.
    """
    opened(path, most).close()
    return path


def _refuse(path: Path, state: os.stat_result, most: int) -> None:
    kind = next((words for is_one, words in _KINDS if is_one(state.st_mode)), None)
    if kind is not None:
        raise InputError(f"this is {kind}, not a regular file", file=path, hint="write its content into a file")
    if stat.S_ISREG(state.st_mode) and state.st_size > most:
        raise InputError(
            f"the file is larger than {most >> 20} MiB", file=path, found=f"{state.st_size / 2**20:,.0f} MiB"
        )


class _SizedFile(io.RawIOBase):
    """The bytes of a regular file of the size that it had when it was opened."""

    def __init__(self, path: Path, most: int) -> None:
        self._path = path
        self._number = -1
        self._number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        self._state = os.fstat(self._number)
        try:
            _refuse(path, self._state, most)
            if stat.S_ISDIR(self._state.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        except BaseException:
            self.close()
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._number, offset, whence)

    def readinto(self, buffer: Any) -> int:
        left = max(self._state.st_size - self.tell(), 0)
        room = memoryview(buffer).cast("B")[:left]
        got = os.readv(self._number, [room]) if room else 0
        if got in (0, left):
            self._refuse_change()
        return got

    def readall(self) -> bytes:
        pieces = []
        while piece := self.read(max(self._state.st_size - self.tell(), 1)):
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        if not self.closed and self._number >= 0:
            os.close(self._number)
        super().close()

    def _refuse_change(self) -> None:
        now = os.fstat(self._number)
        if (now.st_size, now.st_mtime_ns) != (self._state.st_size, self._state.st_mtime_ns):
            raise InputError(
                "the file changed while it was read",
                file=self._path,
                found=f"{now.st_size:,} bytes, and {self._state.st_size:,} when it was opened",
                hint="read a copy of it",
            )


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """The bytes of a user's file.

    Raises:
        InputError: As `opened`; at most `MOST_BYTES` where `most` does not say.
    """
    with opened(path, MOST_BYTES if most is None else most) as file:
        return file.read()


def copy_file(source: str | Path, target: str | Path) -> None:
    """Copies the bytes of a user's file; raises as `opened` does."""
    with opened(Path(source)) as file, Path(target).open("wb") as copy:
        shutil.copyfileobj(file, copy, _BUFFER_BYTES)


def read_text(path: Path, most: int | None = None, *, errors: Errors = "strict") -> str:
    """The text of a file, without a byte order mark.

    Raises:
        InputError: As `read_bytes`; or it is not UTF-8.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise InputError(f"the file is not text: byte {error.start} is not UTF-8", file=path) from error


def parse_json(text: str, file: str | Path) -> Any:
    """What a JSON text of a user's file holds.

    Raises:
        InputError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else None
        raise InputError(f"the file is not JSON: {error}", file=file, line=line) from None


def keep_existing(path: Path | None, *, force: bool) -> None:
    """Refuses to write over a file, before any work is done; devices and pipes are written into.

    Args:
        path: Where something is to be written; None: nowhere.
        force: Whether it may take the place of a file.

    Raises:
        InputError: There is one, and it may not; or there is no folder to put it into.
    """
    if path is not None and not path.parent.is_dir():
        raise InputError("there is no such folder", file=path.parent)
    if path is not None and path.is_dir():
        raise InputError("this is a folder, expected a file", file=path)
    if path is not None and not force and path.is_file():
        raise InputError("the file already exists", file=path, hint="`--force` replaces it")


def expect_folder(path: Path) -> None:
    """Refuses a place where no folder can be made, before any work is done.

    Raises:
        InputError: A file is in its way, or what is there cannot be written.
    """
    there = next((place for place in (path, *path.absolute().parents) if place.exists()), path)
    if not there.is_dir():
        raise InputError("this is a file, expected a folder", file=there)
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError("the folder cannot be written", file=there)


def unwritten(error: OSError, path: Path) -> RailyardError:
    """Error for a file that was not written: no space is nobody's mistake, any other reason the place's."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        return OutputError(reason, path)
    return InputError(f"the file cannot be written: {reason}", file=path)


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A file to write, which takes the place of `path` when the block ends well and vanishes when it does not.

    A device or a pipe, such as /dev/stdout, is written into as it is.

    Raises:
        OutputError: There is no space.
        InputError: It cannot be written for another reason.
    """
    name = ""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            yield path
            return
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=".tmp")
        _writing.add(name)
        os.close(number)
        yield Path(name)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise unwritten(error, path) from error
    finally:
        if name:
            Path(name).unlink(missing_ok=True)
            _writing.discard(name)


_writing: set[str] = set()
"""Files that this process writes and that have not appeared yet."""


def clear() -> None:
    """Removes what this process has begun to write, for one that ends at once."""
    for name in list(_writing):
        Path(name).unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One thread of one process at a time runs the block; others wait. The empty file stays.

    Raises:
        InputError: The lock's file cannot be written.
    """
    import fcntl

    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritten(error, path) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of this opening alone: threads of one process exclude one another too
        yield
    finally:
        os.close(lock)


def write_text(path: Path, text: str) -> None:
    """Writes a text file; it appears complete or not at all.

    Raises:
        OutputError: There is no space; nothing is left behind.
        InputError: It cannot be written for another reason.
    """
    with appearing(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        if unfinished != path:
            os.fsync(file.fileno())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file; it appears complete or not at all.

    Raises:
        OutputError: There is no space; nothing is left behind.
        InputError: It cannot be written for another reason.
    """
    with appearing(path) as unfinished, unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        if unfinished != path:
            os.fsync(file.fileno())


def read_frame(path: Path) -> pl.DataFrame:
    """A table from Parquet.

    Args:
        path: Where it is.

    Raises:
        InputError: It is no Parquet, is cut short, or lacks a column.
    """
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    try:
        return pl.read_parquet(readable(path))
    except PanicException as error:  # over pages beyond the end of the file
        raise InputError("the file is not readable Parquet", file=path) from error
    except (OSError, PolarsError) as error:
        raise InputError("the file is not readable Parquet", file=path, found=str(error).splitlines()[0]) from error


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a Parquet file.

    Raises:
        InputError: It is no Parquet, or is cut short.
    """
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    try:
        return pl.read_parquet_metadata(readable(path))
    except PanicException as error:
        raise InputError("the file is not readable Parquet", file=path) from error
    except (OSError, PolarsError) as error:
        raise InputError("the file is not readable Parquet", file=path, found=str(error).splitlines()[0]) from error


def write_frame(path: Path, frame: pl.DataFrame, metadata: dict[str, str] | None = None) -> None:
    """Writes a table as Parquet, its folder too where that is missing; the file appears complete or not at all.

    Args:
        path: Where to.
        frame: The table.
        metadata: Of the file.

    Raises:
        OutputError: It cannot be written.
    """
    from polars.exceptions import ComputeError

    path.parent.mkdir(parents=True, exist_ok=True)
    with appearing(path) as unfinished:
        try:
            frame.write_parquet(unfinished, metadata=metadata)
        except ComputeError as error:  # so Polars says that a file cannot grow
            raise OutputError(str(error), path) from error
