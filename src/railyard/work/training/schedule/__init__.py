"""Pipeline schedules, one file each: the order in which every pipeline rank runs its passes."""

from railyard.work.training.schedule.emission import Emission, emit
from railyard.work.training.schedule.sequence import Op, PipelineSchedule, Sequence, schedules

__all__ = [
    "Emission",
    "Op",
    "PipelineSchedule",
    "Sequence",
    "emit",
    "schedules",
]
