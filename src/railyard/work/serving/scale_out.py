"""What a replica's own collectives put on its NICs, and how much slower NICs may be until its iterations are.

    T(R) = max(T(R0), l + 8 B n / (R f))    collectives of n tokens at a rate R of the NICs, R0 that of the machine

is read off the law of `iteration` at two rates so low that nothing but the NICs counts: B, the bytes of a token, and l,
what the collectives take besides. Below R0 other work (the scale-up domain, a part that is hidden) still covers
T(R0) - l - 8 B n / (R0 f).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.work.serving.iteration import LINE_SHARE, IterationLoad, parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.model.columns import F
    from railyard.work.serving.columns import Deployments
    from railyard.work.serving.software import ServingSoftwareColumns

_SLOW = (1e-4, 1e-5)
"""Shares of the NICs' rate at which they are all that counts."""


def scale_out(rows: Deployments, software: ServingSoftwareColumns, tokens: NDArray[np.int64]) -> dict[str, Any]:
    """`scale_out_*` of `IterationCost`; nothing where the collectives stay in a scale-up domain.

    Args:
        rows: One replica.
        software: Its constants, one row.
        tokens: Rows of the cost's table.
    """
    rate = rows.machine.out_bytes_s
    one, other = (_network_s(rows, software, tokens[-1:], factor) for factor in _SLOW)
    if other[0] <= one[0]:
        return {}
    usual, slow, slower = (_network_s(rows, software, tokens, factor) for factor in (1.0, *_SLOW))
    per_slowness = (slower - slow) / (1 / _SLOW[1] - 1 / _SLOW[0])
    each = float((per_slowness / tokens).mean())
    apart = rows.layout.dp > 1
    exchange = np.minimum(software.exchange_fraction, LINE_SHARE)
    fraction = np.where(apart & (rows.model.moe_layers > 0), exchange, software.reduce_fraction)
    total = float((rate * fraction * rows.layout.tp * rows.layout.dp)[0])
    alone = slow - per_slowness / _SLOW[0] + per_slowness
    return {
        "scale_out_bytes_per_token": each * total,
        "scale_out_bps": 8 * total,
        "scale_out_slack_s": np.maximum(usual - alone, 0.0),
    }


def _network_s(rows: Deployments, software: ServingSoftwareColumns, tokens: NDArray[np.int64], factor: float) -> F:
    machine = replace(rows.machine, out_bytes_s=rows.machine.out_bytes_s * factor)
    slowed, none = replace(rows, machine=machine), np.zeros(1)
    found: F = parts(
        slowed, software, IterationLoad(tokens[:, np.newaxis].astype(np.float64), none, none, none)
    ).network[:, 0]
    return found
