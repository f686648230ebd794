"""What gets cabled and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.shelf import DEPLOYMENTS
from railyard.face.web.verbs.verb import Option, Verb, verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railyard.face.web.verbs.verb import VerbRequest


def deploy(request: VerbRequest) -> Outcome:
    """The page of the deployment, in the folder of its files."""
    from railyard.ask.deploy.cabling import plan_of
    from railyard.ask.deploy.emit import folder
    from railyard.ask.deploy.emit.collectives import collectives_of
    from railyard.work.study import compose
    from railyard.work.study.folder import slug

    request.tell("laying cables", 0.1)
    draft = request.draft()
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    out = request.folder / DEPLOYMENTS / slug(draft.title)
    collectives = collectives_of(draft, plan.cluster, request.tell)
    folder.write(plan, out, request.options["os"], draft.title, request.tell, collectives=collectives)
    return Outcome(view="page", name=f"{DEPLOYMENTS}/{out.name}/index.html")


def _systems() -> Sequence[str]:
    from railyard.ask.deploy.system import system_names

    return system_names()


verbs.add(
    "deploy",
    Verb(
        name="deploy",
        title="Deploy",
        about="Writes what gets cabled and configured: racks, cables, addresses, configurations.",
        order=7,
        work=deploy,
        takes=frozenset({"scenario"}),
        options=(Option("os", "Ethernet switches run", "Whose configurations are written.", "sonic", _systems),),
    ),
)
