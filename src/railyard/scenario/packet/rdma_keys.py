"""How the settings of RDMA and its rate controls are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.engine.packet.rdma_settings import DCQCN_FORMS, NOTIFICATIONS
from railyard.scenario.packet.readers import choice, number, rate, share, size, time, whole, yes

if TYPE_CHECKING:
    from collections.abc import Callable

RDMA_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "rdma_notification": ("rdma_notification", choice(*NOTIFICATIONS)),
    "qps": ("rdma_qps", whole(1, 4096)),
    "rdma_out_of_order": ("rdma_out_of_order", yes),
    "rdma_ack_packets": ("rdma_ack_packets", whole(1, 65535)),
    "rdma_control_bytes": ("rdma_control_bytes", whole(1, 65535)),
    "rdma_control_class": ("rdma_control_class", whole(0, 7)),
    "rdma_rto": ("rdma_rto_ps", time),
    "rdma_nack_interval": ("rdma_nack_interval_ps", time),
    "rdma_cnp_interval": ("rdma_cnp_interval_ps", time),
    "rdma_window_rtts": ("rdma_window_rtts", number(0, 1e6)),
    "rdma_window_scales": ("rdma_window_scales", yes),
    "dcqcn_form": ("dcqcn_form", choice(*DCQCN_FORMS)),
    "dcqcn_g": ("dcqcn_g", share),
    "dcqcn_alpha_interval": ("dcqcn_alpha_interval_ps", time),
    "dcqcn_decrease_interval": ("dcqcn_decrease_interval_ps", time),
    "dcqcn_increase_interval": ("dcqcn_increase_interval_ps", time),
    "dcqcn_byte_counter": ("dcqcn_byte_counter", size),
    "dcqcn_fast_recovery": ("dcqcn_fast_recovery", whole(0, 1000)),
    "dcqcn_additive": ("dcqcn_additive_bps", rate),
    "dcqcn_hyper": ("dcqcn_hyper_bps", rate),
    "dcqcn_min_rate": ("dcqcn_min_rate_bps", rate),
    "dcqcn_initial_rate": ("dcqcn_initial_rate", share),
    "dcqcn_first_cnp_rate": ("dcqcn_first_cnp_rate", share),
    "dcqcn_least_kept": ("dcqcn_least_kept", share),
    "dcqcn_clamp_target": ("dcqcn_clamp_target", yes),
    "spectrum_threshold": ("spectrum_threshold_ps", time),
    "spectrum_responsiveness": ("spectrum_responsiveness", number(0, 100)),
    "spectrum_most_decrease": ("spectrum_most_decrease", share),
    "spectrum_most_increase": ("spectrum_most_increase", number(1, 100)),
    "spectrum_additive_share": ("spectrum_additive_share", number(0, 1)),
    "spectrum_hyper_share": ("spectrum_hyper_share", number(0, 1)),
    "spectrum_hyper_interval": ("spectrum_hyper_interval_ps", time),
    "spectrum_first_cut": ("spectrum_first_cut", share),
    "spectrum_notified_kept": ("spectrum_notified_kept", share),
    "spectrum_gap_kept": ("spectrum_gap_kept", share),
    "spectrum_least_share": ("spectrum_least_share", share),
}
"""The key of `--set`, the setting and how its value is read."""
