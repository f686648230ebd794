"""Text and table of a packet run of given flows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.prose import quoted
from railyard.measure import numbers
from railyard.measure.result.variants import TrafficVariant
from railyard.work.study.presentation import Presentation, Sheet, presentations
from railyard.work.study.result_words import card_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from railyard.measure.result.reading import Result

_HEADINGS = ("variant", "flows finished", "FCT p50", "FCT p99", "last flow")


def _time(microseconds: float | None) -> str:
    return numbers.seconds(None if microseconds is None else microseconds * 1e-6)


def sheets(result: Result) -> Iterator[Sheet]:
    """Flow completion times, a row for each variant."""
    rows = []
    for one in result.of(TrafficVariant):
        found = one.packet
        done = f"{found.flows_finished:,} of {found.flows_total:,}"
        times = (found.fct_us.p50, found.fct_us.p99, found.last_finish_us)
        rows.append((one.name, done, *map(_time, times)))
    yield Sheet(_HEADINGS, rows)


def _said(variant: TrafficVariant) -> str:
    found = variant.packet
    done = f"{found.flows_finished:,} of {found.flows_total:,} flows finish on {quoted(variant.name)}"
    if found.last_finish_us is None:
        return f"{done}."
    return f"{done}, the last at {_time(found.last_finish_us)}; half take {_time(found.fct_us.p50)} or less."


def verdict(result: Result) -> str:
    """How many flows finish, and when."""
    return _said(result.of(TrafficVariant)[0])


def why(result: Result) -> list[str]:
    """The same of the other variants."""
    return [_said(one) for one in result.of(TrafficVariant)[1:]]


def card(result: Result, report: Path | None) -> str:
    """One line per variant, and the path of the report."""
    return card_of(result, report, [_said(one) for one in result.of(TrafficVariant)])


presentations.add("traffic", Presentation(verdict, sheets, why, card))
