"""Pipeline schedules, one file each: the order in which every pipeline rank runs its passes."""

from railyard.workload.training.schedule.emission import Emission, emit
from railyard.workload.training.schedule.sequence import Op, PipelineSchedule, Sequence, schedules

__all__ = [
    "Emission",
    "Op",
    "PipelineSchedule",
    "Sequence",
    "emit",
    "schedules",
]
