"""Constants of how a benchmark is launched, and of the network software of clouds, that were read off published logs.

The libraries' own constants are the product's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.collective.constants import MEASURED, LogConstants

if TYPE_CHECKING:
    from numpy.typing import NDArray

    F = NDArray[np.float64]


HOST_GPU_US = 4.2
"""Queueing a kernel for one more accelerator of the same process: 10, 13.8, 16.9, 20.8, 25.2, 29.5 and 33.7 us for 2
to 8 A100 and one channel (NVIDIA/nccl-tests, issue 123)."""


@dataclass(frozen=True)
class LaunchConstants:
    """What launches and the network software of clouds add, and the constants of libraries."""

    library: LogConstants = MEASURED

    host_channel_us: float = 0.28
    """For every further channel, of which small data uses few: logs of 8 A100 in one process rise
    by 37 and 58 us from 32 KiB to 1 MiB, whatever the collective, while the accelerators' own time hardly does.
    Libraries of the time of V100 and A100 only: later ones hand over all channels at once."""

    host_peer_us: float = 0.94
    """The same for every peer of an all-to-all: 87 us for 8 x 7 of them (A100, superbench)."""

    python_us: float = 30.9
    """A call through PyTorch, from the event that times it to its kernel: 34 to 47 us on 2 and 4 MI350X where every
    call starts at a barrier, of which RCCL's own floor is 14 to 19."""

    python_events_us: float = 9.71
    """What timing single calls between two events adds: 10 to 15 us from 2 to 64 MiB on 8 H200. Calls that nothing
    holds up follow one another as fast as the host makes them, `python_us` and this: 39 us from 32 to 512 KiB."""

    tcpx_efficiency: float = 0.59
    """Share of the line that GPUDirect-TCPX of GCP A3 High reaches: kernel TCP into accelerator memory; 50 and 71 of
    100 GB/s."""

    tcpx_idle_us: float = 920.0
    """Waking its receive path, which sleeps between small messages: 0.8 to 1.0 ms from 1 to 16 MiB, nothing from 128
    MiB up."""

    put_start_us: float = 27.0
    """What a ring of puts (NCCLX's `ctran`) has beyond its steps: its host makes the schedule while the kernel waits, 4
    to 32 GB200."""


CONSTANTS = LaunchConstants()
"""The constants that are in use."""


KIB = 1 << 10

STEP = 0.05
"""Step of a constant's logarithm for its slope; a protocol's change of size is no slope."""


@dataclass(frozen=True)
class FittedConstant:
    """One constant that is read off logs.

    Attributes:
        name: Field of `Constants`, or of its `library`.
        prior: What it would be without any measurement.
        spread: One standard deviation of the prior's logarithm.
    """

    name: str
    prior: float
    spread: float
    source: str
    most: float = np.inf

    def get(self, constants: LaunchConstants) -> float:
        """The constant's value among these."""
        return float(attrgetter(self.name)(constants))

    def put(self, constants: LaunchConstants, value: float) -> LaunchConstants:
        """The same constants with another value of this one."""
        field = self.name.removeprefix("library.")
        changed: Any = {field: value}
        if field == self.name:
            return replace(constants, **changed)
        return replace(constants, library=replace(constants.library, **changed))


FITTED = (
    FittedConstant("host_channel_us", 0.1, 1.0, "guess: a work item of some hundred bytes over PCIe"),
    FittedConstant("host_peer_us", 1.0, 0.5, "guess: a quarter of a kernel's launch"),
    FittedConstant("python_us", 25.0, 0.5, "guess: calls of PyTorch's dispatcher are tens of us"),
    FittedConstant("python_events_us", 8.4, 0.5, "two events, each queued as a kernel is (nccl-tests, issue 123)"),
    FittedConstant("tcpx_efficiency", 0.8, 0.3, "guess: kernel TCP", 1.0),
    FittedConstant("tcpx_idle_us", 100.0, 1.5, "guess: a sleeping thread"),
    FittedConstant("put_start_us", 25.0, 0.7, "guess: as a call whose launch nothing hides"),
    FittedConstant("library.ampere_hop", 1.0, 0.5, "NCCL's constant"),
    FittedConstant("library.blackwell_hop", 8.5 / 4.5, 0.15, "LL kernels of a domain in NCCL 2.31"),
    FittedConstant("library.peer_us", 0.4, 0.5, "NCCL's constant for one more peer of CollNetDirect"),
    FittedConstant("library.rccl_peer_us", 0.4, 1.0, "NCCL's constant for one more peer of CollNetDirect"),
    FittedConstant("library.efa_us", 3.0, 0.5, "20 us a step in AWS' tuner (aws-ofi-nccl), less proxy and path"),
    FittedConstant("library.peer_share", 0.92, 0.05, "NCCL's share of kernels that do two things at once", 1.0),
    FittedConstant("library.switch_share", 0.85, 0.1, "NCCL's efficiency of in-switch reduction", 1.0),
    FittedConstant("library.switch_sync_us", 3.4, 0.5, "NCCL's step of Simple"),
    FittedConstant(
        "library.mesh_share", 0.94, 0.02, "330 of 350 GB/s (MI300X) and 409 of 430 (MI355X), published", 1.0
    ),
    FittedConstant("library.channel_gbs", 20.0, 0.2, "NCCL's speed of a channel and link"),
    FittedConstant("library.fill_bytes", 256.0 * KIB, 0.7, "NCCL's slice of grouped sends is half of 512 KiB"),
)
"""Every constant of times that is read off published logs."""


def constants_of(x: F) -> LaunchConstants:
    """The constants of these logarithms."""
    found = CONSTANTS
    for constant, value in zip(FITTED, np.exp(x), strict=True):
        found = constant.put(found, float(value))
    return found
