"""The stage engine: requests through stages on different hardware, each a queue, a batch or a model, times exact."""

from railyard.engine.stages.batched import Batched
from railyard.engine.stages.drafting import Drafting
from railyard.engine.stages.draws import Takers, takers
from railyard.engine.stages.queued import Cores, Tool
from railyard.engine.stages.stage import CAUSES, FIRST, PS, SERVING, SPENT, Stage, columns, parts, visits
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
