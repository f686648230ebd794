"""What is wrong with a network as it was cabled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.face.web.documents import Outcome
from railyard.face.web.verbs.verb import Input, Verb, verbs

if TYPE_CHECKING:
    from railyard.face.web.verbs.verb import VerbRequest


def audit(request: VerbRequest) -> Outcome:
    """The folder of the audit."""
    from railyard.ask.audit.audit import Evidence, audit_found
    from railyard.face.report import keep_answer
    from railyard.kit.files import read_text

    plan = request.file("plan")
    request.tell("reading the network as found", 0.0)
    found = Evidence(
        request.file("ibnetdiscover"),
        request.file("lldp"),
        request.file("netbox"),
        plan,
        tuple(request.files.get("with", ())),
    )
    _, answer = audit_found(found)
    text = None if plan is None else read_text(plan)
    return Outcome(view="answer", name=keep_answer(answer, request.runs, text).name)


verbs.add(
    "audit",
    Verb(
        name="audit",
        title="Audit",
        about="Holds a network as found against its plan, or against the design it was meant to be; prices each fault.",
        order=5,
        work=audit,
        inputs=(
            Input("ibnetdiscover", "InfiniBand fabric", "As `ibnetdiscover` prints it."),
            Input("lldp", "LLDP neighbours", "A JSON file a device: lldpd, SONiC, EOS.", takes="folder"),
            Input("netbox", "NetBox", "Its cables: alone as found, else as what was planned."),
            Input("plan", "What was planned", "A scenario; without it the design is inferred."),
            Input("with", "What devices say", "Counters, tables, BGP, settings, parts.", takes="either", several=True),
        ),
    ),
)
