"""An audit as one call: what was found, what was planned, what devices say; the findings and their document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.ask.audit.answer import answer_of
from railyard.ask.audit.audit import audit, audit_documented, audit_plan
from railyard.ask.audit.sources import discovered
from railyard.cluster.asbuilt.reported.gather import gather
from railyard.work.scenario import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from railyard.ask.audit.audit import Audit
    from railyard.measure.result.answers.audit import AuditAnswer


@dataclass(frozen=True)
class Evidence:
    """What there is of a network.

    Attributes:
        ibnetdiscover: Output of that.
        lldp: Folder of LLDP neighbours.
        netbox: Its cables: alone as found, else as what was planned.
        plan: A scenario: what was planned; None: the design is inferred.
        reports: What devices say: counters, tables, BGP, settings, parts.
    """

    ibnetdiscover: Path | None = None
    lldp: Path | None = None
    netbox: Path | None = None
    plan: Path | None = None
    reports: Sequence[Path] = ()


def audit_found(found: Evidence) -> tuple[Audit, AuditAnswer]:
    """What is wrong, dearest first, and the same as a document.

    Raises:
        InputError: There is not exactly one discovery, it holds nothing, or the plan is wrong.
    """
    draft = None if found.plan is None else load.load(found.plan)
    there, documented = discovered(found.ibnetdiscover, found.lldp, found.netbox, planned=draft is not None)
    said = gather(found.reports, [device.described for device in there.devices]) if found.reports else None
    if draft is not None:
        audited = audit_plan(there, draft, said)
    else:
        audited = audit(there, said) if documented is None else audit_documented(there, documented, said)
    name = next(path for path in (found.ibnetdiscover, found.lldp, found.netbox) if path is not None).resolve().name
    return audited, answer_of(audited, name if draft is None else draft.title)
