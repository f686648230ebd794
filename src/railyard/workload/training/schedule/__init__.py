"""Pipeline schedules, one file each: the order in which every pipeline rank runs its passes."""

from railyard.workload.training.schedule.dualpipe import DUALPIPE
from railyard.workload.training.schedule.emission import Emission, emit
from railyard.workload.training.schedule.interleaved import INTERLEAVED
from railyard.workload.training.schedule.one_forward_one_backward import ONE_FORWARD_ONE_BACKWARD
from railyard.workload.training.schedule.sequence import Op, Schedule, Sequence, schedules
from railyard.workload.training.schedule.zero_bubble import ZERO_BUBBLE

__all__ = [
    "DUALPIPE",
    "INTERLEAVED",
    "ONE_FORWARD_ONE_BACKWARD",
    "ZERO_BUBBLE",
    "Emission",
    "Op",
    "Schedule",
    "Sequence",
    "emit",
    "schedules",
]
