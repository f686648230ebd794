"""Every constant of times of collectives that was read off published logs.

What launches and clouds add is here; the libraries' own constants are the product's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.collective.measured import MEASURED, LogConstants

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Constants:
    """What launches and the network software of clouds add, and the constants of libraries."""

    library: LogConstants = MEASURED

    host_gpu_us: float = 4.2
    """Queueing a kernel for one more accelerator of the same process: 34.5 us for 8 (A100, six logs of superbench),
    43.8 (A100, one of ml-engineering), with `host_channel_us` for the one channel in use."""

    host_channel_us: float = 0.24
    """The same for every channel of it, of which small data uses few: both logs rise by 37 and 58 us from 32 KiB to 1
    MiB, whatever the collective, while the accelerators' own time hardly does. Libraries of the time of V100 and A100
    only: later ones hand over all channels at once."""

    host_peer_us: float = 0.9
    """The same for every peer of an all-to-all: 87 us for 8 x 7 of them (A100, superbench)."""

    start_us: float = 20.0
    """Kernels of one process start together, behind a barrier: A100 logs from 4 to 64 MiB against those of a process
    each. An all-to-all waits for its posts too."""

    python_host_us: float = 39.0
    """A call through PyTorch: 39 us from 32 KiB to 512 KiB on 8 H200, where one process a GPU takes 15 to 21 on
    H100."""

    python_events_us: float = 12.0
    """What timing single calls between two events adds: 10 to 15 us from 2 to 64 MiB on the same accelerators."""

    python_barrier_us: float = 28.0
    """The same where every call also starts at a barrier, so that nothing of its launch is hidden: 34 to 47 us on 2 and
    4 MI350X, of which RCCL's own floor is 14 to 19."""

    cloud_stack_ps: Mapping[str, float] = field(
        default_factory=lambda: {"aws": 6_000_000, "google": 12_000_000}, hash=False
    )
    """Software of a NIC that is no RDMA verbs device, a step: libfabric's reliable datagrams, TCP between
    accelerators."""

    virtual_rdma_ps: Mapping[str, float] = field(default_factory=lambda: {"google": 14_000_000}, hash=False)
    """RDMA of a cloud's virtual machines, a step: 54 us against 32 for 2 x 8 H200 (GCP A3 Ultra). Azure's and Nebius'
    show nothing of the kind."""

    tcpx_efficiency: float = 0.62
    """Share of the line that GPUDirect-TCPX of GCP A3 High reaches: kernel TCP into accelerator memory; 50 and 71 of
    100 GB/s."""

    tcpx_idle_us: float = 930.0
    """Waking its receive path, which sleeps between small messages: 0.8 to 1.0 ms from 1 to 16 MiB, nothing from 128
    MiB up."""

    put_stack_ps: float = 6_600_000
    """NCCLX's puts (`ctran`), a step: 20.5 us with the path, Simple's proxy 14; on its smallest messages like that."""

    put_start_us: float = 40.0
    """What a ring of puts has beyond its steps: 4 to 32 GB200."""


CONSTANTS = Constants()
"""As they stand."""
