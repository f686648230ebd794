"""What a set of requests looks like: rate, lengths, burstiness, shared prefixes.

Index of dispersion: variance over mean of the number of arrivals in windows of equal length; 1 for Poisson arrivals at
every window. An index that grows with the window says that bursts come in bursts. Ideal prefix hits: the share of
blocks that an earlier request had as part of the same prefix, with a cache that never forgets; an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.graph.request_table import LAST_PS, NO_SESSION, PS_PER_S, RequestTable, joined, merged
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.quantities import ranges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph.request_table import RequestTable


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
        raise InputError("requests that all arrive at once have no rate to scale", found=f"{len(requests)} requests")
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
        raise InputError("requests that all arrive at once cannot be repeated", found=f"{len(requests)} requests")
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
    """Requests that stay: whole conversations, single requests each by themselves."""
    random = np.random.Generator(np.random.Philox(key=seed))
    alone = random.random(len(session)) < share
    _, first, which = np.unique(session, return_index=True, return_inverse=True)
    return np.where(session == NO_SESSION, alone, alone[first][which])


WINDOWS_S = (1.0, 10.0, 60.0)
_LEAST_WINDOWS = 10
_MOST_WINDOWS = 10**7


@dataclass(frozen=True)
class Lengths:
    """Token counts: mean, percentiles (nearest rank of the sorted values, interpolated) and the largest."""

    mean: float
    p50: float
    p90: float
    p99: float
    most: int


@dataclass(frozen=True)
class Summary:
    """Statistics of requests.

    Attributes:
        duration_s: First arrival to last.
        gap_cv: Standard deviation of the gaps between arrivals over their mean; 1 for Poisson, None for no gaps.
        dispersion: Index of dispersion by window in seconds, of windows that fit into the trace ten times.
        autocorrelation: Of the counts in neighbouring windows, by window in seconds.
        peak_rate_per_s: Of the busiest 10 s, or of the whole where it is shorter.
        sessions: Conversations of more than one request or with an id.
        block_tokens: Tokens of a hashed block; 0 where no prefixes are known.
        prefix_hit_rate: Share of blocks an unlimited cache would hold; None where no prefixes are known.
        cached_token_share: Share of prompt tokens in those blocks.
        kinds: Share of requests by class.
    """

    requests: int
    duration_s: float
    rate_per_s: float
    input_tokens: Lengths | None
    output_tokens: Lengths | None
    gap_cv: float | None
    dispersion: dict[float, float]
    autocorrelation: dict[float, float]
    peak_rate_per_s: float
    sessions: int
    block_tokens: int
    prefix_hit_rate: float | None
    cached_token_share: float | None
    kinds: dict[str, float]
    source: str

    def to_json(self) -> dict[str, object]:
        """The summary as JSON values."""
        values = asdict(self)
        for name in ("dispersion", "autocorrelation"):
            values[name] = {f"{window:g}": value for window, value in values[name].items()}
        return values


def summarize(requests: RequestTable) -> Summary:
    """The statistics of these requests."""
    windows = [window for window in WINDOWS_S if _usable(requests.duration_s, window)]
    hits = ideal_hits(requests)
    blocks = len(requests.block_hash)
    tokens = np.minimum(hits * requests.block_tokens, requests.input_tokens).sum()
    return Summary(
        requests=len(requests),
        duration_s=requests.duration_s,
        rate_per_s=requests.rate_per_s,
        input_tokens=_lengths(requests.input_tokens),
        output_tokens=_lengths(requests.output_tokens),
        gap_cv=gap_cv(requests.arrival_ps),
        dispersion={window: dispersion(requests.arrival_ps, window) for window in windows},
        autocorrelation={window: autocorrelation(requests.arrival_ps, window) for window in windows},
        peak_rate_per_s=_peak(requests),
        sessions=len(np.unique(requests.session[requests.session != NO_SESSION])),
        block_tokens=requests.block_tokens,
        prefix_hit_rate=float(hits.sum() / blocks) if blocks else None,
        cached_token_share=float(tokens / requests.input_tokens.sum(dtype=np.int64)) if blocks else None,
        kinds=_shares(requests),
        source=requests.source,
    )


def ideal_hits(requests: RequestTable) -> NDArray[np.int64]:
    """Leading blocks of each request that some earlier request had, with a cache that never forgets; i64[n]."""
    counts = np.diff(requests.block_ptr)
    if not len(requests.block_hash):
        return np.zeros(len(requests), np.int64)
    owner = np.repeat(np.arange(len(requests)), counts)
    _, first, which = np.unique(requests.block_hash, return_index=True, return_inverse=True)
    fresh = owner[first][which] == owner
    inside = ranges(0, counts)
    hits = counts.copy()
    np.minimum.at(hits, owner[fresh], inside[fresh])
    return hits


def counts(arrival_ps: NDArray[np.int64], window_s: float) -> NDArray[np.int64]:
    """Arrivals in each whole window from the first arrival on; the last, cut one is left out."""
    if len(arrival_ps) == 0:
        return np.zeros(0, np.int64)
    width = max(1, round(window_s * PS_PER_S))
    windows = (arrival_ps - arrival_ps[0]) // width
    return np.bincount(windows)[:-1]


def dispersion(arrival_ps: NDArray[np.int64], window_s: float) -> float:
    """Variance over mean of the arrivals in windows of `window_s`; nan where there is no whole window."""
    arrivals = counts(arrival_ps, window_s)
    return float(arrivals.var() / arrivals.mean()) if arrivals.size and arrivals.any() else float("nan")


def autocorrelation(arrival_ps: NDArray[np.int64], window_s: float) -> float:
    """Correlation of the arrivals in neighbouring windows; 0 where the counts do not vary."""
    arrivals = counts(arrival_ps, window_s).astype(float)
    arrivals -= arrivals.mean() if arrivals.size else 0.0
    scale = float(arrivals @ arrivals)
    return float(arrivals[:-1] @ arrivals[1:]) / scale if scale > 0 else 0.0


def gap_cv(arrival_ps: NDArray[np.int64]) -> float | None:
    """Standard deviation of the gaps between arrivals over their mean; None where there is no gap."""
    gaps = np.diff(arrival_ps)
    return float(gaps.std() / gaps.mean()) if gaps.size and gaps.any() else None


def _usable(duration_s: float, window_s: float) -> bool:
    return _LEAST_WINDOWS <= duration_s / window_s <= _MOST_WINDOWS


def _peak(requests: RequestTable, window_s: float = 10.0) -> float:
    if not _usable(requests.duration_s, window_s):
        return requests.rate_per_s
    return float(counts(requests.arrival_ps, window_s).max() / window_s)


def _shares(requests: RequestTable) -> dict[str, float]:
    of_kind = np.bincount(requests.kind, minlength=len(requests.kinds))
    return {name: float(n / max(1, len(requests))) for name, n in zip(requests.kinds, of_kind, strict=True)}


def _lengths(tokens: NDArray[np.int32]) -> Lengths | None:
    if not len(tokens):
        return None
    p50, p90, p99 = (float(value) for value in np.percentile(tokens, (50, 90, 99)))
    return Lengths(float(tokens.mean(dtype=np.float64)), p50, p90, p99, int(tokens.max()))
