"""How far to believe a result, in words: bands of model error beside those of prices, and ties called ties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.api import numbers

if TYPE_CHECKING:
    from railyard.result.model_error import Difference, ErrorRow, Verdict
    from railyard.result.result import Result
    from railyard.result.variants.variant import BaseVariant

_FIGURES = {
    "step_s": ("step", numbers.seconds),
    "ttft_s": ("TTFT p50", numbers.seconds),
    "tpot_s": ("TPOT p50", numbers.seconds),
    "cpmt": ("$/Mtoken", numbers.short),
    "tokens_per_s_per_gpu": ("tokens/s per GPU", numbers.short),
    "power_w": ("power", numbers.power),
}
_IN_CARD = ("step_s", "ttft_s", "tpot_s", "cpmt")
_BY = {"cpmt": "dollars a token", "step_s": "step time", "goodput_rps": "requests in time"}


def band_of(variant: BaseVariant, figure: str) -> str:
    """`7.66 to 9.84 s`, or N/A where nothing was validated."""
    row = _row(variant, figure)
    return numbers.NOT_APPLICABLE if row is None else _range(row)


def step_band(variant: BaseVariant) -> str:
    """The band of a step, with what it is in percent: `7.66 to 9.84 s (-5 to +22 %)`."""
    row = _row(variant, "step_s")
    if row is None:
        return numbers.NOT_APPLICABLE
    low, high = (100 * (end / row.typical - 1) for end in (row.low, row.high))
    return f"{_range(row)} ({low:+.0f} to {high:+.0f} %)"


def lines(variant: BaseVariant) -> list[str]:
    """The card's line on model error; none where nothing was validated."""
    rows = [row for figure in _IN_CARD if (row := _row(variant, figure)) is not None]
    if not rows:
        return []
    return ["model error " + ", ".join(f"{_FIGURES[row.figure][0]} {_range(row)}" for row in rows)]


def _row(variant: BaseVariant, figure: str) -> ErrorRow | None:
    return next((row for row in variant.model_error or () if row.figure == figure), None)


def _range(row: ErrorRow) -> str:
    show = _FIGURES[row.figure][1]
    low, high = show(row.low), show(row.high)
    value, _, unit = low.rpartition(" ")
    return f"{value if unit and high.endswith(f' {unit}') else low} to {high}"


def peers(result: Result) -> tuple[str, ...]:
    """Names of the variants that cannot be told from the leading one."""
    return () if result.verdict is None else result.verdict.ties


def all_tied(result: Result) -> bool:
    """Whether no variant can be told from the leading one."""
    return result.verdict is not None and len(result.verdict.ties) == len(result.variants) - 1


def title(result: Result, single: str) -> str:
    """What the card calls the variant that it tells of: `best` only where nothing is tied with it."""
    if result.verdict is None:
        return single
    return "best" if result.verdict.best is not None else "tied"


def ties(result: Result) -> str:
    """A sentence on what cannot be told apart, with a space before it; empty where everything can."""
    verdict = result.verdict
    if verdict is None or not verdict.ties:
        return ""
    tied = [row for row in verdict.differences if row.tied]
    widest = max(tied, key=lambda row: abs(row.difference))
    whom = f"{_every(len(result.variants))} variants are tied" if all_tied(result) else _names(verdict)
    return f" {whom}: {_inside(widest, verdict)}."


def _every(many: int) -> str:
    return "Both" if many == 2 else f"All {many}"


def _names(verdict: Verdict) -> str:
    names = ", ".join(verdict.ties)
    return f"{names} {'is' if len(verdict.ties) == 1 else 'are'} tied with {verdict.leading}"


def _inside(row: Difference, verdict: Verdict) -> str:
    """`0.9 % in dollars a token is inside the error of model and prices (2.1 %)`."""
    of = "of model and prices" if row.price_band else "of the model"
    most = "" if len(verdict.ties) == 1 else "at most "
    apart = numbers.percent(abs(row.difference))
    return f"{most}{apart} in {_BY[verdict.by]} is inside the error {of} ({numbers.percent(row.band)})"
