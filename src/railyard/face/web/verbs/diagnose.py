"""Which part of a cluster is to blame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Input, Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def diagnose(request: VerbRequest) -> Outcome:
    """The folder of the diagnosis."""
    from railyard.ask.observe.answer import answer_of, cluster_of
    from railyard.ask.observe.diagnose import diagnose as diagnosed
    from railyard.face.report import keep_answer
    from railyard.kit.files import read_text

    path, cluster = request.file("path"), request.file("cluster")
    assert path is not None, "nothing is asked without what is needed"
    request.tell("reading what was measured", 0.0)
    found = diagnosed(path, cluster)
    request.tell("naming the tests that would settle it", 0.9)
    answer = answer_of(found, path.name, None if cluster is None else cluster_of(cluster))
    text = None if cluster is None else read_text(cluster)
    return Outcome(view="answer", name=keep_answer(answer, request.runs, text).name)


verbs.add(
    "diagnose",
    Verb(
        name="diagnose",
        title="Diagnose",
        about="Names the link, NIC, accelerator, host or rank that makes a cluster slow or hang, and what would settle"
        " it.",
        order=4,
        work=diagnose,
        inputs=(
            Input(
                "path",
                "What was measured",
                "Traces, logs, counters or flight recorder dumps; a record; the folder of a run.",
                takes="either",
                needed=True,
            ),
            Input("cluster", "The cluster", "A scenario, of which only `cluster` is read: links and hosts get names."),
        ),
    ),
)
