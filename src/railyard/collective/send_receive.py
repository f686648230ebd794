"""Send and receive: one rank's data to one other. Pipelines use it; `lowering/transfers.py` puts it onto links.

As a test of nccl-tests (`sendrecv_perf`) every rank sends its whole buffer to the next one and receives from the one
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.collective.pattern import Send
from railyard.collective.ring import orders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from railyard.collective.machine import Shape


def neighbours(shape: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sources and targets of the transfers of `sendrecv_perf`, as positions."""
    order = orders(shape)[0]
    return order, (order + 1) % shape.ranks


def schedule(source: int, target: int) -> tuple[tuple[Send, ...], ...]:
    """The one step of one message, whole."""
    return ((Send(source, target, (0,)),),)
