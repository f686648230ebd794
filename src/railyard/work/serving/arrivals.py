"""Arrivals of requests, or of the first requests of conversations.

Every process is a renewal process of mean gap 1 / rate in an *operational* time, and a way from that to the clock:

    poisson    exponential gaps
    gamma      gamma gaps of a coefficient of variation cv: bursts for cv > 1; the index of dispersion tends to cv^2
    weibull    Weibull gaps of the same cv: a longer tail of pauses
    fixed      equal gaps
    diurnal    rate r (1 - a cos(2 pi t / P)): from the trough on; gaps in operational time as gamma, so cv adds bursts
    on-off     Poisson while on, silent while off, both exponentially long: index of dispersion tends to
               1 + 2 r_on alpha / (alpha + beta)^2, with alpha = 1 / on and beta = 1 / off (interrupted Poisson process)

Gaps are integer picoseconds, so that sums are exact and do not depend on how a stream is cut into chunks. Sources of
the laws: Cox, Renewal Theory, 1962; Kuczura, Bell System Technical Journal 1973. That production arrivals are renewal
bursts of this kind, gamma or Weibull by the client: ServeGen, arXiv 2505.09999; BurstGPT, arXiv 2401.17644.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.cluster.routes import finalized
from railyard.graph.request_table import LAST_PS, MOST_TOKENS, PS_PER_S
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.graph.request_table import RequestTable


@dataclass(frozen=True)
class FixedLength:
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
            raise InputError("lengths are at least one token, and at least one is needed", key="tokens")

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


LengthLaw = FixedLength | LogNormal | Empirical


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def prefix_hashes(tokens: NDArray[np.uint64], block_tokens: int) -> NDArray[np.uint64]:
    """A hash of every prefix that ends with a whole block: mixed sums of mixed (token, place)."""
    place = np.arange(1, len(tokens) + 1, dtype=np.uint64) * _GOLDEN
    sums = np.cumsum(finalized(finalized(tokens + np.uint64(1)) ^ place), dtype=np.uint64)
    return finalized(sums[block_tokens - 1 :: block_tokens])


def block_hashes(owner: NDArray[np.int64], block: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each block of histories that only grow: its owner and its place say all."""
    return finalized(finalized(owner.astype(np.uint64) + _GOLDEN) ^ (block.astype(np.uint64) + np.uint64(1)) * _GOLDEN)


Kind = Literal["poisson", "gamma", "weibull", "fixed", "diurnal", "on-off"]
KINDS = ("poisson", "gamma", "weibull", "fixed", "diurnal", "on-off")
_PIECES = 8192
_SPANS = 1024


