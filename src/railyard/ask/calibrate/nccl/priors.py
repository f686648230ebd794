"""Which constants are read off logs, what each would be had nobody measured it, and how far that may be off."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.ask.calibrate.nccl.constants import CONSTANTS as MEASURED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.calibrate.nccl.constants import Constants

    F = NDArray[np.float64]

KIB = 1 << 10

STEP = 0.05
"""By which the logarithm of a constant is moved for its slope; a protocol's change of size is no slope."""


@dataclass(frozen=True)
class Constant:
    """One constant that is read off logs.

    Attributes:
        name: Field of `Constants`, or of its `library`.
        prior: What it would be had nobody measured it.
        spread: One standard deviation of the prior's logarithm.
        source: Where the prior comes from.
        most: Largest value.
    """

    name: str
    prior: float
    spread: float
    source: str
    most: float = np.inf

    def get(self, constants: Constants) -> float:
        """Its value among these."""
        return float(attrgetter(self.name)(constants))

    def put(self, constants: Constants, value: float) -> Constants:
        """These with another value of it."""
        field = self.name.removeprefix("library.")
        changed: Any = {field: value}
        if field == self.name:
            return replace(constants, **changed)
        return replace(constants, library=replace(constants.library, **changed))


CONSTANTS = (
    Constant("host_channel_us", 0.1, 1.0, "guess: a work item of some hundred bytes over PCIe"),
    Constant("host_peer_us", 1.0, 0.5, "guess: a quarter of a kernel's launch"),
    Constant("python_us", 25.0, 0.5, "guess: calls of PyTorch's dispatcher are tens of us"),
    Constant("python_events_us", 8.4, 0.5, "two events, each queued as a kernel is (nccl-tests, issue 123)"),
    Constant("tcpx_efficiency", 0.8, 0.3, "guess: kernel TCP", 1.0),
    Constant("tcpx_idle_us", 100.0, 1.5, "guess: a sleeping thread"),
    Constant("put_start_us", 25.0, 0.7, "guess: as a call whose launch nothing hides"),
    Constant("library.ampere_hop", 1.0, 0.5, "NCCL's constant"),
    Constant("library.blackwell_hop", 8.5 / 4.5, 0.15, "LL kernels of a domain in NCCL 2.31"),
    Constant("library.peer_us", 0.4, 0.5, "NCCL's constant for one more peer of CollNetDirect"),
    Constant("library.rccl_peer_us", 0.4, 1.0, "NCCL's constant for one more peer of CollNetDirect"),
    Constant("library.efa_us", 3.0, 0.5, "20 us a step in AWS' tuner (aws-ofi-nccl), less proxy and path"),
    Constant("library.peer_share", 0.92, 0.05, "NCCL's share of kernels that do two things at once", 1.0),
    Constant("library.switch_share", 0.85, 0.1, "NCCL's efficiency of in-switch reduction", 1.0),
    Constant("library.switch_sync_us", 3.4, 0.5, "NCCL's step of Simple"),
    Constant("library.mesh_share", 0.94, 0.02, "330 of 350 GB/s (MI300X) and 409 of 430 (MI355X), published", 1.0),
    Constant("library.channel_gbs", 20.0, 0.2, "NCCL's speed of a channel and link"),
    Constant("library.fill_bytes", 256.0 * KIB, 0.7, "NCCL's slice of grouped sends is half of 512 KiB"),
)
"""Every constant of times that is read off published logs."""


def constants_of(x: F) -> Constants:
    """The constants of these logarithms."""
    found = MEASURED
    for constant, value in zip(CONSTANTS, np.exp(x), strict=True):
        found = constant.put(found, float(value))
    return found
