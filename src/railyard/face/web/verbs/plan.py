"""Which cluster to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def plan(request: VerbRequest) -> Outcome:
    """The folder of the plan; one that is begun again goes on with what it knows already."""
    from railyard.ask.plan.study import plan as planned
    from railyard.face.report import answer_page

    found = planned(request.draft(), out=request.runs, pool=request.pool, faces=[answer_page], report=request.tell)
    if found.folder is None:  # stopped before anything was found
        raise KeyboardInterrupt
    return Outcome(view="answer", name=found.folder.name)


verbs.add(
    "plan",
    Verb(
        name="plan",
        title="Plan",
        about="Looks for the best cluster in `plan.space`: the front, how sure it is, what would change it.",
        order=1,
        work=plan,
        takes=frozenset({"scenario"}),
    ),
)
