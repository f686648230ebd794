"""Engines: when everything in a task graph happens on a cluster."""

from railyard.engine import analytic as _analytic
from railyard.engine import flow as _flow
from railyard.engine.contract import (
    DegradeLink,
    Engine,
    Fault,
    Jitter,
    Late,
    Probes,
    Progress,
    SlowAccelerator,
    engines,
    get,
)

del _analytic, _flow  # imported for their registration

__all__ = [
    "DegradeLink",
    "Engine",
    "Fault",
    "Jitter",
    "Late",
    "Probes",
    "Progress",
    "SlowAccelerator",
    "engines",
    "get",
]
