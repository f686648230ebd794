"""Settings of collectives and fabric that make a step shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def tune(request: VerbRequest) -> Outcome:
    """The folder of the settings."""
    from railyard.ask.tune.study import tune as tuned
    from railyard.face.report import keep_answer

    _, answer = tuned(request.draft(), engine=request.engine, pool=request.pool, report=request.tell, out=request.runs)
    return Outcome(view="answer", name=keep_answer(answer, request.runs).name)


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
