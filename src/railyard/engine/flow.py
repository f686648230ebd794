"""The engine `flow`: communications as fluids that share links fairly."""

from __future__ import annotations

from railyard.engine.contract import engines
from railyard.engine.fluid import FluidEngine

FLOW = FluidEngine(
    name="flow",
    summary="Weighted max-min fair rates over all links, found anew whenever a communication starts or ends.",
    contention=True,
    left_out=(
        "packets and queues: rates change at once, there is no loss, no pause and no queueing delay",
        "the transients of congestion control: whoever shares a link shares it fairly from the first moment",
        "jitter of communications: only computations vary",
    ),
)
engines.add(FLOW.name, FLOW)
