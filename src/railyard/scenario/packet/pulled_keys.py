"""How the settings of EQDS and NDP are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.scenario.packet.readers import time

if TYPE_CHECKING:
    from collections.abc import Callable

PULLED_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "eqds_timeout": ("eqds_timeout_ps", time),
    "ndp_timeout": ("ndp_timeout_ps", time),
}
