"""Settings that change while a run goes on: asked every period, with what was measured in it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from railyard.engine.packet.mechanisms import CONSTANTS
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from railyard import _core
    from railyard.engine.packet.settings import Settings

TUNABLE = tuple(
    name
    for name, one in CONSTANTS.items()
    if one.mechanism in ("marking", "dcqcn") and one.kind in ("integer", "number")
)
"""Settings that may change: thresholds of switches' marks, constants of DCQCN. Headroom and buffers stay, so that what
is lossless stays so."""


@dataclass(frozen=True)
class Period:
    """What was measured in one period.

    Attributes:
        end_ps: When it ended, simulated time.
        length_ps: How long it was.
        delivered_bytes: Acknowledged in it, of all flows.
        paused_ps: Time that links were held back, of all links together.
        links: Links of the network, each direction one.
        sent, retransmitted, dropped, marked, pauses, cnps: Packets, as in `PacketFates`.
    """

    end_ps: int
    length_ps: int
    delivered_bytes: int
    paused_ps: int
    links: int
    sent: int
    retransmitted: int
    dropped: int
    marked: int
    pauses: int
    cnps: int


@dataclass(frozen=True)
class Retuning:
    """What changes settings, and how often it is asked.

    Attributes:
        period_ps: Between two readings.
        decide: Of what was measured the settings to change (names of `TUNABLE`) and their values; empty: none.
    """

    period_ps: int
    decide: Callable[[Period], Mapping[str, Any]]

    def hook(self, settings: Settings, links: int) -> Callable[[_core.PacketReading, _core.PacketOptions], bool]:
        """What the core calls.

        Args:
            settings: Of the run as it begins.
            links: Of its network.
        """
        names = [one.name for one in fields(Period) if one.name not in ("end_ps", "length_ps", "links")]
        before = dict.fromkeys(names, 0)
        at = [0]

        def called(reading: _core.PacketReading, options: _core.PacketOptions) -> bool:
            now = {name: int(getattr(reading, name)) for name in names}
            measured = {name: now[name] - before[name] for name in names}
            period = Period(reading.now_ps, reading.now_ps - at[0], links=links, **measured)
            before.update(now)
            at[0] = reading.now_ps
            changes = self.decide(period)
            _check(settings, changes)
            for name, value in changes.items():
                constant = CONSTANTS[name]
                options.set(
                    constant.mechanism, constant.field, int(value) if constant.kind == "integer" else float(value)
                )
            return bool(changes)

        return called


def _check(settings: Settings, changes: Mapping[str, Any]) -> None:
    """Refuses what may not change, or is out of range.

    Raises:
        InputError: Says what.
    """
    for name in changes:
        if name not in TUNABLE:
            raise InputError("this setting cannot change during a run", key=name, found=name, allowed=TUNABLE)
    replace(settings, **changes)
