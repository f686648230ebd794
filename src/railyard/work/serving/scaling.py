"""One trace at another load.

A trace has one load; a capacity curve needs many. How the load is changed decides whether its bursts survive. With the
counts N(w) in windows of w seconds, the *index of dispersion* is var N / mean N (1 for Poisson, more for bursts):

    compress    t -> t x old rate / new rate. Each window holds what a window of the same expected count held before:
                the index of dispersion against expected count, the variation of gaps, the order of lengths and of
                sessions stay exactly. Waves and think times get shorter in seconds. The default, for any rate.
    superpose   k copies, each turned around the trace by its own shift. Variances and covariances of independent copies
                add as means do: index of dispersion and autocorrelation against *seconds* stay, so a burst lasts as
                long as it did. For more load where durations matter: think times, caches that forget, autoscaling.
                Gaps come nearer to Poisson's. Copies are other users: they share no prefixes and no sessions.
    thin        each conversation stays with probability p. The index falls to 1 + p (index - 1): less bursty, as a
                smaller share of the same users is. For less load from the same population.

A rate between k and k + 1 copies takes k whole copies and one thinned. Sources: time compression and superposition of
traces as in the literature on network traffic (Leland et al., SIGCOMM 1993; Paxson and Floyd, 1995); the law of
thinning is that of a point process with independent marks (Cox and Lewis, 1966).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.graph.request_table import LAST_PS, NO_SESSION, PS_PER_S, RequestTable, joined, merged
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

How = Literal["compress", "superpose", "thin"]
WAYS = ("compress", "superpose", "thin")
MOST_COPIES = 10_000
_GOLDEN = 0x9E3779B97F4A7C15


def scaled(requests: RequestTable, *, rate: float, how: How = "compress", seed: int = 0) -> RequestTable:
    """The same requests at another load.

    Args:
        requests: At the load that they came with.
        rate: Arrivals a second.
        how: `compress` the time axis, `superpose` shifted copies, or `thin` them out.
        seed: Of the shifts and of what is left out.

    Raises:
        InputError: There is no such way, or the rate cannot be reached in it.
    """
    if how not in WAYS:
        raise InputError("unknown way of scaling", found=how, allowed=WAYS, hint=did_you_mean(str(how), WAYS))
    if not (math.isfinite(rate) and rate > 0):
        raise InputError("a rate is more than 0 a second", key="rate", found=rate)
    if requests.rate_per_s <= 0:
        raise InputError("requests without a span of time have no rate to scale", found=f"{len(requests)} requests")
    factor = rate / requests.rate_per_s
    changed = {"compress": _compressed, "superpose": _superposed, "thin": _thinned}[how](requests, factor, seed)
    return replace(changed, source=f"{requests.source}; {how} to {rate:g} a second".removeprefix("; "))


def repeated(requests: RequestTable, count: int) -> RequestTable:
    """The first `count` requests where the same ones come again and again, a mean gap after the last, by other users.

    Rate, bursts and lengths are those of the requests. Copies share no prefixes and no sessions with one another.

    Args:
        requests: At least two, with a span of time.
        count: Requests wanted.

    Raises:
        InputError: They have no span of time.
    """
    if count <= len(requests):
        return requests.head(count)
    if requests.rate_per_s <= 0:
        raise InputError("requests without a span of time cannot be repeated", found=f"{len(requests)} requests")
    period = round(requests.duration_s * PS_PER_S * len(requests) / (len(requests) - 1))
    stride = int(requests.session.max()) + 1
    copies = [
        replace(
            requests,
            arrival_ps=requests.arrival_ps + number * period,
            block_hash=_salted(requests.block_hash, number),
            session=np.where(requests.session == NO_SESSION, NO_SESSION, requests.session + stride * number),
        )
        for number in range(math.ceil(count / len(requests)))
    ]
    return joined(copies).head(count)


def _salted(block_hash: NDArray[np.uint64], number: int) -> NDArray[np.uint64]:
    """Hashes of other prompts; those of copy 0 stay."""
    with np.errstate(over="ignore"):
        salted: NDArray[np.uint64] = block_hash + np.uint64(number * _GOLDEN % 2**64)
    return salted


def _compressed(requests: RequestTable, factor: float, seed: int) -> RequestTable:
    del seed
    if float(requests.arrival_ps[-1]) / factor >= LAST_PS:
        raise InputError("at this rate the requests would span more than 106 days", key="rate", hint="thin them out")
    return replace(requests, arrival_ps=np.rint(requests.arrival_ps / factor).astype(np.int64))


def _superposed(requests: RequestTable, factor: float, seed: int) -> RequestTable:
    if not 1 <= factor <= MOST_COPIES:
        raise InputError(
            "copies only add load, up to ten thousand times",
            key="rate",
            found=f"{factor:.3g} times the load",
            hint="use `thin` or `compress`",
        )
    period = round(int(requests.arrival_ps[-1] - requests.arrival_ps[0]) * len(requests) / (len(requests) - 1))
    copies = int(factor)
    random = np.random.Generator(np.random.Philox(key=seed))
    # Strata of equal length, a random place in each: no two copies come close to one another.
    shifts = [0, *((number + random.random() * 0.5) / math.ceil(factor) for number in range(1, math.ceil(factor)))]
    parts = []
    for number, shift in enumerate(shifts):
        part = requests if number < copies else _thinned(requests, factor - copies, seed + number)
        parts.append(_turned(part, requests, number, shift=round(shift * period), period=period))
    return merged(parts)


def _turned(part: RequestTable, original: RequestTable, number: int, *, shift: int, period: int) -> RequestTable:
    """A copy turned around the trace by a shift; what wraps is another conversation, for its start is not there."""
    if number == 0:
        return part
    stride = int(original.session.max()) + 1
    moved = part.arrival_ps - original.arrival_ps[0] + shift
    wrapped = moved >= period
    moved[wrapped] -= period
    order = np.argsort(moved, kind="stable")
    session = np.where(part.session == NO_SESSION, NO_SESSION, part.session + stride * (2 * number - 1 + wrapped))
    other = replace(part, block_hash=_salted(part.block_hash, number), session=session)
    return other.take(order, np.sort(moved) + original.arrival_ps[0])


def _thinned(requests: RequestTable, factor: float, seed: int) -> RequestTable:
    if factor > 1:
        raise InputError(
            "thinning only takes load away",
            key="rate",
            found=f"{factor:.3g} times the load",
            hint="use `superpose` or `compress`",
        )
    return requests.take(np.flatnonzero(_kept(requests.session, factor, seed)))


def _kept(session: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Which requests stay: whole conversations, single requests each by themselves."""
    random = np.random.Generator(np.random.Philox(key=seed))
    alone = random.random(len(session)) < share
    _, first, which = np.unique(session, return_index=True, return_inverse=True)
    return np.where(session == NO_SESSION, alone, alone[first][which])
