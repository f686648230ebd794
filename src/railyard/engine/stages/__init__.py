"""The stage engine: requests through stages on different hardware, each a queue, a batch or a model, times exact."""

from railyard.engine.stages.batched import Batched
from railyard.engine.stages.drafting import Drafting
from railyard.engine.stages.draws import Takers, takers
from railyard.engine.stages.queued import Cores, Tool
from railyard.engine.stages.stage import CAUSES, PS, Cached, Passed, Stage, Tokens, parts
from railyard.engine.stages.through import NEVER, Between, Journey, Step, Visit, through

__all__ = [
    "CAUSES",
    "NEVER",
    "PS",
    "Batched",
    "Between",
    "Cached",
    "Cores",
    "Drafting",
    "Journey",
    "Passed",
    "Stage",
    "Step",
    "Takers",
    "Tokens",
    "Tool",
    "Visit",
    "parts",
    "takers",
    "through",
]
