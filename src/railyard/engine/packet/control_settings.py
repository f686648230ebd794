"""Constants of HPCC and Swift, functions of the user's own, and how the core takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from railyard import _core
from railyard.engine.packet.user.balancer import UserBalancer
from railyard.engine.packet.user.control import UserControl

if TYPE_CHECKING:
    from railyard.engine.packet.user.compiling import Functions

HpccReading = Literal["paper", "htsim"]

HPCC_READINGS: tuple[HpccReading, ...] = ("paper", "htsim")


@dataclass(frozen=True)
class ControlSettings:
    """Controls of the RDMA transport (`rdma_control`). Sources: `docs/concepts/packet-controls.md`.

    Attributes:
        hpcc_reading: HPCC's rules as published, or as csg-htsim computes them.
        hpcc_eta: Utilization of the fullest link that windows aim at.
        hpcc_max_stage: Additive increases in a row before a relative one.
        hpcc_rtt_ps: Base round trip of all flows; None: that of the flow's path with `rdma_window_rtts=1`, else that of
            the longest path.
        hpcc_increase_bytes: Bytes added each round trip; None: by share.
        hpcc_increase_share: Bytes added each round trip, of the first window.
        hpcc_min_rate_bps: Least rate.
        hpcc_hops: Egresses whose telemetry is used; 8 at most.
        swift_increase: Packets added each round trip.
        swift_decrease: Share of the excess delay that a decrease takes off.
        swift_max_decrease: Greatest share of the window that a decrease takes off.
        swift_base_target_ps: Fabric delay aimed at, before scaling.
        swift_hop_target_ps: Added for every hop.
        swift_scaling_range_ps: Added at most as windows shrink.
        swift_scaling_least: Window at which all of it is added, packets.
        swift_scaling_most: Window from which nothing of it is added, packets.
        swift_host_target_ps: Delay in the receiving host aimed at.
        swift_first_packets: First window, packets; None: one bandwidth-delay product.
        swift_least_packets: Least window, packets; below one, packets are further apart than a round trip.
        swift_most_packets: Greatest window, packets.
        swift_timeout_reset: Timeouts in a row after which the window is the least.
    """

    hpcc_reading: HpccReading = "paper"
    hpcc_eta: float = 0.95
    hpcc_max_stage: int = 5
    hpcc_rtt_ps: int | None = None
    hpcc_increase_bytes: int | None = None
    hpcc_increase_share: float = 1 / 2500
    hpcc_min_rate_bps: float = 100e6
    hpcc_hops: int = 5
    swift_increase: float = 1.0
    swift_decrease: float = 0.8
    swift_max_decrease: float = 0.5
    swift_base_target_ps: int = 20_000_000
    swift_hop_target_ps: int = 3_053_435
    swift_scaling_range_ps: int = 100_000_000
    swift_scaling_least: float = 0.1
    swift_scaling_most: float = 100.0
    swift_host_target_ps: int = 20_000_000
    swift_first_packets: float | None = None
    swift_least_packets: float = 0.001
    swift_most_packets: float = 1000.0
    swift_timeout_reset: int = 5


CONTROL_KEYS = tuple(ControlSettings.__dataclass_fields__)
"""Names of the settings of this page."""

CHOICES: dict[str, tuple[str, ...]] = {"hpcc_reading": HPCC_READINGS}
"""The words that settings may be."""


def put_controls(options: _core.PacketOptions, settings: ControlSettings) -> None:
    """Puts the settings of this page into the core's options: `hpcc_x` into `options.hpcc.x`."""
    for key in ControlSettings.__dataclass_fields__:
        part, _, name = key.partition("_")
        value = getattr(settings, key)
        if key == "hpcc_reading":
            value = getattr(_core.PacketHpccReading, value.upper())
        setattr(getattr(options, part), name, 0 if value is None else value)


def put_user(options: _core.PacketOptions, control: object, balancer: object) -> None:
    """Puts the addresses of a user's functions into the core's options, and asks for telemetry where it is read.

    Raises:
        InputError: Numba is missing or cannot compile a function.
    """
    if isinstance(control, UserControl):
        _put(options.user_control, control)
        options.telemetry = control.wants_hops
    if isinstance(balancer, UserBalancer):
        _put(options.user_balance, balancer)
    if control == "hpcc":
        options.telemetry = True


def _put(into: Any, functions: Functions) -> None:
    for hook, address in functions.addresses().items():
        setattr(into, hook, address)
    into.set_slots(functions.slots)
