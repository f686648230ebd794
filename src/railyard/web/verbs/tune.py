"""Settings of collectives and fabric that make a step shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.web.documents import Outcome
from railyard.web.verbs.verb import Verb, verbs

if TYPE_CHECKING:
    from railyard.web.verbs.verb import Asked


def tune(asked: Asked) -> Outcome:
    """The folder of the settings."""
    from railyard.report import keep_answer
    from railyard.tune.settings.study import tune as tuned

    _, answer = tuned(asked.draft(), engine=asked.engine, pool=asked.pool, report=asked.tell)
    return Outcome(view="answer", name=keep_answer(answer, asked.runs).name)


verbs.add(
    "tune",
    Verb(
        name="tune",
        title="Tune",
        about="Searches settings of collectives and fabric, and judges them on draws that the search has not seen.",
        order=2,
        work=tune,
        takes=frozenset({"scenario", "engine"}),
    ),
)
