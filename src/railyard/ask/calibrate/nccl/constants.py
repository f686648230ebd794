"""Constants of how a benchmark is launched, and of the network software of clouds, that were read off published logs.

The libraries' own constants are the product's.
"""

from __future__ import annotations

from dataclasses import dataclass

from railyard.collective.measured import MEASURED, LogConstants

HOST_GPU_US = 4.2
"""Queueing a kernel for one more accelerator of the same process: 10, 13.8, 16.9, 20.8, 25.2, 29.5 and 33.7 us for 2
to 8 A100 and one channel (NVIDIA/nccl-tests, issue 123)."""


@dataclass(frozen=True)
class Constants:
    """What launches and the network software of clouds add, and the constants of libraries."""

    library: LogConstants = MEASURED

    host_channel_us: float = 0.28
    """Beside `HOST_GPU_US`, for every further channel, of which small data uses few: logs of 8 A100 in one process rise
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


CONSTANTS = Constants()
"""As they stand."""
