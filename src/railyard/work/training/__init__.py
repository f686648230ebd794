"""Training jobs: their specification, operator times, memory, layouts and steps.

`spec` defines a job; `operators`, `blocks` and `passes` time one layer; `compute` gives a pipeline stage to the builder
of
task graphs; `estimate` gives whole steps in closed form; `memory` and `layout` find what fits and what is fastest.
"""

from railyard.kit import lazily

with lazily(globals()):
    from railyard.model.machine import Machine
    from railyard.work.training.designs import Estimate, estimate
    from railyard.work.training.graphs import build
    from railyard.work.training.layout import auto, check, check_fit, layouts
    from railyard.work.training.memory import LayoutError, MemoryTable, memory
    from railyard.work.training.spec import Checkpoint, DataLoading, Layout, Lora, SoftwareProfile, Training

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
