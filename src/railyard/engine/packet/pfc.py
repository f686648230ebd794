"""Settings of switches with traffic classes, marking and priority flow control (`switching="pfc"`)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from railyard.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard import _core

_CLASSES = 8


@dataclass(frozen=True)
class PfcSettings:
    """Constants of lossless switches. Sizes hold for every ingress and class of every switch alike.

    Attributes:
        control_class: Traffic class of acknowledgements, notifications and grants; None: their flow's.
        marking_low_bytes: Queue of a class up to which nothing is marked; None: as `ecn_low`.
        marking_high_bytes: Queue beyond which everything is; None: as `ecn_high`. The same as the lower: a step.
        marking_most: Probability just below the upper one, rising from 0 at the lower. HPCC's ns-3: 0.2.
        marking_at_enqueue: Marked by what a packet finds as it comes, else by what it leaves behind.
        marking_by_rate: Thresholds hold for the rate of the hosts; those of other links are scaled by their rate.
        pfc_lossless: Classes that are paused; the others are dropped at the tail.
        pfc_weights: One a class: 0 for strict priority (higher classes first, before all others), else its share of
            deficit round robin.
        pfc_xoff_bytes: An ingress that holds more pauses its neighbour; None: by the dynamic threshold.
        pfc_xon_bytes: Below this it lets go; None: four fifths of xoff.
        pfc_xoff_packets: The same in full packets; what is given in bytes goes first. htsim: 15.
        pfc_xon_packets: The same in full packets. htsim: 12.
        pfc_buffer_bytes: Of a switch, headroom included; None: 3.2 MB for each Tb/s, as Tomahawk 5 has.
        pfc_alpha: Dynamic threshold, of the free shared buffer. SONiC on Tomahawk 5: 1 to 2; HPCC's ns-3: 1/8.
        pfc_lossy_alpha: The same for the queue of a lossy class.
        pfc_resume_bytes: So far below the dynamic threshold it lets go. SONiC on Tomahawk 5: 3,556; HPCC's ns-3: 3,072.
        pfc_reserve_bytes: Guaranteed beside the shared buffer. HPCC's ns-3: 4,096.
        pfc_headroom_bytes: For what comes after the pause was sent; None: 2 delay rate + 3 MTU + frame.
        pfc_frame_bytes: A pause frame.
        pfc_response_ps: From the arrival of a pause to its effect, ps.
        pfc_watch_ps: How often to look for a deadlock while links are paused, ps.
        pfc_stall_ps: The run ends with an error when nothing has moved for so long while links are paused, ps.
    """

    control_class: int | None = 7
    marking_low_bytes: int | None = None
    marking_high_bytes: int | None = None
    marking_most: float = 1.0
    marking_at_enqueue: bool = False
    marking_by_rate: bool = False
    pfc_lossless: tuple[int, ...] = tuple(range(_CLASSES))
    pfc_weights: tuple[int, ...] = (0,) * _CLASSES
    pfc_xoff_bytes: int | None = None
    pfc_xon_bytes: int | None = None
    pfc_xoff_packets: int | None = None
    pfc_xon_packets: int | None = None
    pfc_buffer_bytes: int | None = None
    pfc_alpha: float = 1.0
    pfc_lossy_alpha: float = 1.0
    pfc_resume_bytes: int = 3556
    pfc_reserve_bytes: int = 0
    pfc_headroom_bytes: int | None = None
    pfc_frame_bytes: int = 64
    pfc_response_ps: int = 0
    pfc_watch_ps: int = 100_000_000
    pfc_stall_ps: int = 100_000_000_000

    def check_classes(self) -> None:
        """Refuses classes and weights that there are not.

        Raises:
            InputError: They are out of range.
        """
        if any(not 0 <= one < _CLASSES for one in self.pfc_lossless):
            raise InputError("there are eight classes", key="pfc_lossless", found=self.pfc_lossless, allowed="0 to 7")
        if len(self.pfc_weights) != _CLASSES or any(not 0 <= one < 256 for one in self.pfc_weights):
            raise InputError(
                "a weight for each of the eight classes is wanted",
                key="pfc_weights",
                found=self.pfc_weights,
                allowed="eight numbers from 0 to 255",
            )
        if self.control_class is not None and not 0 <= self.control_class < _CLASSES:
            raise InputError("there are eight classes", key="control_class", found=self.control_class, allowed="0 to 7")

    def pfc_thresholds(self, mtu_bytes: int) -> tuple[int, int]:
        """The static thresholds off and on in bytes; 0 where the dynamic one, or the default, holds."""
        off = self.pfc_xoff_bytes or (self.pfc_xoff_packets or 0) * mtu_bytes
        on = self.pfc_xon_bytes or (self.pfc_xon_packets or 0) * mtu_bytes
        return off, on


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
    if not len(outcome.flow_held_ps):
        return {}
    return {
        "paused_ps": outcome.flow_held_ps,
        "victim_ps": outcome.flow_victim_ps,
        "victim_of": outcome.flow_victim_origin,
    }


PFC_KEYS = tuple(entry.name for entry in fields(PfcSettings))
"""Names of these settings."""

_SAME = (
    "alpha",
    "lossy_alpha",
    "resume_bytes",
    "reserve_bytes",
    "frame_bytes",
    "response_ps",
    "watch_ps",
    "stall_ps",
)


def put(settings: PfcSettings, mtu_bytes: int, options: _core.PacketOptions) -> None:
    """Writes the settings into the core's options."""
    settings.check_classes()
    options.control_class = 255 if settings.control_class is None else settings.control_class
    marking = options.marking
    marking.low_bytes = -1 if settings.marking_low_bytes is None else settings.marking_low_bytes
    marking.high_bytes = -1 if settings.marking_high_bytes is None else settings.marking_high_bytes
    marking.most = settings.marking_most
    marking.at_enqueue = settings.marking_at_enqueue
    marking.by_rate = settings.marking_by_rate
    pfc = options.pfc
    pfc.lossless = sum(1 << one for one in set(settings.pfc_lossless))
    pfc.weights = settings.pfc_weights
    pfc.xoff_bytes, pfc.xon_bytes = settings.pfc_thresholds(mtu_bytes)
    pfc.buffer_bytes = settings.pfc_buffer_bytes or 0
    pfc.headroom_bytes = settings.pfc_headroom_bytes or 0
    for key in _SAME:
        setattr(pfc, key, getattr(settings, f"pfc_{key}"))
