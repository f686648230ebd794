"""Model error: for each kind of question, the error band of held-out measurements.

`data/model_errors.json` is written by `validation/tools/model_errors.py` from every held-out error of the validation;
`railyard_validation.bands` explains how a band is derived from them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from railyard.measure.result.money import ErrorRow
from railyard.measure.result.section import EIGHT_OF_TEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from railyard.measure.result.network import CollectiveRow
    from railyard.measure.result.section import Band
    from railyard.measure.result.step import TaxFigures

_HALF = 0.6745
"""Standard deviations of a normal distribution within which one of two draws lies."""
Question = Literal["step", "tpot", "ttft", "throughput", "power", "collective", "slowed kernels"]
SERVING: tuple[Question, ...] = ("ttft", "tpot", "throughput")
"""Serving questions whose bands depend on how close a deployment is to measured ones."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Band of one question, as shares of the prediction.

    Attributes:
        family: Models or sizes whose errors are correlated.
        low, high: Measured over predicted, minus 1: eight of ten held-out rows lie between.
        median: Median of |measured / predicted - 1|.
        between: Band of the difference of two predictions that share software, model and device.
        calibrated_low, calibrated_high: The band after one factor from three runs of the same model and device.
    """

    question: Question
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

    @property
    def widest(self) -> float:
        """The larger end of the band, as a share."""
        return max(-self.low, self.high)

    @property
    def percents(self) -> str:
        """`-4 to +46`: the ends of the band in percent."""
        return f"{100 * self.low:+.0f} to {100 * self.high:+.0f}"

    @property
    def scatter(self) -> float:
        """Half the width of the band, as a logarithm: the remaining error when a bias cancels."""
        return math.log((1.0 + self.high) / (1.0 + self.low)) / 2.0

    def erring_too(self, width: float) -> ModelError:
        """The band with an additional independent error.

        Args:
            width: Half the width of that error for the same figure, as a logarithm.
        """
        ends = (math.hypot(math.log1p(end), width) for end in (self.low, self.high))
        return replace(self, low=math.expm1(-next(ends)), high=math.expm1(next(ends)))

    def narrowed(self, runs: int, width: float) -> ModelError:
        """The band after a user's own runs have corrected the prediction: eight of ten of a normal error.

        Args:
            runs: Number of runs.
            width: One standard deviation of ln(measured / predicted) that they leave.
        """
        end = EIGHT_OF_TEN * width
        return replace(
            self,
            family="own runs",
            low=math.expm1(-end),
            high=math.expm1(end),
            median=math.expm1(_HALF * width),
            rows=runs,
            sources=1,
            held_out="the setting, not the system",
        )

    def widened(self, fastest: float, slowest: float) -> ModelError:
        """The band of a prediction for jobs whose steps lie between these, relative to its own."""
        low, high = (1.0 + self.low) * fastest - 1.0, (1.0 + self.high) * slowest - 1.0
        return replace(self, low=low, high=high)

    def row(self, figure: str, typical: float, *, inverse: bool = False, prices: Band | None = None) -> ErrorRow:
        """The band of a figure.

        Args:
            figure: Its name.
            typical: The predicted value.
            inverse: Whether the figure falls as what was validated grows: tokens/s of a step.
            prices: The same figure by prices alone, at their ends.
        """
        ends = (typical * (1.0 + self.low), typical * (1.0 + self.high))
        if inverse:
            ends = (typical / (1.0 + self.high), typical / (1.0 + self.low))
        return ErrorRow(
            figure=figure,
            family=f"{self.question}: {self.family}",
            low=ends[0],
            typical=typical,
            high=ends[1],
            between=self.between,
            rows=self.rows,
            sources=self.sources,
            held_out=self.held_out,
            prices=prices,
        )


UNKNOWN = ", software not known"
"""Suffix of families whose rows were predicted with the newest software of their device, whatever they ran."""


FEWEST = 9
"""Minimum rows of a serving band: with eight and a new one, none need lie beyond the 10th percentile."""

NEW = ", new"
"""Suffix of families of deployments without any similar published one, see `serving_family`."""


@cache
def _written() -> Mapping[str, Any]:
    text = (files("railyard.measure") / "data" / "model_errors.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def record() -> Mapping[tuple[str, str], ModelError]:
    """Every band, by question and family."""
    found = (ModelError(**row) for row in _written()["bands"])
    return {(one.question, one.family): one for one in found}


def judged_software() -> Sequence[str]:
    """Keys (`name/architecture`) of the software profiles whose published steps are among the held-out rows."""
    found: list[str] = _written()["software"]
    return found


def step_error(*, experts: bool, precision: str, known: bool = True) -> ModelError:
    """Error of a training step.

    Args:
        experts: Whether the model has experts.
        precision: Precision of its matrix products.
        known: Whether the software is named and `judged_software` has it on this architecture; otherwise measured runs
            used other software than was assumed for them. Two predictions still share their software.
    """
    bits = "16 bits" if precision in ("bf16", "fp16") else "8 bits or fewer"
    family = f"{'experts' if experts else 'dense'}, {bits}"
    error = record()["step", family]
    return error if known else replace(record()["step", family + UNKNOWN], between=error.between)


class Judged(TypedDict):
    """Similarity of a deployment to measured ones.

    Attributes:
        experts: Whether the model has experts.
        split: Whether prompts have separate pools.
        published: Whether the model was measured on that architecture, by that engine and in that precision before.
    """

    experts: bool
    split: bool
    published: bool


def serving_family(*, experts: bool, split: bool, published: bool) -> str:
    """The family of deployments whose errors are correlated: the further from measured ones, the wider its band."""
    pools = "pools for prompts" if split else f"{'experts' if experts else 'dense'}, one pool"
    return pools + ("" if published else NEW)


def serving_key(model: str, architecture: str, engine: str, precision: str) -> str:
    """Identity of a measured deployment; one without any similar published one has a wider band."""
    return "/".join((model, architecture, engine, precision))


def measured_deployments() -> frozenset[str]:
    """Keys (`serving_key`) of the published deployments of serving that the bands rest on."""
    return frozenset(_written()["deployments"])


def serving_error(question: Question, **judged: Unpack[Judged]) -> ModelError:
    """Error of a serving figure; a family with too few rows gets the band of new ones, or the widest of these."""
    family = serving_family(**judged)
    known = {one.family: one for (of, _), one in record().items() if of == question and one.rows >= FEWEST}
    new = [one for name, one in known.items() if name.endswith(NEW)]
    return known.get(family) or known.get(family + NEW) or max(new, key=lambda one: one.scatter)


def power_error() -> ModelError:
    """Error of the accelerators' power."""
    return record()["power", "all"]


