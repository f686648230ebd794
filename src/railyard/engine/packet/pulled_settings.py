"""Constants of the transports whose receivers pull: EQDS and NDP."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PulledSettings:
    """Where receivers pull (`transport="eqds"` or `"ndp"`). Sources: `docs/concepts/packet-pulled.md`.

    Attributes:
        eqds_timeout_ps: How long a packet of EQDS may be out before it is taken for lost, ps; what drains six full
            queues is added.
        ndp_timeout_ps: The same for NDP, ps; nothing is added.
    """

    eqds_timeout_ps: int = 150_000_000
    ndp_timeout_ps: int = 5_000_000_000


PULLED_KEYS = tuple(entry.name for entry in fields(PulledSettings))
