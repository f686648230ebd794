"""`any`: whatever fits goes; large jobs may starve. Kueue calls it BestEffortFIFO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.operate.discipline import NO_NODES, Backfill, backfills

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.work.operate.discipline import Queue


class _Open:
    def blocked(self, _job: int) -> bool:
        return True

    def admits(self, _job: int) -> bool:
        return True

    def kept(self, _job: int) -> NDArray[np.int32]:
        return NO_NODES

    def started(self, _job: int) -> None:
        return


def _gate(_scheduler: Queue) -> _Open:
    return _Open()


ANY = backfills.add("any", Backfill("any", "Whatever fits starts; large jobs may wait for ever.", _gate))
