"""Draws that hang on seed, stage and request only: one stage more or less changes no draw of another."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.hashing import finalized
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def uniform(seed: int, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number from 0 to 1, both excluded, for each request.

    Args:
        seed: Of the run.
        name: What is drawn.
        rows: Numbers of the requests.
    """
    salt = np.full(1, zlib.crc32(name.encode()), np.uint64) << np.uint64(32)
    key = finalized(finalized(np.full(1, seed % 2**64, np.uint64)) ^ salt)
    bits = finalized(key ^ finalized(rows.astype(np.uint64) + np.uint64(1))) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


@dataclass(frozen=True)
class Takers:
    """Which requests take a stage; the others pass it by.

    Attributes:
        share: Of the requests.
        long_tokens: Prompts of more tokens than this have a share of their own; None: none have.
        share_long: Of those.
        unless: Only those that did not take this stage.
    """

    share: float = 1.0
    long_tokens: int | None = None
    share_long: float = 1.0
    unless: str | None = None


def takers(
    when: Takers, seed: int, name: str, input_tokens: NDArray[np.int32], others: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Which requests take a stage.

    Args:
        when: Which do.
        seed: Of the run.
        name: The stage.
        input_tokens: int32[n], of each request as it was asked.
        others: bool[n], who took the stage that excludes this one; None where there is none.
    """
    share = np.full(len(input_tokens), when.share)
    if when.long_tokens is not None:
        share[input_tokens > when.long_tokens] = when.share_long
    taken = uniform(seed, name, np.arange(len(input_tokens))) < share
    return taken if others is None else taken & ~others


def delays(mean_s: float, p99_s: float | None, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Delays in seconds: all alike, or log-normal with that mean and 99th percentile.

    With ln(p99 / mean) = z s - s^2 / 2, of the two widths s the smaller is taken.

    Raises:
        InputError: No log-normal law has this mean and percentile.
    """
    if p99_s is None:
        return np.full(len(u), mean_s)
    law = NormalDist()
    z = law.inv_cdf(0.99)
    if not mean_s <= p99_s <= mean_s * np.exp(z**2 / 2):
        raise InputError(
            "no log-normal law has this mean and 99th percentile",
            key="p99",
            found=f"{p99_s:g} s",
            allowed=f"{mean_s:g} s to {mean_s * float(np.exp(z**2 / 2)):.3g} s",
        )
    sigma = z - (z**2 - 2 * np.log(p99_s / mean_s)) ** 0.5
    normal = np.array([law.inv_cdf(one) for one in u.tolist()], np.float64)
    found: NDArray[np.float64] = mean_s * np.exp(sigma * normal - sigma**2 / 2)
    return found
