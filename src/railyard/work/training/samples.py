"""How much of an epoch a cache serves, when every epoch reads the dataset once in a new random order.

Let c be the share of the dataset that a server's cache holds, and N the servers. Each epoch a sample goes to one of
them at random. Two uses of a sample by one server lie g = k - u + v epochs apart, u and v uniform in [0, 1] and k
geometric with parameter 1/N.

    pinned       what came first stays: a hit when the sample is one of those, h = c
    shared       pinned, and servers keep different samples and read them from one another: h = N c, at most 1
    page-cache   a random sample goes when room is needed. Between two uses m / (N c) of the cache is replaced an epoch
                 (m misses of the 1/N of the dataset that a server reads), so h = E[exp(-g m / (N c))] with m = 1 - h
    lru          the sample unused for longest goes: h = P(g <= T), where T is the time for which the cache lasts,
                 c = integral from 0 to T of P(g > t) dt / N (the characteristic time of Che, Tung and Wang, 2002)

With a = m / (N c) the expectation is ((1 - e^-a) / a)^2 / N / (1 - (1 - 1/N) e^-a): it comes out in closed form, and
the fixed point is unique, for the right side falls in m.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.work.training.spec import Access, CachePolicy, DataLoading


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to store samples.

    Attributes:
        name: Key in the file.
        summary: In a few words.
        bytes_per_token: Stored bytes per training token.
        items_per_sequence: Files or records for each sequence, beside its tokens.
        item_size_bytes: Mean stored size of one.
        item_spread: Standard deviation of that size over its mean.
        token_time_ps: Processor time to prepare one token, on one core.
        item_time_ps: Processor time to prepare one item, on one core.
        access: Whether a worker reads ahead through shards or asks for each piece by itself.
        request_size_bytes: Largest single request.
        source: Where sizes and times come from.
        year: Of the source.
        confidence: `measured`, `vendor` or `estimated`.
    """

    name: str
    summary: str
    bytes_per_token: float
    items_per_sequence: float
    item_size_bytes: int
    item_spread: float
    token_time_ps: int
    item_time_ps: int
    access: Access
    request_size_bytes: int
    source: str
    year: int
    confidence: str


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    text = resources.files("railyard.work.training").joinpath("data/formats.toml").read_text("utf-8")
    return {name: Format(name=name, **values) for name, values in tomllib.loads(text).items()}


def format_of(data: DataLoading) -> Format:
    """The format of a job's samples, with what the job replaces of it.

    Raises:
        InputError: There is no such format, or a value cannot be.
    """
    known = formats()
    if data.format not in known:
        raise InputError(
            "there is no such dataset format",
            key="format",
            found=data.format,
            allowed=list(known),
            hint=did_you_mean(data.format, list(known)),
        )
    base = known[data.format]
    values = {name: getattr(base, name) for name in Format.__dataclass_fields__}
    for name in values:
        given = getattr(data, name, None)
        if given is not None and name not in {"name", "summary", "source", "year", "confidence"}:
            values[name] = given
    return Format(**values)


_STEPS = 60
_LONGEST_GAPS, _POINTS_PER_EPOCH, _MOST_POINTS = 16, 200, 200_000


def hit_rate(policy: CachePolicy, cache_bytes: float, dataset_bytes: float, servers: int = 1) -> float:
    """Share of a later epoch's bytes that the caches serve.

    Args:
        policy: How the cache evicts.
        cache_bytes: Of one server.
        dataset_bytes: Above 0.
        servers: That read the dataset together.
    """
    share = min(cache_bytes / dataset_bytes, 1.0)
    if policy == "none" or share <= 0:
        return 0.0
    if policy == "shared":
        return min(servers * share, 1.0)
    if share >= 1.0:
        return 1.0
    if policy == "pinned":
        return share
    return _random_replacement(share, servers) if policy == "page-cache" else _least_recent(share, servers)


def _random_replacement(share: float, servers: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        missed = (low + high) / 2
        if 1 - _survival(missed / (servers * share), servers) > missed:
            low = missed
        else:
            high = missed
    return 1 - high


def _survival(rate: float, servers: int) -> float:
    """Expectation of exp(-rate x g)."""
    if rate <= 0:
        return 1.0
    gone = -math.expm1(-rate)
    return (gone / rate) ** 2 / servers / (1 - (1 - 1 / servers) * (1 - gone))


def _least_recent(share: float, servers: int) -> float:
    span = 2.0 + _LONGEST_GAPS * servers
    time = np.linspace(0.0, span, min(_MOST_POINTS, round(span * _POINTS_PER_EPOCH)))
    within = _gap_cdf(time, servers)
    covered = np.concatenate([[0.0], np.cumsum(np.diff(time) * (1 - (within[1:] + within[:-1]) / 2))]) / servers
    lasts = float(np.interp(share, covered, time))
    return float(np.interp(lasts, time, within))


def _gap_cdf(time: NDArray[np.float64], servers: int) -> NDArray[np.float64]:
    """P(g <= t): the triangle of 1 - u + v, shifted by a geometric number of whole epochs, weights q^k / N.

    At t = n + x all shifts up to n - 2 are within, that of n - 1 up to 1 - (1 - x)^2 / 2, that of n up to x^2 / 2.
    """
    epochs = np.floor(time)
    part, kept = time - epochs, 1 - 1 / servers
    before, last = (np.where(epochs >= 1, _power(kept, epochs - 1), 0.0), _power(kept, epochs))
    passed = np.where(epochs >= 1, 1 - before, 0.0)
    return passed + before / servers * (1 - (1 - part) ** 2 / 2) + last / servers * part**2 / 2


def _power(base: float, exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(base ** np.maximum(exponent, 0.0), np.float64)
