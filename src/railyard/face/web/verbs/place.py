"""Which nodes jobs get, by a scheduler's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Input, Option, Verb, verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.face.web.verbs.verb import VerbRequest


def place(request: VerbRequest) -> Outcome:
    """The folder of the placement."""
    from railyard.face.report import keep_answer
    from railyard.work.operate.placed import Where, answer_of
    from railyard.work.operate.placed import place as placed

    jobs, nodes = request.file("jobs"), request.file("nodes")
    assert jobs is not None, "nothing is asked without what is needed"
    assert nodes is not None, "nothing is asked without what is needed"
    request.tell("placing jobs", 0.0)
    policy = request.options["policy"]
    found = placed(Where(jobs, nodes, busy=request.file("busy"), names=request.file("names")), policy)
    return Outcome(view="answer", name=keep_answer(answer_of(found, jobs.stem, policy), request.runs).name)


def _policies() -> Sequence[str]:
    from railyard.work.operate.discipline import policies

    return [name for name, _ in policies.shipped()]


verbs.add(
    "place",
    Verb(
        name="place",
        title="Place",
        about="Gives jobs their nodes as a scheduler would; of a scenario's job with its step by every policy.",
        order=8,
        work=place,
        inputs=(
            Input("jobs", "Jobs", "A row a job, a job's scenario, or workloads of Kueue.", needed=True),
            Input(
                "nodes",
                "The cluster",
                "topology.conf or .yaml, ibnetdiscover, CSV, objects; of a scenario's job its free nodes.",
                needed=True,
            ),
            Input("busy", "Taken nodes", "A list of them."),
            Input("names", "Names of servers", "Of a scenario, in order."),
        ),
        options=(Option("policy", "Rule", "Whose placement it is.", "slurm-tree", _policies),),
    ),
)
