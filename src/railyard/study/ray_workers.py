"""The same tasks on a Ray cluster, as many at a time as it has processors; those of a lost node are run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.errors import InputError
from railyard.study.tasks import Done, call, failure, need

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from railyard.study.tasks import Task

_RETRIES = 3
"""Times that a task whose node or process is lost is run elsewhere."""


class RayWorkers:
    """Processes of a Ray cluster.

    Args:
        address: As `ray.init` takes it: `auto`, `local`, `HOST:6379`, `ray://HOST:10001`.

    Raises:
        InputError: Ray is not installed, or nothing answers at the address.
    """

    def __init__(self, address: str) -> None:
        self.ray = need("ray", "distributed")
        try:
            self.ray.init(address=address, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
        except (Exception, SystemExit) as error:  # Ray raises a dozen kinds of errors for what is one to the user
            raise InputError(f"no Ray cluster answers: {type(error).__name__}", key="--ray", found=address) from None

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Every task once, as they end."""
        ray = self.ray
        remote = ray.remote(max_retries=_RETRIES, num_cpus=1)(_remote)
        waiting = {remote.remote(task.function, task.argument): number for number, task in enumerate(tasks)}
        limits = {number: task.limit_s for number, task in enumerate(tasks) if task.limit_s}
        left = list(waiting)
        shortest = min(limits.values(), default=None)
        while left:
            ready, left = ray.wait(left, num_returns=1, timeout=shortest)
            if not ready:
                yield from self._given_up(left, waiting, limits)
                return
            yield self._done(ready[0], waiting[ready[0]])

    def close(self) -> None:
        """Ends all that still runs here."""
        self.ray.shutdown()

    def _done(self, reference: Any, number: int) -> Done:
        try:
            value, error = self.ray.get(reference)
        except Exception as problem:  # a node that died for good, or ran out of memory
            return Done(number, error=failure(problem))
        return Done(number, value, error)

    def _given_up(self, left: Sequence[Any], waiting: dict[Any, int], limits: dict[int, float]) -> Iterator[Done]:
        """Nothing ended for as long as a task may take: all that is left is given up."""
        for reference in left:
            number = waiting[reference]
            self.ray.cancel(reference, force=True)
            yield Done(number, error=f"stopped after {limits.get(number, 0.0):g} s")


def _remote(function: str, argument: Any) -> tuple[Any, str]:
    try:
        return call(function, argument), ""
    except Exception as error:  # whatever a task does wrong is its result
        return None, failure(error)
