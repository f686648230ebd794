"""A server's line shared by clients that each have a limit of their own: max-min fair, as a fluid, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def finish_s(start_s: Floats, size_bits: Floats, own_bps: Floats, line_bps: float) -> Floats:
    """When each transfer ends.

    Between two starts or ends rates are constant: all that are under way get the same level, those whose limit is
    lower get that. Where all limits together fit the line, nobody is slowed and the answer is immediate.

    Args:
        start_s: float64[transfers]; inf for one that never starts.
        size_bits: float64[transfers].
        own_bps: float64[transfers], limit of each.
        line_bps: Of the line; inf for no limit.
    """
    alone = start_s + size_bits / own_bps
    if not np.isfinite(line_bps) or own_bps.sum() <= line_bps:
        return alone
    return _shared(start_s, size_bits, own_bps, line_bps)


def _crowded_from(start_s: Floats, end_s: Floats, own_bps: Floats, line_bps: float) -> float:
    """When limits of transfers that are under way first exceed the line, if none were slowed; inf: never."""
    known = np.isfinite(start_s)
    times = np.concatenate([start_s[known], end_s[known]])
    steps = np.concatenate([own_bps[known], -own_bps[known]])
    order = np.lexsort((steps, times))
    over = np.cumsum(steps[order]) > line_bps * (1.0 + _ROUNDING)
    return float(times[order[np.argmax(over)]]) if over.any() else np.inf


def _shared(start_s: Floats, size_bits: Floats, own_bps: Floats, line_bps: float) -> Floats:
    """From one change of rates to the next while the line is short, over all of them at once while it is not."""
    by_limit = np.argsort(own_bps, kind="stable")
    limits, begun = own_bps[by_limit], start_s[by_limit].copy()
    left = size_bits[by_limit].copy()
    ends = np.full(len(left), np.inf)
    ends[left <= 0] = begun[left <= 0]
    while True:
        alone = np.where(left > 0, begun + left / limits, ends)
        open_ = left > 0
        crowded = _crowded_from(begun[open_], alone[open_], limits[open_], line_bps)
        done = open_ & (alone <= crowded)
        ends[done], left[done] = alone[done], 0.0
        if not np.isfinite(crowded):
            break
        under = (left > 0) & (begun < crowded)
        left[under] -= limits[under] * (crowded - begun[under])
        begun[under] = crowded
        _through((begun, left, ends), limits, line_bps, crowded)
    found = np.empty_like(ends)
    found[by_limit] = ends
    return found


def _through(state: tuple[Floats, Floats, Floats], limits: Floats, line_bps: float, now: float) -> None:
    """Steps from `now` until all limits fit the line again; changes what has begun, is left, and has ended."""
    begun, left, ends = state
    coming = np.sort(begun[(left > 0) & np.isfinite(begun) & (begun > now)])
    active = np.flatnonzero((left > 0) & (begun <= now))
    at = 0
    while len(active) and limits[active].sum() > line_bps * (1.0 + _ROUNDING):
        rates = level_rates(limits[active], line_bps)
        until = now + float((left[active] / rates).min())
        arrival = float(coming[at]) if at < len(coming) else np.inf
        step = min(until, arrival) - now
        left[active] -= rates * step
        now += step
        # What is left of a bit is rounding; a transfer that ends now ends.
        over = active[left[active] <= np.maximum(rates * _ROUNDING * max(now, 1.0), 1e-9)]
        left[over], ends[over] = 0.0, now
        if arrival <= now:
            at = int(np.searchsorted(coming, now, side="right"))
            active = np.flatnonzero((left > 0) & (begun <= now))
        else:
            active = active[left[active] > 0]
    begun[active] = now


_ROUNDING = 1e-12


def level_rates(limits: Floats, line_bps: float) -> Floats:
    """Max-min fair rates of transfers whose limits are sorted, lowest first."""
    count = len(limits)
    below = np.concatenate([[0.0], np.cumsum(limits)[:-1]])
    levels = (line_bps - below) / np.arange(count, 0, -1)
    full = np.flatnonzero(levels < limits)
    level = levels[full[0]] if len(full) else np.inf
    out: Floats = np.minimum(limits, level)
    return out
