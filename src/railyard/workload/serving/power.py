"""Power of an accelerator that serves: a part that is always drawn, one that memory traffic adds, one that math adds.

    P = limit * min(1, 0.20 + busy * (0.33 + 0.14 u_memory + 0.85 sqrt(u_math)))

Mean of a GPU that decodes without pause, fitted on 838 measured configurations of ML.ENERGY (benchmark v3) with 12 %
median error when a model is left out; 0.20 is what stays between iterations (NVML, H100 and B200 with a model loaded).
u is the share of the device's peak rates, busy the share of time in which it computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from railyard.workload.serving.columns import F

IDLE, BUSY, MEMORY, MATH = 0.20, 0.33, 0.14, 0.85
# Wall power of a server over its accelerators' at full load: 8 B200 draw 1.30 kW each of 1.0 kW (MLPerf v5.1 power).
WALL = 1.30


def accelerator_w(limit_w: F, memory: F, math: F, busy: F) -> F:
    """Mean power of one accelerator.

    Args:
        limit_w: Its power limit.
        memory: Share of its peak memory rate while it computes.
        math: Share of its peak matrix rate while it computes.
        busy: Share of the time.
    """
    level = IDLE + busy * (BUSY + MEMORY * memory + MATH * np.sqrt(math))
    drawn: F = limit_w * np.minimum(level, 1.0)
    return drawn
