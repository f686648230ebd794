"""How the settings of HPCC and Swift are written, and the controls and balancers that may be a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.engine.packet.control_settings import HPCC_READINGS
from railyard.engine.packet.rdma_settings import RATE_CONTROLS
from railyard.engine.packet.user.loading import is_user
from railyard.errors import InputError, did_you_mean
from railyard.scenario.packet.readers import choice, number, rate, share, size, time, whole

if TYPE_CHECKING:
    from collections.abc import Callable

USER_FORM = "user:FILE.py:NAME"
"""How functions of a user's own are named."""


def word_or_user(*names: str) -> Callable[[str], str]:
    """One of some words, or functions of the user's own."""

    def read(text: str) -> str:
        if text not in names and not is_user(text):
            allowed = (*names, USER_FORM)
            raise InputError("unknown word", found=text, allowed=allowed, hint=did_you_mean(text, allowed))
        return text

    return read


CONTROL_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "rdma_control": ("rdma_control", word_or_user(*RATE_CONTROLS)),
    "loss_recovery": ("rdma_out_of_order", lambda text: choice("go-back", "selective")(text) == "selective"),
    "hpcc_reading": ("hpcc_reading", choice(*HPCC_READINGS)),
    "hpcc_eta": ("hpcc_eta", number(0.01, 2)),
    "hpcc_max_stage": ("hpcc_max_stage", whole(0, 10**6)),
    "hpcc_rtt": ("hpcc_rtt_ps", time),
    "hpcc_increase": ("hpcc_increase_bytes", size),
    "hpcc_increase_share": ("hpcc_increase_share", share),
    "hpcc_min_rate": ("hpcc_min_rate_bps", rate),
    "hpcc_hops": ("hpcc_hops", whole(1, 8)),
    "swift_increase": ("swift_increase", number(1e-6, 1e6)),
    "swift_decrease": ("swift_decrease", number(1e-6, 1e3)),
    "swift_max_decrease": ("swift_max_decrease", number(1e-6, 0.999)),
    "swift_base_target": ("swift_base_target_ps", time),
    "swift_hop_target": ("swift_hop_target_ps", time),
    "swift_scaling_range": ("swift_scaling_range_ps", time),
    "swift_scaling_least": ("swift_scaling_least", number(1e-6, 1e6)),
    "swift_scaling_most": ("swift_scaling_most", number(1e-6, 1e6)),
    "swift_host_target": ("swift_host_target_ps", time),
    "swift_first_packets": ("swift_first_packets", number(1e-6, 1e6)),
    "swift_least_packets": ("swift_least_packets", number(1e-6, 1e6)),
    "swift_most_packets": ("swift_most_packets", number(1e-6, 1e6)),
    "swift_timeout_reset": ("swift_timeout_reset", whole(1, 10**6)),
}
"""The key of `--set`, the setting and how its value is read."""


def is_rate_control(name: str) -> bool:
    """Whether a congestion control is one of reliable connections (`transport=rdma`), not of Ultra Ethernet."""
    return name in RATE_CONTROLS or is_user(name)
