"""Published quantiles of step times against the law of jitter."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from railyard.work.training.jitter import law_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard_validation.training.cases import Case

TARGET = 0.03
_COLUMNS = {0.05: "step_p5_s", 0.95: "step_p95_s", 0.99: "step_p99_s"}


@dataclass(frozen=True)
class Steps:
    """What a run publishes about the spread of its steps.

    Attributes:
        id: Of the table's row.
        architecture: Of its device.
        ranks: That go in lockstep.
        micro_batches: One after another in a step.
        step_s: Median.
        quantiles_s: Published ones, by share.
        averaged: Whether each value is the mean of a block of steps, of which nothing says how single ones spread.
    """

    id: str
    architecture: str
    ranks: int
    micro_batches: int
    step_s: float
    quantiles_s: dict[float, float]
    averaged: bool

    def ratio(self, quantile: float) -> float | None:
        """A published quantile over the median; None where it was not published."""
        seconds = self.quantiles_s.get(quantile)
        return None if seconds is None else seconds / self.step_s


@dataclass(frozen=True)
class Tail:
    """Quantiles of one run over its median, predicted and measured; `averaged` rows are shown, not scored."""

    p95_measured: float
    p95_predicted: float
    p99_measured: float | None
    p99_predicted: float
    averaged: bool

    @property
    def error(self) -> float:
        """Of p95/p50, in units of the median step."""
        return self.p95_predicted - self.p95_measured

    def to_json(self) -> dict[str, Any]:
        """The columns of a row's `tail`."""
        return {**asdict(self), "p95_error": self.error}


def steps_of(case: Case) -> Steps | None:
    """The published spread of a run's steps; None where p95 was not published."""
    row, layout = case.row, case.training.layout
    found = {share: row.real[name] for share, name in _COLUMNS.items() if row.real.get(name)}
    middle = row.real.get("step_time_s")
    if 0.95 not in found or not middle:
        return None
    return Steps(
        id=row.id,
        architecture=case.machine.accelerator.architecture,
        ranks=layout.ranks,
        micro_batches=layout.micro_batches,
        step_s=middle,
        quantiles_s=found,
        averaged="divided by steps" in row.get("metric_reported"),
    )


def tail_of(case: Case, undisturbed_s: float) -> Tail | None:
    """Predicted and measured quantiles of a run; None where none were published.

    Args:
        case: The run.
        undisturbed_s: Its predicted step without interruptions.
    """
    steps = steps_of(case)
    if steps is None:
        return None
    law = law_of(case.machine.accelerator)
    p95, p99 = (law.ratio(share, steps.ranks, undisturbed_s, steps.micro_batches) for share in (0.95, 0.99))
    measured = steps.ratio(0.95)
    return Tail(0.0 if measured is None else measured, p95, steps.ratio(0.99), p99, steps.averaged)


def summary_of(tails: Sequence[Tail]) -> dict[str, float | int | None]:
    """Errors of p95/p50 over the rows that publish single steps: `n`, mean, largest, how many are within 0.03."""
    errors = [abs(tail.error) for tail in tails if not tail.averaged]
    return {
        "n": len(errors),
        "averaged": len(tails) - len(errors),
        "mean_abs_error": sum(errors) / len(errors) if errors else None,
        "max_abs_error": max(errors, default=None),
        "within_target": sum(error <= TARGET for error in errors),
        "target": TARGET,
    }
