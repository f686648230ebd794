"""Starts a process for every job that waits, passes on what it says, ends it when it is to stop or takes too long."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.face.verb import CALIBRATION
from railyard.face.web.documents import Outcome, TextFault
from railyard.kit import registry
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.study import folder as inputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.face.web.journal import JobJournal, Taken
    from railyard.face.web.settings import ServerSettings
    from railyard.work.scenario.load import Draft


_NOWHERE = os.devnull + os.sep
"""The null device, to which processes may write."""

_READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys",
    "/dev/null",
    "/dev/urandom",
    "/etc/localtime",
    "/etc/ld.so.cache",
)
"""Folders that Python and its libraries read; none holds data of a person."""


def confine(folder: Path) -> None:
    """Confines this process: it opens files below `folder` and of its installation, and runs no Python of the folder.

    Plugins are loaded first: they may lie elsewhere, and a look-up of any name needs them.

    Args:
        folder: Folder of its user.

    Raises:
        InputError: A plugin cannot be loaded.
    """
    registry.load()
    sys.dont_write_bytecode = True  # of modules that it imports later: where they lie it may not write
    sys.addaudithook(_hook(folder.resolve()))


def refuse_outside(path: Path, folder: Path) -> None:
    """Refuses a file that a scenario or a request names outside of the folder; of a folder, any file in it.

    Raises:
        InputError: It is not below `folder`, links followed.
    """
    inside = folder.resolve()
    if not path.resolve().is_relative_to(inside):
        raise _outside(path)
    for here, folders, names in os.walk(path):
        for one in (Path(here) / name for name in (*folders, *names)):
            if one.is_symlink() and not one.resolve().is_relative_to(inside):
                raise _outside(one)


def _outside(path: Path) -> InputError:
    return InputError(f"the file `{path.name}` is outside of your folder", hint="copy it into the folder")


def _code(file: str, what: str) -> InputError:
    return InputError(
        f"`{Path(file).name}` is {what}, which a server does not run", hint="run it from the command line"
    )


def _hook(folder: Path) -> Callable[[str, tuple[Any, ...]], None]:
    roots = tuple(
        os.path.realpath(root) + os.sep
        for root in (folder, sys.prefix, sys.base_prefix, Path(__file__).parents[2], tempfile.gettempdir())
    )
    readable = (*roots, *_READABLE)
    inside = roots[0]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if not f"{path}{os.sep}".startswith((inside, roots[-1], _NOWHERE) if writes else readable):
                raise _outside(Path(path))
        elif event == "exec":
            file = getattr(arguments[0], "co_filename", "")
            if not file.startswith("<") and os.path.realpath(file).startswith(inside):
                raise _code(file, "Python code")
        elif event in {"ctypes.dlopen", "import"}:
            file = arguments[0] if event == "ctypes.dlopen" else arguments[1]
            if isinstance(file, str) and os.sep in file and os.path.realpath(file).startswith(inside):
                raise _code(file, "a library")

    return look


_LOOK_S = 0.2
_GRACE_S = 5.0
"""Time between asking a process to stop, which lets it clean up, and killing it."""

_LONGEST_LINE = 4 << 20
TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that ended because its server is gone."""


