"""The stage engine: requests through stages on different hardware, each a queue, a batch or a model, times exact."""

from railyard.engine.stages.stage import (
    CAUSES,
    FIRST,
    PS,
    SERVING,
    SPENT,
    Batched,
    Cores,
    Drafting,
    Stage,
    Takers,
    Tool,
    columns,
    parts,
    takers,
    visits,
)
from railyard.engine.stages.through import Between, StageStep, through

__all__ = [
    "CAUSES",
    "FIRST",
    "PS",
    "SERVING",
    "SPENT",
    "Batched",
    "Between",
    "Cores",
    "Drafting",
    "Stage",
    "StageStep",
    "Takers",
    "Tool",
    "columns",
    "parts",
    "takers",
    "through",
    "visits",
]
