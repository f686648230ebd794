"""What switches that pause (`switching="pfc"`) did to links and flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard import _core


def pauses_of_links(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How links were held back, columns of the table of links; none where switches do not pause."""
    if not len(outcome.link_paused_ps):
        return {}
    return {
        "paused_ps": outcome.link_paused_ps,
        "longest_pause_ps": outcome.link_longest_pause_ps,
        "pauses": outcome.link_pauses,
        "pause_origin": outcome.link_pause_origin,
    }


def pauses_of_flows(outcome: _core.PacketOutcome) -> dict[str, NDArray[Any]]:
    """How flows were held back, columns of their record; none where switches do not pause."""
    if not len(outcome.flow_paused_ps):
        return {}
    return {
        "paused_ps": outcome.flow_paused_ps,
        "victim_ps": outcome.flow_victim_ps,
        "victim_of": outcome.flow_victim_origin,
    }
