"""Tasks of a plan in this process, up to a moment that is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railyard.work.study.tasks import Done, call

if TYPE_CHECKING:
    from railyard.work.study.tasks import Task


class Here:
    """Tasks one after another in this process; after some of them, Ctrl-C."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.calls: list[str] = []
        self.stop_after = stop_after

    def run(self, tasks: list[Task], until: float = math.inf):
        for number, task in enumerate(tasks):
            if len(self.calls) == self.stop_after:
                raise KeyboardInterrupt
            self.calls.append(task.function)
            yield Done(number, call(task.function, task.argument))

    def close(self) -> None:
        """Nothing runs on."""
