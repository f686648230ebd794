"""Training jobs: what they are, how long their operators take, what memory they need, how they are laid out.

`spec` says what a job is; `operators`, `blocks` and `passes` time one layer; `compute` gives a pipeline stage to the
builder of task graphs; `estimate` gives whole steps in closed form; `memory` and `layout` say what fits and what is
fastest.
"""

from railyard.model.machine import Machine
from railyard.workload.training.build import build
from railyard.workload.training.estimate import Estimate, estimate
from railyard.workload.training.layout import auto, check, check_fit, layouts
from railyard.workload.training.memory import LayoutError, MemoryTable, memory
from railyard.workload.training.spec import Checkpoint, DataLoading, Layout, Lora, SoftwareProfile, Training

__all__ = [
    "Checkpoint",
    "DataLoading",
    "Estimate",
    "Layout",
    "LayoutError",
    "Lora",
    "Machine",
    "MemoryTable",
    "SoftwareProfile",
    "Training",
    "auto",
    "build",
    "check",
    "check_fit",
    "estimate",
    "layouts",
    "memory",
]
