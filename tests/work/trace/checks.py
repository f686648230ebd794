"""What an engine may rely on, and the smallest engine: every flow takes a time of its own."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from railyard.engine.packet import Traffic
from railyard.work.trace.builder import Trace
from railyard.work.traffic.hosts import traffic_of


def sent(trace: Trace) -> Traffic:
    """The traffic of a trace between as many hosts as it has ranks."""
    return traffic_of(trace.graph.validate(), trace.ranks).traffic


def check(trace: Trace) -> None:
    assert len(trace.line) == len(trace.graph)
    check_traffic(sent(trace))


def check_traffic(flows: Traffic) -> None:
    n = len(flows)
    assert len(flows.dep_ptr) == n + 1
    assert flows.dep_ptr[-1] == len(flows.dep_idx) == len(flows.dep_at)
    assert np.all(np.diff(flows.dep_ptr) >= 0)
    assert np.all((flows.dep_idx >= 0) & (flows.dep_idx < n))
    assert np.all((flows.source >= 0) & (flows.source < flows.hosts))
    assert np.all((flows.target >= 0) & (flows.target < flows.hosts))
    assert np.all(flows.size_bytes[flows.travels] >= 1)
    assert np.all(flows.need <= np.diff(flows.dep_ptr))
    assert np.all((flows.start_ps >= 0) | (flows.need > 0))


def finish_times(flows: Traffic, duration: Callable[[int], int]) -> NDArray[np.int64]:
    """When every row is done if a flow takes `duration(row)`; both ends at once."""
    done = np.full(len(flows), -1, np.int64)
    for _ in range(len(flows) + 1):
        for row in range(len(flows)):
            others = np.sort(done[flows.dep_idx[flows.dep_ptr[row] : flows.dep_ptr[row + 1]]])
            known = others[others >= 0]
            if done[row] < 0 and len(known) >= flows.need[row]:
                begin = max(0, int(flows.start_ps[row]), int(known[flows.need[row] - 1]) if flows.need[row] else 0)
                done[row] = begin + int(flows.delay_ps[row]) + (duration(row) if flows.travels[row] else 0)
    return done
