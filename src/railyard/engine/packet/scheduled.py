"""The scheduled fabric of the packet engine: what it is told and what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railyard import _core

_PREFIX = "scheduled_"

SCHEDULED: dict[str, Any] = {
    "transport": "rdma",
    "switching": "scheduled",
    "load_balancing": "single-path",
    "mtu_bytes": 4096 + 82,
    "header_bytes": 82,
    "trim": False,
    "rdma_control": "line-rate",
    "rdma_notification": "none",
    "rdma_control_bytes": 86,
}
"""Jericho3-AI and Ramon3 class, DSF: RDMA at line rate over queues, credits and cells. Cells need no load balancer."""


@dataclass(frozen=True)
class ScheduledSettings:
    """Constants of the scheduled fabric (`switching="scheduled"`). Sources: `docs/concepts/packet-scheduled.md`.

    Attributes:
        scheduled_cell_bytes: Payload of a full cell.
        scheduled_cell_header_bytes: Header of a cell.
        scheduled_control_cell_bytes: A request or grant of credit, all told.
        scheduled_credit_bytes: What one credit lets go.
        scheduled_credit_rate: Credit granted, of the egress port's rate.
        scheduled_fabric_speedup: Rate of the links between switches, over what the network says.
        scheduled_request_ps: From a request's arrival to its place in the scheduler, ps.
        scheduled_grant_ps: From a grant's arrival to the packets' departure, ps.
        scheduled_egress_bytes: Queue of a port above which it grants nothing; None: a credit loop of its rate.
        scheduled_voq_bytes: Virtual output queue above which hosts are paused; None: 5 ms of its port's rate.
        scheduled_memory_bytes: Bytes in a leaf's queues above which hosts are paused.
        scheduled_reachability_ps: From a fabric link's failure to cells that keep off it, ps.
    """

    scheduled_cell_bytes: int = 256
    scheduled_cell_header_bytes: int = 16
    scheduled_control_cell_bytes: int = 32
    scheduled_credit_bytes: int = 4096
    scheduled_credit_rate: float = 1.03
    scheduled_fabric_speedup: float = 160 / 144
    scheduled_request_ps: int = 100_000
    scheduled_grant_ps: int = 100_000
    scheduled_egress_bytes: int | None = None
    scheduled_voq_bytes: int | None = None
    scheduled_memory_bytes: int = 12 * 10**9
    scheduled_reachability_ps: int = 1_000_000


SCHEDULED_KEYS = tuple(ScheduledSettings.__dataclass_fields__)
"""Names of these settings."""


SCHEDULED_COUNTS = {
    "cells": "Cells sent over links between switches, control cells among them.",
    "cells_lost": "Sent over links that were down.",
    "requests": "Requests for credit.",
    "grants": "Credits granted.",
    "pauses": "Times that a leaf paused a host's class.",
    "voq_bytes": "Most bytes in a virtual output queue.",
    "memory_bytes": "Most bytes in the virtual output queues of a leaf.",
    "egress_bytes": "Most bytes that waited for a link to a host.",
    "element_bytes": "Most bytes that waited for a link of a fabric element.",
    "uplink_bytes": "Most bytes that waited for a link from a leaf into the fabric.",
    "cell_wait_ps": "A cell's mean wait for a link, ps.",
    "contexts": "Most queues of which a leaf awaited cells at a time: what reassembly must remember.",
    "bursts_held": "Most whole bursts that waited for an earlier one of their queue.",
}
"""What a scheduled fabric counts."""


def put_scheduled(options: _core.PacketOptions, settings: ScheduledSettings) -> None:
    """Puts the settings of this page into the core's options; None becomes 0, which stands for "derive it"."""
    for key in SCHEDULED_KEYS:
        setattr(options.scheduled, key.removeprefix(_PREFIX), getattr(settings, key) or 0)


def counts(found: _core.PacketScheduledCounters) -> dict[str, Any]:
    """The core's counts by name.

    Args:
        found: Of a run.

    Returns:
        Those of `SCHEDULED_COUNTS`, and `reorder`: 64 counts of bursts (one in sixteen) by reorder depth, the most
        cells sent later that came before a cell.
    """
    reorder = [int(count) for count in found.reorder]
    return {**{name: int(getattr(found, name)) for name in SCHEDULED_COUNTS}, "reorder": reorder}