def collective_error() -> ModelError:
    """Error of one collective of the sizes used in training."""
    return record()["collective", "1 to 64 MiB"]


def slowed_error() -> ModelError:
    """Error of the slowdown of computation while a collective runs."""
    return record()["slowed kernels", "all"]


def tax_row(tax: TaxFigures, rows: Iterable[CollectiveRow]) -> ErrorRow:
    """The band of a network tax: a collective's error applies to all of it, that of slowed kernels only to their part.

    A loss that is longer makes the step longer too, while the step on an infinite network stays. Outage time is not
    predicted by the collective model, so it does not contribute to the band.
    """
    collective = collective_error().erring_too(beyond_scatter(rows))
    slowed, share = slowed_error(), tax.tokens_lost
    shorter = math.hypot(collective.low * tax.of_collectives, slowed.low * tax.slowed_kernels)
    longer = math.hypot(collective.high * tax.of_collectives, slowed.high * tax.slowed_kernels)
    return ErrorRow(
        figure="network_tax",
        family=f"{collective.question}: {collective.family}; {slowed.question}",
        low=1.0 - (1.0 - share) / (1.0 - shorter),
        typical=share,
        high=1.0 - (1.0 - share) / (1.0 + longer),
        between=collective.between,
        rows=collective.rows + slowed.rows,
        sources=collective.sources + slowed.sources,
        held_out=collective.held_out,
        prices=None,
    )


def collectives_scatter(rows: Iterable[CollectiveRow]) -> float:
    """Half the width of the times of some collectives, as a logarithm, weighted by time: more beyond published logs."""
    plain = collective_error().scatter
    weights = [(row.mean_s * row.times, row) for row in rows]
    total = math.fsum(weight for weight, _ in weights)
    if not total:
        return plain
    return math.fsum(weight * _scatter(row, plain) for weight, row in weights) / total


def beyond_scatter(rows: Iterable[CollectiveRow]) -> float:
    """Additional error of collectives that are beyond published logs, as a logarithm."""
    return math.sqrt(max(collectives_scatter(rows) ** 2 - collective_error().scatter ** 2, 0.0))


def _scatter(row: CollectiveRow, plain: float) -> float:
    return max(plain, math.log(row.high_s / row.low_s) / 2) if row.beyond and row.low_s > 0 else plain


def unknown_error() -> ModelError:
    """Error of work that was never measured: the widest of serving throughput."""
    return max((one for one in record().values() if one.question == "throughput"), key=lambda one: one.between)
