"""Checks, estimates and explains work of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.kit.errors import InputError
from railyard.work.study import study
from railyard.work.study.folder import read_result, result_file
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard.measure.result.reading import Result
    from railyard.measure.result.section import KeyFigure
    from railyard.work.scenario.load import Draft


ENGINE = "analytic"


def checked(draft: Draft) -> tuple[str, str]:
    """Kind of work and engine of a scenario whose variants were checked but not prepared.

    Raises:
        InputError: A variant is invalid, or the engine cannot run this work.
    """
    kind = kinds.get(draft.kind)
    kind.check(draft, None)
    kind.expand(draft, ())
    return kind.name, draft.scenario.engine


def estimate(draft: Draft) -> Result | Sequence[KeyFigure]:
    """The first variant in closed form: one draw of its hashes, without remedies.

    Returns:
        A result of the engine `analytic`; key figures of kinds that it does not run.

    Raises:
        InputError: The scenario cannot be run, or its kind of work has no closed form.
        SimulationError: The run cannot finish.
    """
    kind = kinds.get(draft.kind)
    if not kind.closed_form and kind.expected is None:
        raise InputError(
            f"there is no closed form of `{draft.kind}`",
            key="workload",
            found=draft.kind,
            allowed=[name for name, one in kinds.items() if one.closed_form or one.expected],
            hint="run it: the simulation gives the answer",
        )
    first = kind.expand(draft, ())[0][0]
    if kind.expected is not None:
        return kind.expected(first)
    alone = first.draft.with_values({"compare": {}, "repeat": 1}, "the estimate")
    return study.run(alone, engine=ENGINE, searched=False).result


def explain(
    run: Path,
    *,
    variant: str | None = None,
    with_remedies: bool = True,
    progress: Callable[[str, float], None] | None = None,
) -> Any:
    """Explains a run: a training step as a tree, a serving run by its queues.

    Args:
        run: Folder of a run, or its `result.json`.
        variant: Name of the variant; None takes the first.
        with_remedies: Whether remedies are simulated; each costs about as much as the run itself.
        progress: Called with the current activity and the share done, from 0 to 1.

    Raises:
        InputError: There is no such run or variant, or its files cannot be read.
    """
    file = result_file(run)
    result = read_result(file)
    kind = kinds.get(result.variants[0].kind)
    return kind.explain(file, result, variant, with_remedies=with_remedies, progress=progress)
