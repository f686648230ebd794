"""The engine `analytic`: every communication takes as long as it would with the network to itself."""

from __future__ import annotations

from railyard.engine.contract import engines
from railyard.engine.fluid import FluidEngine

ANALYTIC = engines.add(
    "analytic",
    FluidEngine(
        name="analytic",
        summary="Every communication at the speed it has with the network to itself; order and waiting are exact.",
        contention=False,
        left_out=(
            "contention between communications: they never slow each other down, whatever they share; only the"
            " hashed flows of one communication collide with one another",
            "packets and queues: there is no loss, no pause and no queueing delay",
            "jitter of communications: only computations vary",
        ),
    ),
)
