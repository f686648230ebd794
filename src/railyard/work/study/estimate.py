"""A rough answer in under a second or so: the first variant of a training scenario, in closed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.work.study import study
from railyard.work.study.kind import kinds

if TYPE_CHECKING:
    from railyard.measure.result.result import Result
    from railyard.work.scenario.load import Draft

ENGINE = "analytic"

KINDS = ("training",)
"""Of work that has a closed form."""


def checked(draft: Draft) -> tuple[str, str]:
    """Kind of work and engine of a scenario whose variants were read too, but not prepared.

    Raises:
        InputError: A variant is wrong, or the engine cannot run this work.
    """
    kind = kinds.get(draft.kind)
    kind.check(draft, None)
    kind.expand(draft, ())
    return kind.name, draft.scenario.engine


def estimate(draft: Draft) -> Result:
    """The first variant with one draw of its hashes, by the engine `analytic`, without remedies.

    Raises:
        InputError: The scenario cannot be run, or its kind of work has no closed form.
        SimulationError: The run cannot finish.
    """
    if draft.kind not in KINDS:
        raise InputError(
            f"there is no closed form of `{draft.kind}`",
            key="workload",
            found=draft.kind,
            allowed=KINDS,
            hint="run it: the simulation gives the answer",
        )
    first = kinds.get(draft.kind).expand(draft, ())[0].draft
    alone = first.with_values({"compare": {}, "repeat": 1}, "the estimate")
    return study.run(alone, engine=ENGINE, searched=False).result
