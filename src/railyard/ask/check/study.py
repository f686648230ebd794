"""A check as one call: what a scenario asserts, judged, and the same as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.check.check import check
from railyard.measure.result.answers.check import CheckAnswer, CheckRow
from railyard.work.study import study
from railyard.work.study.provenance import version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from railyard.ask.check.check import Checked
    from railyard.measure.result.result import Result
    from railyard.work.scenario.load import Draft


def judged(draft: Draft, progress: Callable[[str, float], None]) -> tuple[list[Checked], CheckAnswer]:
    """Every assertion of every variant.

    Args:
        draft: The scenario.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: The scenario or an assertion is wrong.
        SimulationError: The run cannot finish.
    """

    def run(prepared: Sequence[Any]) -> Result:
        """Writes nothing, and leaves out the trials of what would help: no assertion is about these."""
        return study.run(draft, progress=progress, searched=False, prepared=prepared).result

    checked, stopped = check(draft, run, progress)
    rows = tuple(_row(one) for one in checked)
    answer = CheckAnswer(
        format="railyard-check/1",
        name=draft.title,
        version=version(),
        stopped=stopped,
        holds=not stopped and all(row.holds for row in rows),
        checks=rows,
    )
    return checked, answer


def _row(one: Checked) -> CheckRow:
    found = one.outcome
    remark = {"remark": found.remark} if found.remark else {}
    return CheckRow(assertion=one.assertion, variant=one.variant, found=found.found, holds=found.holds, **remark)