@dataclass(frozen=True)
class Arrivals:
    """A process of arrivals.

    Attributes:
        kind: One of `KINDS`.
        cv: Coefficient of variation of the gaps, for `gamma`, `weibull` and `diurnal`.
        swing: Of `diurnal`: how far the peak lies above the mean rate, as a share of it; 0 to 1.
        on_s: Mean length of a busy spell of `on-off`.
        off_s: Mean length of a silent one.
    """

    rate_per_s: float
    kind: Kind = "poisson"
    cv: float = 1.0
    period_s: float = 86_400.0
    swing: float = 0.6
    on_s: float = 10.0
    off_s: float = 10.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            hint = did_you_mean(str(self.kind), KINDS)
            raise InputError(
                "there is no such process of arrivals", key="kind", found=self.kind, allowed=KINDS, hint=hint
            )
        for name, low, high in (
            ("rate_per_s", 1e-6, 1e9),
            ("cv", 0.05, 20.0),
            ("period_s", 1e-3, 1e6),
            ("swing", 0.0, 1.0),
            ("on_s", 1e-6, 1e6),
            ("off_s", 0.0, 1e6),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError("this is out of range", key=name, found=value, allowed=f"{low:g} to {high:g}")
        if self.kind in ("poisson", "fixed", "on-off") and self.cv != 1.0:
            raise InputError(
                f"{self.kind} arrivals have no variation to choose",
                key="cv",
                found=self.cv,
                hint="use gamma or weibull",
            )


@dataclass
class ArrivalClock:
    """Draws arrivals one after another.

    Args:
        law: The process.
        seed: With `stream`, decides every draw.
    """

    law: Arrivals
    seed: int
    _now: int = 0
    _spell_ends: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    _silence: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def __post_init__(self) -> None:
        self._gaps = generator(self.seed, 0)
        self._spells = generator(self.seed, 1)

    def next(self, count: int) -> NDArray[np.int64]:
        """The next `count` arrivals in picoseconds.

        Raises:
            InputError: They lie more than 106 days after the first.
        """
        law = self.law
        rate = law.rate_per_s * ((law.on_s + law.off_s) / law.on_s if law.kind == "on-off" else 1.0)
        scale = PS_PER_S / rate
        if self._now + 2.0 * count * scale >= LAST_PS:
            raise InputError("so many requests at this rate would span more than 106 days", key="rate", found=rate)
        gaps = np.rint(_unit_gaps(law, self._gaps, count) * scale).astype(np.int64)
        operational = self._now + np.cumsum(gaps)
        self._now = int(operational[-1])
        if law.kind == "diurnal":
            return _by_day(operational, law)
        return self._between_silences(operational) if law.kind == "on-off" else operational

    def _between_silences(self, busy: NDArray[np.int64]) -> NDArray[np.int64]:
        """Puts silent spells into a time that only counts busy ones."""
        while self._spell_ends[-1] <= busy[-1]:
            drawn = self._spells.standard_exponential(2 * _SPANS)
            on = np.rint(drawn[0::2] * self.law.on_s * PS_PER_S).astype(np.int64)
            off = np.rint(drawn[1::2] * self.law.off_s * PS_PER_S).astype(np.int64)
            self._spell_ends = np.concatenate((self._spell_ends, self._spell_ends[-1] + np.cumsum(on)))
            self._silence = np.concatenate((self._silence, self._silence[-1] + np.cumsum(off)))
        # The silence before a spell is the sum of those after the spells that ended before it.
        spell = np.searchsorted(self._spell_ends, busy, side="right") - 1
        arrivals: NDArray[np.int64] = busy + self._silence[spell]
        keep = int(spell[-1])
        self._spell_ends, self._silence = self._spell_ends[keep:], self._silence[keep:]
        return arrivals


def generator(seed: int, stream: int) -> np.random.Generator:
    """A generator of random numbers of its own for each purpose.

    Raises:
        InputError: The seed is no integer from 0 on.
    """
    if not 0 <= seed < 2**64:
        raise InputError("expected an integer seed from 0 to 2^64", key="seed", found=seed)
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream], np.uint64)))


def weibull_shape(cv: float) -> float:
    """The shape k of a Weibull law of this coefficient of variation: G(1 + 2/k) / G(1 + 1/k)^2 = 1 + cv^2."""
    low, high = 0.05, 200.0
    for _ in range(80):
        middle = math.sqrt(low * high)
        spread = math.lgamma(1 + 2 / middle) - 2 * math.lgamma(1 + 1 / middle)
        low, high = (middle, high) if spread > math.log1p(cv**2) else (low, middle)
    return math.sqrt(low * high)


def _unit_gaps(law: Arrivals, random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Gaps of mean 1."""
    if law.kind == "fixed":
        return np.ones(count)
    if law.kind == "weibull":
        shape = weibull_shape(law.cv)
        return random.weibull(shape, count) / math.gamma(1 + 1 / shape)
    if law.cv == 1.0:
        return random.standard_exponential(count)
    return random.standard_gamma(law.cv**-2, count) * law.cv**2


def _by_day(operational: NDArray[np.int64], law: Arrivals) -> NDArray[np.int64]:
    """Maps times of an even rate to one that varies over the day, by the inverse of the expected count."""
    period = round(law.period_s * PS_PER_S)
    grid = np.linspace(0.0, 1.0, _PIECES + 1)
    expected = grid - law.swing / math.tau * np.sin(math.tau * grid)
    periods, rest = np.divmod(operational, period)
    share = np.interp(rest / period, expected, grid)
    return periods * period + np.rint(share * period).astype(np.int64)
