"""The stage engine: requests through stages on different hardware, each a queue, a batch or a model, times exact."""

from railyard.engine.stages.stage import (
    CAUSES,
    FIRST,
    PS,
    SERVING,
    SPENT,
    BatchingStage,
    Cores,
    Drafting,
    RequestRule,
    Stage,
    Tool,
    columns,
    parts,
    takers,
    visits,
)
from railyard.engine.stages.through import StageStep, StageTransfer, through

__all__ = [
    "CAUSES",
    "FIRST",
    "PS",
    "SERVING",
    "SPENT",
    "BatchingStage",
    "Cores",
    "Drafting",
    "RequestRule",
    "Stage",
    "StageStep",
    "StageTransfer",
    "Tool",
    "columns",
    "parts",
    "takers",
    "through",
    "visits",
]
