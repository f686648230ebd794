"""The C++ core. Private: use the Python modules above it."""

from collections.abc import Callable
from typing import Annotated

import numpy
from numpy.typing import NDArray


class Entities:
    """Columns of fluid entities; holds the arrays, copies nothing."""

    def __init__(self, *, link_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], link_idx: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], link_share: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], volume_bytes: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], latency_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rate_cap_bps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], fair_weight: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Graph:
    """Columns of tasks; holds the arrays, copies nothing."""

    def __init__(self, *, ranks: int, kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], rank: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], duration_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], dep_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], dep_idx: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], comm_ptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], comm_ranks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], entity: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Faults:
    """Columns of faults: kind 0 link factor, 1 rank speed, 2 rank late."""

    def __init__(self, *, at_ps: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], target: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Result:
    """Columns, one row a task; the arrays are read-only views."""

    @property
    def start_ps(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]: ...

    @property
    def end_ps(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]: ...

    @property
    def blocker(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

    @property
    def link_bytes(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]: ...

    @property
    def stuck(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

    @property
    def idle_faults(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

    @property
    def probe_bytes(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]: ...

    @property
    def probe_interval_ps(self) -> int: ...

    @property
    def events(self) -> int: ...

    @property
    def cycle(self) -> bool: ...

    @property
    def stalled(self) -> bool: ...

    @property
    def groups(self) -> int: ...

    @property
    def rounds(self) -> int: ...

    @property
    def pairs(self) -> int: ...

class Requests:
    """Which communications are the same."""

    @property
    def request(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

    @property
    def first(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), writable=False)]: ...

class Rates:
    """Rates of entities that all flow at once."""

    @property
    def rate_bps(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), writable=False)]: ...

def interface_version() -> int:
    """Version of the core's interface towards Python."""

def simulate(graph: Graph, entities: Entities, capacity_bps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, faults: Faults, seed: int, task_sigma: float, rank_sigma: float, contention: bool, probe_links: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], probe_samples: int, progress: Callable[[int, int], None] | None = None) -> Result:
    """
    Runs a graph to its end with the GIL released; progress is called with (tasks ended, simulated time in ps).
    """

def max_min(entities: Entities, capacity_bps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Rates:
    """
    Max-min fair rates of all entities flowing at once, in bit/s of volume.
    """

def unique_requests(*, kind: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], rank: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], peer: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], size_bytes: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], count: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], collective: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Requests:
    """Numbers equal communications in the order of their first appearance."""
