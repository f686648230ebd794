"""How long prompts and answers are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from railyard.graph.request_table import MOST_TOKENS
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph.request_table import RequestTable


@dataclass(frozen=True)
class Fixed:
    """Always the same."""

    tokens: int

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MOST_TOKENS:
            raise InputError("a length is at least one token", key="tokens", found=self.tokens)

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` lengths."""
        del random
        return np.full(count, self.tokens, np.int64)


@dataclass(frozen=True)
class LogNormal:
    """A log-normal law by its mean and one percentile, as traces publish them.

    With the percentile's normal quantile z, ln(value / mean) = z s - s^2 / 2; of the two widths s the smaller is taken.

    Attributes:
        mean: Tokens.
        value: What `percent` of the lengths stay below.
        percent: More than 50, less than 100.
        most: Longer ones are cut to this.
    """

    mean: float
    value: float
    percent: float = 99.0
    most: int = MOST_TOKENS

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.mean >= 1 and 1 <= self.most <= MOST_TOKENS):
            raise InputError("a mean length is at least one token", key="mean", found=self.mean)
        if not 50 < self.percent < 100:
            raise InputError("the percentile lies above the median", key="percent", found=self.percent)
        widest = self.mean * math.exp(NormalDist().inv_cdf(self.percent / 100) ** 2 / 2)
        if not self.mean <= self.value <= widest:
            raise InputError(
                f"no log-normal law has this mean and {self.percent:g}th percentile",
                key="value",
                found=self.value,
                allowed=f"{self.mean:g} to {widest:.4g}",
            )

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        quantile = NormalDist().inv_cdf(self.percent / 100)
        return quantile - math.sqrt(max(0.0, quantile**2 - 2 * math.log(self.value / self.mean)))

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` lengths, rounded."""
        centre = math.log(self.mean) - self.sigma**2 / 2
        lengths = np.exp(centre + self.sigma * random.standard_normal(count))
        return np.clip(np.rint(lengths), 1, self.most).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Empirical:
    """Lengths as they were found, each as likely as another."""

    tokens: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.tokens) or np.min(self.tokens) < 1 or np.max(self.tokens) > MOST_TOKENS:
            raise InputError("lengths are at least one token, and at least one of them is due", key="tokens")

    def draw(self, random: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` lengths."""
        return np.asarray(self.tokens, np.int64)[(random.random(count) * len(self.tokens)).astype(np.int64)]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Prompt and answer as they were found together: their correlation stays."""

    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.input_tokens) != len(self.output_tokens):
            raise InputError("pairs have as many prompts as answers", found=len(self.input_tokens))
        Empirical(self.input_tokens)
        Empirical(self.output_tokens)

    @staticmethod
    def of(requests: RequestTable) -> Pairs:
        """The lengths of a trace."""
        return Pairs(requests.input_tokens.astype(np.int64), requests.output_tokens.astype(np.int64))

    def draw(self, random: np.random.Generator, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`count` prompts and their answers."""
        rows = (random.random(count) * len(self.input_tokens)).astype(np.int64)
        return np.asarray(self.input_tokens, np.int64)[rows], np.asarray(self.output_tokens, np.int64)[rows]


LengthLaw = Fixed | LogNormal | Empirical
