"""`NAME < VALUE`: a figure of the result, of every variant."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from railyard.ask.check.assertion import FIGURES, AssertedFigure, AssertionOutcome, assertions, ended
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.check.assertion import CheckSubject

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM = re.compile(r"([^<>=]*?) ?([<>=]+) ?(.*)")


@dataclass(frozen=True)
class FigureHolds:
    """A figure against a bound.

    Attributes:
        comparison: One of `COMPARISONS`.
    """

    forms: ClassVar[tuple[str, ...]] = ("FIGURE < VALUE", "FIGURE > VALUE")

    name: str
    comparison: str
    bound: float

    @classmethod
    def read(cls, text: str) -> Self:
        """See `Assertion`."""
        found = _FORM.fullmatch(text)
        name, sign, value = found.groups() if found else ("", "", text)
        if name not in FIGURES:
            raise InputError(
                f"there is no figure `{name}`", found=name, allowed=sorted(FIGURES), hint=did_you_mean(name, FIGURES)
            )
        if sign not in COMPARISONS:
            raise InputError(f"`{sign}` compares nothing", found=sign, allowed=list(COMPARISONS))
        return cls(name, sign, FIGURES[name].reader(value))

    def check(self, subject: CheckSubject) -> None:
        """See `Assertion`."""
        figure, draft = FIGURES[self.name], subject.draft
        if draft.kind not in figure.kinds:
            there = [name for name, other in FIGURES.items() if draft.kind in other.kinds]
            raise InputError(
                f"the scenario's work is `{draft.kind}`, which has no `{self.name}`",
                found=self.name,
                allowed=there or "assertions about the network",
            )
        if figure.packets and draft.scenario.engine != "packet":
            raise InputError(
                f"`{self.name}` needs `engine: packet`",
                found=f"engine: {draft.scenario.engine}",
                allowed="engine: packet",
            )

    def judge(self, subject: CheckSubject) -> AssertionOutcome:
        """See `Assertion`."""
        figure = FIGURES[self.name]
        if figure.planned is not None:
            planned = figure.planned(subject.draft, subject.cluster)
            return AssertionOutcome(figure.words(planned), COMPARISONS[self.comparison](planned, self.bound))
        variant = subject.measured()
        value, missing = figure.read(variant), figure.missing(variant)
        if value is None:
            return AssertionOutcome(missing or "N/A: the run has none", holds=False)
        if missing:
            return AssertionOutcome(f"{figure.words(value)}; {missing}", holds=False)
        remark = self._remark(variant, figure)
        return AssertionOutcome(figure.words(value), COMPARISONS[self.comparison](value, self.bound), remark)

    def _remark(self, variant: Any, figure: AssertedFigure) -> str:
        """Whether a fault ended the job, and whether the bound lies where the model's error alone decides."""
        said = [ended(variant)]
        row = next((row for row in variant.model_error or () if row.figure == figure.band), None)
        if row is not None and row.low <= self.bound <= row.high:
            said.append(f"the bound lies within the model's error: {figure.words(row.low)} to {figure.words(row.high)}")
        return "; ".join(filter(None, said))


assertions.add("figure", FigureHolds)
