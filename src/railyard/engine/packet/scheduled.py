"""The scheduled fabric of the packet engine: what it is told and what it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard import _core

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


def counts(found: _core.PacketScheduledCounters) -> dict[str, object]:
    """The core's counts by name.

    Args:
        found: Of a run.

    Returns:
        Those of `SCHEDULED_COUNTS`, and `reorder`: 64 counts of bursts (one in sixteen) by reorder depth, the most
        cells sent later that came before a cell.
    """
    reorder = [int(count) for count in found.reorder]
    return {**{name: int(getattr(found, name)) for name in SCHEDULED_COUNTS}, "reorder": reorder}
