"""All that devices say of themselves, as faults of the network that was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.audit.evidence import counters, forwarding, identity, parts, routing, settings
from railyard.ask.audit.evidence.symptom import Names

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.symptom import Symptom
    from railyard.ask.audit.network import Found
    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.cluster.asbuilt.reported.reports import Reports
    from railyard.kit.errors import Problem


@dataclass(frozen=True)
class Evidence:
    """What reports say.

    Attributes:
        symptoms: Faults, unpriced.
        figures: For the design's.
        problems: What could not be read, or is of no device of the network.
    """

    symptoms: tuple[Symptom, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def evidence(found: Found, reports: Reports | None, plan: Plan | None = None) -> Evidence:
    """Faults that devices tell of themselves, in the discovery and in reports."""
    names = Names(found.discovery)
    twins = identity.symptoms(names, reports)
    if reports is None:
        return Evidence(tuple(twins))
    tables, figures = forwarding.symptoms(found, reports)
    listed = [
        *twins,
        *counters.symptoms(names, reports),
        *tables,
        *routing.symptoms(names, reports),
        *settings.symptoms(names, reports, plan),
        *parts.symptoms(names, reports, plan),
    ]
    read: dict[str, int] = {}
    for what in reports.read.values():
        read[what] = read.get(what, 0) + 1
    return Evidence(tuple(listed), figures | {"reports": read}, tuple(reports.problems))
