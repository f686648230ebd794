"""The flows of alike tasks, and how finely a run is cut into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Slicing:
    """How much of the run is simulated, and how finely.

    Attributes:
        factor: Bytes and times are divided by this; 1 is everything.
        coarser: Further factor on how many steps are merged into one send.
        packets: Whether scale-up is made of packets.
        packet_bytes: Payload of a full packet.
    """

    factor: float = 1.0
    coarser: float = 1.0
    packets: bool = False
    packet_bytes: int = 4096


@dataclass(frozen=True, eq=False)
class TaskFlows:
    """The flows of all tasks of one class, task by task.

    Attributes:
        tasks: int64[tasks].
        rows: Flows of a task.
        source: int64[tasks x rows], host.
        target: int64[tasks x rows].
        size_bytes: int64[tasks x rows].
        delay_ps: int64[tasks x rows].
        path_key: uint32[tasks x rows], what switches hash of each.
        connection: uint64[tasks x rows], identity of the connection over which each is sent.
        klass: Traffic class.
        nic_share: Share of their rate that NICs reach with these flows.
        ptr: int64[rows + 1], waits of one task's flows.
        before: int64[], flow of the task, or `GATE`.
        at: uint8[].
        last: int64[], flows that end the task.
        start_ps: Local work at the begin of each task.
        surplus_ps: What latencies that cannot be divided add to each task of a slice, in the slice's time.
        label: For people.
    """

    tasks: Ints
    rows: int
    source: Ints
    target: Ints
    size_bytes: Ints
    delay_ps: Ints
    path_key: NDArray[np.uint32]
    connection: NDArray[np.uint64]
    klass: int
    nic_share: float
    ptr: Ints
    before: Ints
    at: NDArray[np.uint8]
    last: Ints
    start_ps: float
    surplus_ps: float
    label: str
