"""A scenario is run, with every variant that it compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def run(request: VerbRequest) -> Outcome:
    """The folder of the run, as `railyard run` writes it."""
    from railyard.face import api

    finished = api.execute(
        request.draft(),
        request.vary,
        engine=request.engine,
        out=request.runs,
        progress=request.tell,
        pool=request.cluster,
    )
    assert finished.folder is not None, "it was given a place for its folder"
    return Outcome(view="run", name=finished.folder.name)


verbs.add(
    "run",
    Verb(
        name="run",
        title="Run",
        about="Simulates the scenario and every variant that it compares.",
        order=0,
        work=run,
        takes=frozenset({"scenario", "engine", "vary"}),
    ),
)