class Dispatcher:
    """Starts jobs. One server process of a folder dispatches at a time; another takes over when it ends."""

    def __init__(self, settings: ServerSettings, journal: JobJournal) -> None:
        self.settings = settings
        self.journal = journal
        self._running: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until it is cancelled; ends what runs then, which the next server begins again."""
        lock = os.open(self.settings.state / "dispatch.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            await self._wait_for(lock)
            self.journal.resume()
            while True:
                self._start()
                await asyncio.sleep(_LOOK_S)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            os.close(lock)

    async def _wait_for(self, lock: int) -> None:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(1.0)
            else:
                return

    def _start(self) -> None:
        self._running = {name: task for name, task in self._running.items() if not task.done()}
        while len(self._running) < self.settings.limits.runs:
            taken = self.journal.take()
            if taken is None:
                return
            self._running[taken.id] = asyncio.create_task(self._carry_out(taken))

    async def _carry_out(self, taken: Taken) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "railyard.face.web.worker",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        try:
            answer = await self._answer(process, taken)
        finally:
            await _end(process)
        self._close(taken, answer, process.returncode or 0)

    async def _answer(self, process: asyncio.subprocess.Process, taken: Taken) -> dict[str, Any]:
        """The last word of the process, or why it has none."""
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process has no pipes")
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(json.dumps(self._request(taken)).encode())
            await process.stdin.drain()
            process.stdin.close()
        deadline, asked = time.monotonic() + self.settings.limits.run_s, None
        line = asyncio.ensure_future(process.stdout.readline())
        try:
            while True:
                done, _ = await asyncio.wait({line}, timeout=_LOOK_S)
                if asked is None and taken.id in self.journal.stopping():
                    asked = time.monotonic()
                    _interrupt(process)
                if asked is not None and time.monotonic() - asked > _GRACE_S:
                    return {"stopped": True}
                if time.monotonic() > deadline:
                    return {"faults": [{"message": f"the run took more than {self.settings.limits.run_s:g} s"}]}
                if not done:
                    continue
                if not line.result():
                    return {} if asked is None else {"stopped": True}
                answer: dict[str, Any] = json.loads(line.result())
                if "stage" not in answer:
                    return answer if asked is None else {**answer, "stopped": True}
                self.journal.progress(taken.id, answer["stage"], answer["share"])
                line = asyncio.ensure_future(process.stdout.readline())
        finally:
            line.cancel()

    def _request(self, taken: Taken) -> dict[str, Any]:
        asked = taken.request
        return {
            "folder": str(self.settings.folder_of(taken.owner)),
            **asked.model_dump(),
            "ray": self.settings.ray,
            "memory_bytes": self.settings.limits.memory_bytes,
        }

    def _close(self, taken: Taken, answer: dict[str, Any], code: int) -> None:
        outcome = Outcome(**answer["outcome"]) if "outcome" in answer else None
        if "stopped" in answer:
            self.journal.end(taken.id, "stopped", outcome=outcome)
        elif outcome is not None:
            self.journal.end(taken.id, "done", outcome=outcome)
        elif "faults" in answer:
            self.journal.end(taken.id, "failed", faults=[TextFault(**fault) for fault in answer["faults"]])
        elif code < 0 or code == TERMINATED:
            name = signal.Signals(-code if code < 0 else signal.SIGTERM).name
            self.journal.killed(
                taken.id, f"the process of the run was killed ({name}), twice: does it need more memory?"
            )
        else:
            fault = TextFault(message=f"the run ended without a result (exit code {code}): an internal error")
            self.journal.end(taken.id, "failed", faults=[fault])


def _interrupt(process: asyncio.subprocess.Process) -> None:
    """Not by the process's `send_signal`: that reaps one that has just ended, and its exit code is lost."""
    with suppress(ProcessLookupError):
        if process.returncode is None:
            os.kill(process.pid, signal.SIGINT)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Lets the process clear up, then kills it and what it started."""
    try:
        if process.returncode is None:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 0.5)
        if process.returncode is None:
            _interrupt(process)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def requested_draft(folder: Path, text: str, file: str) -> Draft:
    """The scenario of a request.

    Args:
        folder: Folder of its user.
        text: YAML.
        file: Name below the folder; other files are relative to it.

    Raises:
        InputError: It is no scenario, or it names a file outside of the folder.
    """
    draft = load.from_text(text, folder / file)
    for path in inputs.files_of(draft).values():
        refuse_outside(path, folder)
    return _calibrated(draft, folder)


def _calibrated(draft: Draft, folder: Path) -> Draft:
    """The same with the folder's constants, where the scenario names none of its own."""
    shelf = folder / CALIBRATION
    if not shelf.is_dir():
        return draft
    from railyard.ask.calibrate.measurements import kinds

    plain = load.dump(draft.scenario)
    files = {kind.key: shelf / f"{name}.toml" for name, kind in kinds.items() if kind.work == draft.kind}
    changes = {
        key: os.path.relpath(file, draft.folder)
        for key, file in files.items()
        if file.is_file() and _at(plain, key) is None
    }
    return draft.with_values(changes, "the calibration of this folder")


def _at(plain: object, key: str) -> object:
    for part in key.split("."):
        plain = plain.get(part) if isinstance(plain, dict) else None
    return plain
