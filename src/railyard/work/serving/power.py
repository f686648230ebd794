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
    from railyard.model.columns import F

IDLE, BUSY, MEMORY, MATH = 0.20, 0.33, 0.14, 0.85
# Math share at which the square root of the law is replaced by a line: a busy replica's.
_USUAL_MATH = 0.15
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


def math_j(limit_w: F, active_parameters: F, flops_s: F) -> F:
    """Energy of the matrix units for one token, by the law at the math share of a usual replica.

    Args:
        limit_w: Power limit of an accelerator.
        active_parameters: That the token uses.
        flops_s: Peak rate of an accelerator.
    """
    drawn_w = _USUAL_MATH**0.5 / _USUAL_MATH * MATH * limit_w
    energy: F = drawn_w * 2.0 * active_parameters / flops_s
    return energy
