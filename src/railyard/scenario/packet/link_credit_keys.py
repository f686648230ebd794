"""How the settings of links with credits are written: the keys of `--set` and their readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.engine.packet.link_credit_settings import MOST_LANES
from railyard.errors import InputError
from railyard.scenario.packet.readers import size, time, whole, yes

if TYPE_CHECKING:
    from collections.abc import Callable

_WEIGHT = whole(0, 255)


def _weights(text: str) -> tuple[int, ...]:
    """A weight a lane: `192,64`."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_LANES:
        raise InputError("too many weights", found=text, allowed=f"one for each of up to {MOST_LANES} lanes")
    return tuple(_WEIGHT(part) for part in parts)


LINK_CREDIT_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "link_credit_buffer": ("link_credit_buffer_bytes", size),
    "link_credit_lanes": ("link_credit_lanes", whole(1, MOST_LANES)),
    "link_credit_update": ("link_credit_update_bytes", size),
    "link_credit_update_period": ("link_credit_update_period_ps", time),
    "link_credit_packet_bytes": ("link_credit_packet_bytes", whole(1, 4096)),
    "link_credit_cut_through": ("link_credit_cut_through", yes),
    "link_credit_head_bytes": ("link_credit_head_bytes", whole(1, 4096)),
    "link_credit_fifo": ("link_credit_fifo", yes),
    "link_credit_high_weight": ("link_credit_high_weight", _weights),
    "link_credit_low_weight": ("link_credit_low_weight", _weights),
    "link_credit_high_limit": ("link_credit_high_limit", whole(0, 255)),
    "link_credit_mark": ("link_credit_mark_bytes", size),
    "link_credit_watch": ("link_credit_watch_ps", time),
}
"""The key of `--set`, the setting and how its value is read."""
