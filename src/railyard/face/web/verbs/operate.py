"""Many jobs on one cluster, for months."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.verbs.run import run
from railyard.face.web.verbs.verb import Verb, verbs
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.face.web.documents import Outcome
    from railyard.face.web.verbs.verb import VerbRequest


def operate(request: VerbRequest) -> Outcome:
    """The folder of the run.

    Raises:
        InputError: The scenario is of other work.
    """
    kind = request.draft().kind
    if kind != "operate":
        raise InputError(
            "the scenario is not of many jobs for months",
            key="workload",
            found=kind,
            allowed="operate",
            hint="Run simulates it",
        )
    return run(request)


verbs.add(
    "operate",
    Verb(
        name="operate",
        title="Operate",
        about="Plays many jobs on one cluster for months: waits, failures, dollars.",
        order=6,
        work=operate,
        takes=frozenset({"scenario", "vary"}),
    ),
)
