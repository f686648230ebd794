"""Bands of model error from left-out errors: of one prediction, and of the difference of two that share a cause.

An error is e = ln(measured / predicted) of a row that no constant was fitted to. The band of one prediction holds eight
of ten new rows: between the 10th and the 90th percentile, taken a rank further out as split-conformal prediction does
(Lei et al., JASA 2018), so that few rows give a wide band and not a lucky one. No source counts for more than
`MOST_ROWS` rows: a new user is a new source, and a table with a thousand rows is not a thousand of them.

Two predictions of one model on one device with one software share most of their error: a kernel that is 5 % slower than
assumed is so in both. What is left is read off pairs of rows that share source, software, model and device: the band of
a difference is the 80th percentile of |e1 - e2|, every such group counting alike up to `MOST_PAIRS` pairs.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

INSIDE = 0.8
"""Share of new rows that a band is to hold."""
MOST_ROWS = 30
MOST_LATER = 10
"""The same of what one source published in a half year, where half years were forecast: releases repeat their runs."""
MOST_PAIRS = 30
RUNS = 3
"""Runs of one's own that calibrate."""
FEWEST_PAIRS = 5
"""With fewer pairs nothing is said of what two predictions share: they count as independent."""


@dataclass(frozen=True)
class Miss:
    """One left-out row.

    Attributes:
        question: What was predicted (`step`, `tpot`, ...).
        family: Of models or sizes whose errors go together.
        source: Whose measurement it is, and from which half year where time is what was left out.
        group: What it shares with others of its source: software, model, device.
        error: ln(measured / predicted).
        held_out: What the constants had not seen: `time` (what came later), `source`, `model`, `operator`, or `nothing`
            (it was in the fit).
        generation: Of the accelerators of a step; "" of other questions.
    """

    question: str
    family: str
    source: str
    group: str
    error: float
    held_out: str
    generation: str = ""


@dataclass(frozen=True)
class ErrorBand:
    """Band of one question and family; shares of the prediction.

    Attributes:
        low, high: Measured over predicted, less one, between which eight of ten new rows lie.
        median: Of |measured / predicted - 1|.
        between: Band of the difference of two predictions that share software, model and device.
        calibrated_low, calibrated_high: The band after one factor from `RUNS` runs of the same group.
        rows, sources: That it rests on.
        held_out: What their constants had not seen.
    """

    question: str
    family: str
    low: float
    high: float
    median: float
    between: float
    calibrated_low: float
    calibrated_high: float
    rows: int
    sources: int
    held_out: str


def bands(misses: Iterable[Miss]) -> list[ErrorBand]:
    """A band for each question and family, in the order in which they first appear."""
    parts: dict[tuple[str, str], list[Miss]] = {}
    for miss in misses:
        parts.setdefault((miss.question, miss.family), []).append(miss)
    return [_band(question, family, rows) for (question, family), rows in parts.items()]


@dataclass(frozen=True)
class Later:
    """How bands did on what came after everything that they were read off.

    Attributes:
        part: Month that ends what was known, or whatever else the rows share.
        rows: Forecast from what was known before.
        mean, median: Of |predicted / measured - 1|.
        inside: Share of rows inside their band.
        width: Median width of the bands, a share of the prediction.
        score: Mean interval score (Gneiting and Raftery 2007): width, and ten times what a row lies outside.
    """

    part: str
    rows: int
    mean: float
    median: float
    inside: float
    width: float
    score: float


def forecast_bands(misses: Sequence[Miss]) -> list[tuple[Miss, ErrorBand]]:
    """Each row with the band of its family before its cut; families that had no row before are left out.

    Args:
        misses: Forecasts of one question, whose sources end with the cut.
    """
    cuts = sorted({_cut(miss) for miss in misses})
    found = []
    for cut in cuts[1:]:
        known = {band.family: band for band in bands(miss for miss in misses if _cut(miss) < cut)}
        found += [(miss, known[miss.family]) for miss in misses if _cut(miss) == cut and miss.family in known]
    return found


def later(misses: Sequence[Miss]) -> list[Later]:
    """Each cut under the bands of all before it."""
    return later_by(forecast_bands(misses), _cut)


def later_by(rows: Sequence[tuple[Miss, ErrorBand]], part: Callable[[Miss], str]) -> list[Later]:
    """The parts of forecast rows, in the order of their names.

    Args:
        rows: With their bands.
        part: Of a row.
    """
    parts: dict[str, list[tuple[float, float, float]]] = {}
    for miss, band in rows:
        parts.setdefault(part(miss), []).append((miss.error, band.low, band.high))
    return [inside(name, parts[name]) for name in sorted(parts)]


