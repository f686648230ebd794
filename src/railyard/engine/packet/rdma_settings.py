"""Constants of RDMA's reliable connections and of DCQCN, and how the core takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from railyard import _core
from railyard.engine.packet.user.control import UserControl

RateControl = Literal["line-rate", "dcqcn", "spectrum", "hpcc", "swift"]
Notification = Literal["none", "packet", "acknowledgement"]
DcqcnForm = Literal["paper", "periodic"]

RATE_CONTROLS: tuple[RateControl, ...] = ("line-rate", "dcqcn", "spectrum", "hpcc", "swift")
NOTIFICATIONS: tuple[Notification, ...] = ("none", "packet", "acknowledgement")
DCQCN_FORMS: tuple[DcqcnForm, ...] = ("paper", "periodic")


@dataclass(frozen=True)
class RdmaSettings:
    """Reliable connections (`transport="rdma"`) and their rate control. Sources: `docs/concepts/packet-rdma.md`.

    Attributes:
        rdma_control: Who decides a queue pair's rate or window: a name, or a `UserControl`.
        rdma_notification: How a receiver tells of marked packets: not at all, by a notification packet (CNP), or by
            marked acknowledgements, each of which counts as one.
        rdma_qps: Queue pairs over which a flow is split, each with a path of its own.
        rdma_out_of_order: Packets are placed in any order and lost ones sent again alone; else the sender goes back.
        rdma_ack_packets: Packets that an acknowledgement answers.
        rdma_control_bytes: Size of acknowledgements and notifications on the wire.
        rdma_control_class: Their traffic class; None: that of the flow.
        rdma_rto_ps: Time without progress after which what is out is sent again.
        rdma_nack_interval_ps: Time before a gap is reported again; 0: by every packet beyond it.
        rdma_cnp_interval_ps: Least time between two notifications of a flow.
        rdma_window_rtts: Most payload out, in unloaded round trips of the flow's own path; 0: any.
        rdma_window_scales: Whether the window shrinks with the rate.
        dcqcn_form: `paper` cuts at every notification, `periodic` by clocks that look whether one came.
        dcqcn_g: Weight of a new sample in alpha.
        dcqcn_alpha_interval_ps: Period of alpha.
        dcqcn_decrease_interval_ps: Least time between cuts; the clock of the periodic form.
        dcqcn_increase_interval_ps: Timer of increases.
        dcqcn_byte_counter: Bytes sent after which the rate rises; 0: never by bytes.
        dcqcn_fast_recovery: Steps half way back to the target before the target rises.
        dcqcn_additive_bps: What the target then rises by.
        dcqcn_hyper_bps: What it rises by later.
        dcqcn_min_rate_bps: Least rate.
        dcqcn_initial_rate: First rate, of the line rate.
        dcqcn_first_cnp_rate: Kept at the first notification, of the rate, before the cut.
        dcqcn_least_kept: Kept by any cut, of the rate.
        dcqcn_clamp_target: Whether every cut of the periodic form lowers the target.
        spectrum_threshold_ps: Round-trip time beyond which there is congestion; None: 15 us, or 1.25 base round
            trips where those are longer.
        spectrum_responsiveness: Of the rate, a threshold of excess.
        spectrum_most_decrease: Kept at least by a round-trip time, of the rate.
        spectrum_most_increase: The rate grows by this factor at most.
        spectrum_additive_share: Added every base round trip without congestion, of the line rate.
        spectrum_hyper_share: Added instead after a long time without.
        spectrum_hyper_interval_ps: That time.
        spectrum_first_cut: Kept at the first congestion, of the rate.
        spectrum_notified_kept: Kept at a notification.
        spectrum_gap_kept: Kept when a gap is reported or time runs out.
        spectrum_least_share: Least rate, of the line rate.
    """

    rdma_control: RateControl | UserControl = "line-rate"
    rdma_notification: Notification = "none"
    rdma_qps: int = 1
    rdma_out_of_order: bool = False
    rdma_ack_packets: int = 1
    rdma_control_bytes: int = 64
    rdma_control_class: int | None = None
    rdma_rto_ps: int = 4_194_304_000
    rdma_nack_interval_ps: int = 4_194_304_000
    rdma_cnp_interval_ps: int = 50_000_000
    rdma_window_rtts: float = 0.0
    rdma_window_scales: bool = False
    dcqcn_form: DcqcnForm = "paper"
    dcqcn_g: float = 1 / 256
    dcqcn_alpha_interval_ps: int = 55_000_000
    dcqcn_decrease_interval_ps: int = 0
    dcqcn_increase_interval_ps: int = 55_000_000
    dcqcn_byte_counter: int = 10_000_000
    dcqcn_fast_recovery: int = 5
    dcqcn_additive_bps: float = 40e6
    dcqcn_hyper_bps: float = 200e6
    dcqcn_min_rate_bps: float = 10e6
    dcqcn_initial_rate: float = 1.0
    dcqcn_first_cnp_rate: float = 1.0
    dcqcn_least_kept: float = 0.5
    dcqcn_clamp_target: bool = False
    spectrum_threshold_ps: int | None = None
    spectrum_responsiveness: float = 0.1
    spectrum_most_decrease: float = 63570 / 65536
    spectrum_most_increase: float = 69468 / 65536
    spectrum_additive_share: float = 96 / 2**20
    spectrum_hyper_share: float = 1700 / 2**20
    spectrum_hyper_interval_ps: int = 2_000_000_000
    spectrum_first_cut: float = 0.5
    spectrum_notified_kept: float = 0.8
    spectrum_gap_kept: float = 0.5
    spectrum_least_share: float = 2**-14


RDMA_KEYS = tuple(RdmaSettings.__dataclass_fields__)
"""The settings of this page."""

CHOICES: dict[str, tuple[str, ...]] = {
    "rdma_control": RATE_CONTROLS,
    "rdma_notification": NOTIFICATIONS,
    "dcqcn_form": DCQCN_FORMS,
}
"""The words that settings may be."""

_ENUMS: dict[str, Any] = {
    "rdma_control": _core.PacketRateControl,
    "rdma_notification": _core.PacketNotification,
    "dcqcn_form": _core.PacketDcqcnForm,
}


def put_rdma(options: _core.PacketOptions, settings: RdmaSettings) -> None:
    """Puts the settings of this page into the core's options: `rdma_x` into `options.rdma.x`."""
    for key in RDMA_KEYS:
        if key == "rdma_qps":
            continue  # flows are split before the core sees them
        part, _, name = key.partition("_")
        value = getattr(settings, key)
        if key in _ENUMS:
            word = "user" if isinstance(value, UserControl) else value
            value = getattr(_ENUMS[key], word.replace("-", "_").upper())
        elif key == "rdma_control_class":
            value = -1 if value is None else value
        elif key == "spectrum_threshold_ps":
            value = value or 0
        setattr(getattr(options, part), name, value)
