"""Whether what a scenario asserts holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def check(request: VerbRequest) -> Outcome:
    """The folder of what was judged."""
    from railyard.ask.check.check import judged
    from railyard.face.report import keep_answer

    _, answer = judged(request.draft(), request.tell)
    return Outcome(view="answer", name=keep_answer(answer, request.runs).name)


verbs.add(
    "check",
    Verb(
        name="check",
        title="Check",
        about="Judges what stands under `check`: figures, lost parts, deadlock, headroom.",
        order=3,
        work=check,
        takes=frozenset({"scenario"}),
    ),
)
