"""Runs tasks on a Ray cluster, as many at a time as it has processors; those of a lost node are run again."""

from __future__ import annotations

import math
import os
import socket
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.kit.files import read_text
from railyard.kit.plugins import VARIABLE
from railyard.work.study.provenance import version
from railyard.work.study.tasks import GONE, Done, call, failure, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from railyard.work.study.tasks import Task

_RETRIES = 3
"""Retries of a task whose node or process is lost."""

_ANSWER_S = 5.0
"""Timeout for a connection to the cluster; Ray alone retries for minutes."""

_LOOK_S = 1.0
"""Interval of checks of the number of processors."""

_CURRENT = "ray/ray_current_cluster"
"""File below the temporary folder in which `ray start` stores the address meant by `auto`."""


class RayWorkers:
    """Processes of a Ray cluster.

    Args:
        address: As for `ray.init`: `auto`, `local`, `HOST:6379`, `ray://HOST:10001`.
        begin: Called in each process of the cluster before its first task; must be picklable.

    Raises:
        InputError: Ray is not installed, or there is no answer at the address.
    """

    def __init__(self, address: str, begin: Callable[[], None] | None = None) -> None:
        self.ray = need("ray", "ray")
        expect_answer(address)
        self._begin = begin
        plugins = os.environ.get(VARIABLE)
        given = {"env_vars": {VARIABLE: plugins}} if plugins else {}
        self._words = ExitStack()  # of dead nodes Ray speaks on stdout, which is for results
        self._words.enter_context(redirect_stdout(sys.stderr))
        try:
            self.ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False if address == "local" else None,
                runtime_env=given,
            )
        except (Exception, SystemExit) as error:  # Ray raises a dozen kinds of errors for what is one to the user
            self._words.close()
            raise _silent(address, type(error).__name__) from None
        self._slots, self._looked = 1, -math.inf

    def run(self, tasks: Sequence[Task], until: float = math.inf) -> Iterator[Done]:
        """Runs every task once and yields results as they end; unfinished ones are left out when time is up.

        Raises:
            InputError: A node has another version of Railyard.
        """
        remote = self.ray.remote(max_retries=_RETRIES, num_cpus=1)(_remote)
        limited = any(task.limit_s for task in tasks)
        queue, flying = deque(range(len(tasks))), _Flying()
        try:
            while (queue or flying) and time.monotonic() < until:
                while queue and len(flying) < self._room(limited=limited):
                    number = queue.popleft()
                    task = tasks[number]
                    flying.add(remote.remote(task.function, task.argument, self._begin), number, task.limit_s)
                ready, _ = self.ray.wait(flying.references, num_returns=1, timeout=flying.left_s(until))
                for reference in ready:
                    yield self._done(reference, flying.drop(reference))
                for reference in flying.late():
                    self.ray.cancel(reference, force=True)
                    number = flying.drop(reference)
                    yield Done(number, error=f"stopped after {tasks[number].limit_s:g} s")
        finally:
            for reference in flying.references:
                self.ray.cancel(reference, force=True)

    def close(self) -> None:
        """Ends all tasks that are still running."""
        self.ray.shutdown()
        self._words.close()

    def _room(self, *, limited: bool) -> int:
        """Number of tasks to submit: one per processor, and one more waiting if there is no time limit."""
        now = time.monotonic()
        if now - self._looked > _LOOK_S:
            self._slots, self._looked = max(int(self.ray.cluster_resources().get("CPU", 1)), 1), now
        return self._slots if limited else 2 * self._slots

    def _done(self, reference: Any, number: int) -> Done:
        try:
            there, value, error = self.ray.get(reference)
        except self.ray.exceptions.RayError:  # what a task itself does wrong, `_remote` has caught
            return Done(number, error=GONE)
        if there != version():
            raise InputError(
                f"a node of the Ray cluster has Railyard {there}, this machine {version()}",
                key="--ray",
                hint="results are the same only with the same version everywhere",
            )
        return Done(number, value, error)


class _Flying:
    """Submitted tasks by Ray's reference: their numbers and deadlines."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._until: dict[Any, float] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def references(self) -> list[Any]:
        """References in the order of their start."""
        return list(self._numbers)

    def add(self, reference: Any, number: int, limit_s: float) -> None:
        """Adds a task with a time limit; 0: none."""
        self._numbers[reference] = number
        if limit_s:
            self._until[reference] = time.monotonic() + limit_s

    def drop(self, reference: Any) -> int:
        """Removes a task and returns its number."""
        self._until.pop(reference, None)
        return self._numbers.pop(reference)

    def left_s(self, until: float) -> float | None:
        """Seconds until the next task, or all, exceed their limit; None without limits."""
        first = min(until, *self._until.values(), math.inf)
        return None if first == math.inf else max(first - time.monotonic(), 0.0)

    def late(self) -> list[Any]:
        """Tasks over their time limit."""
        now = time.monotonic()
        return [reference for reference, until in self._until.items() if until <= now]


def expect_answer(address: str) -> None:
    """Checks that an address accepts connections.

    Raises:
        InputError: It does not.
    """
    place = address
    if address == "auto":
        current = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / _CURRENT
        place = os.environ.get("RAY_ADDRESS", "") or (read_text(current).strip() if current.is_file() else "")
        if not place:
            raise _silent(address, "no cluster runs on this machine, and `RAY_ADDRESS` is not set")
    if place == "local":
        return
    host, colon, port = place.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InputError(
            "this is not the address of a Ray cluster",
            key="--ray",
            found=address,
            allowed="auto, local, HOST:6379 or ray://HOST:10001",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
    except OSError as error:
        raise _silent(address, error.strerror or "it does not answer") from None


def _silent(address: str, why: str) -> InputError:
    return InputError(
        f"no Ray cluster answers: {why}", key="--ray", found=address, hint="`ray start --head` starts one"
    )


_begun = False


def _remote(function: str, argument: Any, begin: Callable[[], None] | None) -> tuple[str, Any, str]:
    """Runs a task on its node: returns the version there, the value, the error."""
    try:
        _begin_once(begin)
        return version(), call(function, argument), ""
    except Exception as error:  # whatever a task does wrong is its result
        return version(), None, failure(error)


def _begin_once(begin: Callable[[], None] | None) -> None:
    """Runs before the first task of this process, which works for one driver only."""
    global _begun  # noqa: PLW0603 - it is about the process
    if begin is not None and not _begun:
        begin()
        _begun = True
