"""`none`: who waits holds up everybody behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import NO_NODES, Backfill, backfills

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.operate.discipline import Queue


class _Closed:
    def blocked(self, _job: int) -> bool:
        return False

    def admits(self, _job: int) -> bool:
        return True

    def kept(self, _job: int) -> NDArray[np.int32]:
        return NO_NODES

    def started(self, _job: int) -> None:
        return


def _gate(_scheduler: Queue) -> _Closed:
    return _Closed()


NONE = backfills.add("none", Backfill("none", "Nobody overtakes: who waits holds up everybody behind.", _gate))