def inside(part: str, rows: Sequence[tuple[float, float, float]]) -> Later:
    """How the rows of a part lay in their bands.

    Args:
        part: Month that ends what was known, or whatever else they share.
        rows: Of each row ln(measured / predicted), and the low and high end of its band as shares.
    """
    found = [(math.expm1(error), low, high) for error, low, high in rows]
    off = [abs(math.expm1(-error)) for error, _, _ in rows]
    width = [high - low for _, low, high in rows]
    beyond = [max(low - one, one - high, 0.0) for one, low, high in found]
    return Later(
        part=part,
        rows=len(rows),
        mean=statistics.fmean(off),
        median=statistics.median(off),
        inside=sum(one == 0.0 for one in beyond) / len(rows),
        width=statistics.median(width),
        score=statistics.fmean(width) + 2.0 / (1.0 - INSIDE) * statistics.fmean(beyond),
    )


def _cut(miss: Miss) -> str:
    return miss.source.rsplit(", ", 1)[1]


def _band(question: str, family: str, rows: Sequence[Miss]) -> ErrorBand:
    counts = Counter(row.source for row in rows)
    most = MOST_LATER if all(row.held_out == "time" for row in rows) else MOST_ROWS
    weighted = [(row.error, min(1.0, most / counts[row.source])) for row in rows]
    outside = (1.0 - INSIDE) / 2.0
    low, high = _ends(weighted, outside)
    less, more = _ends(_calibrated(rows) or weighted, outside)
    pairs = _pairs(rows)
    apart = _upper(pairs, 1.0 - INSIDE) if len(pairs) >= FEWEST_PAIRS else math.sqrt(2.0) * max(-low, high)
    return ErrorBand(
        question=question,
        family=family,
        low=math.expm1(min(low, 0.0)),
        high=math.expm1(max(high, 0.0)),
        median=_quantile([(abs(math.expm1(error)), weight) for error, weight in weighted], 0.5),
        between=math.expm1(apart),
        calibrated_low=math.expm1(min(less, 0.0)),
        calibrated_high=math.expm1(max(more, 0.0)),
        rows=len(rows),
        sources=len(counts),
        held_out=", ".join(dict.fromkeys(row.held_out for row in rows)),
    )


def _ends(weighted: Sequence[tuple[float, float]], outside: float) -> tuple[float, float]:
    return -_upper([(-error, weight) for error, weight in weighted], outside), _upper(weighted, outside)


def _calibrated(rows: Sequence[Miss]) -> list[tuple[float, float]]:
    """Errors, less the median error of `RUNS` other rows of the same group, drawn once for each row."""
    draw, found = random.Random(0), []
    for errors in _groups(rows).values():
        for number, error in enumerate(errors if len(errors) > RUNS else ()):
            others = draw.sample(errors[:number] + errors[number + 1 :], RUNS)
            found.append((error - statistics.median(others), min(1.0, MOST_ROWS / len(errors))))
    return found


def _groups(rows: Sequence[Miss]) -> dict[tuple[str, str], list[float]]:
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row.source, row.group), []).append(row.error)
    return groups


def _pairs(rows: Sequence[Miss]) -> list[tuple[float, float]]:
    """|e1 - e2| of rows that share what can be shared, with their weights."""
    found = []
    for errors in _groups(rows).values():
        apart = [abs(one - other) for one, other in itertools.combinations(errors, 2)]
        found += [(error, min(1.0, MOST_PAIRS / len(apart))) for error in apart]
    return found


def _upper(weighted: Sequence[tuple[float, float]], outside: float) -> float:
    """The value that a new one exceeds with probability `outside`: the new one counts as one more row, above all."""
    total = sum(weight for _, weight in weighted)
    return _quantile(weighted, min(1.0, (total + 1.0) * (1.0 - outside) / total))


def _quantile(weighted: Sequence[tuple[float, float]], level: float) -> float:
    """The least value with at least a share `level` of the weight at or below it."""
    ordered = sorted(weighted)
    wanted = level * sum(weight for _, weight in ordered) * (1.0 - 1e-12)
    for (value, _), reached in zip(ordered, itertools.accumulate(weight for _, weight in ordered), strict=True):
        if reached >= wanted:
            return value
    return ordered[-1][0]
