"""Which nodes jobs get, by a scheduler's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Input, Option, Verb, verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.face.web.verbs.verb import Asked


def place(asked: Asked) -> Outcome:
    """The folder of the placement."""
    from railyard.face.report import keep_answer
    from railyard.work.operate.placed import Where, answer_of
    from railyard.work.operate.placed import place as placed

    jobs, nodes = asked.file("jobs"), asked.file("nodes")
    assert jobs is not None, "nothing is asked without what is needed"
    assert nodes is not None, "nothing is asked without what is needed"
    asked.tell("placing jobs", 0.0)
    policy = asked.options["policy"]
    found = placed(Where(jobs, nodes, busy=asked.file("busy"), names=asked.file("names")), policy)
    return Outcome(view="answer", name=keep_answer(answer_of(found, jobs.stem, policy), asked.runs).name)


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
