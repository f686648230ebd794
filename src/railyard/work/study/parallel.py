"""Variants at the same time: the results in order, the first real error at once."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from railyard.kit.errors import Interrupted, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Event

T = TypeVar("T")


def at_once(one: Callable[[int], T], count: int, threads: int, stop: Event) -> list[T]:
    """What `one` gives for every number, on so many threads.

    Args:
        one: Given a number from 0.
        count: How many numbers.
        threads: At most.
        stop: Set when the first of them fails, or the user stops the run.
    """
    pool = ThreadPoolExecutor(max_workers=min(count, threads))
    futures = [pool.submit(one, number) for number in range(count)]
    waits = True
    try:
        return _gathered(futures)
    except Interrupted:
        waits = False  # what had ended by now is the answer, and the process ends behind it
        raise
    finally:
        stop.set()
        pool.shutdown(wait=waits, cancel_futures=True)


def _gathered(futures: Sequence[Future[T]]) -> list[T]:
    """The results in order; the first real error is raised as soon as it is there."""
    pending = set(futures)
    while pending:
        ended, pending = wait(pending, return_when=FIRST_COMPLETED)
        for future in ended:
            error = future.exception()
            if error is not None and not isinstance(error, Stopped):
                raise error
    return [future.result() for future in futures]
