"""Constants of collective libraries that were read off published logs: what their sources leave out.

Each says on which measurements it rests. What the libraries state themselves is in `tuner`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KIB = 1 << 10


@dataclass(frozen=True)
class LogConstants:
    """The constants, in us, GB/s and bytes; shares of 1."""

    software_us: Mapping[str, float] = field(
        default_factory=lambda: {"ll": 5.0, "ll128": 8.0, "simple": 10.5}, hash=False
    )
    """A step through a NIC without the path itself: proxy thread, doorbell, flag, for Simple the flush. NCCL's
    constants are 5.0, 8.5 and 14 us with the path, of which 3 to 3.5 us are InfiniBand; LL and LL128 are raised to the
    floors of logs of two and four servers (8 x H100 and 8 x A100 over InfiniBand: 8.1 us a step with its path)."""

    hop_factor: Mapping[str, float] = field(
        default_factory=lambda: {"volta": 1.7, "ampere": 1.7, "hopper": 1.0, "blackwell": 2.1}, hash=False
    )
    """On NCCL's 0.6 us a step of LL (and on LL128) inside a domain. Floors of logs: 8 H100 13 to 17 us for 14 steps; 32
    A100 on four servers 55 us; Blackwell 16 us for 7 steps (B200), 17.9 for 6 and 30 for 14 (GB300)."""

    simple_hop_factor: Mapping[str, float] = field(
        default_factory=lambda: {"volta": 1.7, "ampere": 1.7, "hopper": 1.0, "blackwell": 1.0}, hash=False
    )
    """The same on NCCL's 3.4 us a step of Simple: 8 A100 are 40 to 60 us above it from 16 to 64 MiB, 16 A100
    likewise."""

    gather_share: float = 0.95
    """Share of the planned rate that a ring's all-gather reaches, which also copies its own part: 223 of 240 GB/s (8
    A100), 329 of 360 (2 x 8 H200), 672 of 722 (8 B200); all-reduce and reduce-scatter reach 0.97 to 1."""

    peer_us: float = 0.25
    """Posting one more message of an all-to-all: 10.9 us for 8 ranks, 15 us for 8 over two trays."""

    rccl_peer_us: float = 1.2
    """The same by RCCL: 38 us for 16 ranks of MI355X on two servers."""

    peer_base_us: float = 8.5
    """Floor of grouped sends and receives: 9.1 us send-receive, 10.9 us all-to-all on B200."""

    peer_share: float = 0.93
    """Share of the planned scale-up rate in grouped sends: 224 of 240 (A100), 673 of 722 (B200), 667 of 722 GB/s
    (GB300)."""

    switch_share: float = 0.88
    """Share of the planned scale-up rate that in-switch reduction reaches between synchronisations: H200 with 4 to 8
    ranks; 12.6 more MB in a loop of 8 GB300 take 22.2 us."""

    switch_many_ranks: float = 0.87
    """Factor on it with more than 16 ranks in a domain: GB200 and GB300 with 64 ranks."""

    chain_chunk_bytes: float = 64 * KIB
    """Data of a channel that a rank of a chain passes on at a time, as broadcasts and reductions of 8 A100 fill."""

    mesh_share: float = 0.92
    """Share of the planned rate on a full mesh: 330 of 350 (MI300X), 409 of 430 GB/s (MI355X), 54.7 of 61.4 (one
    link)."""

    mesh_peer_share: float = 0.85
    """The same in grouped sends: 361 of 430 GB/s (MI355X)."""

    switch_sync_us: Mapping[str, float] = field(default_factory=lambda: {"hopper": 0.5, "blackwell": 1.0}, hash=False)
    """Synchronisation of a loop of in-switch reduction, for each rank of the domain up to `chunks.SYNC_RANKS`: what the
    times of 8 H100 (4.1 us) and 8 GB300 (8.0 us) leave when two chunk sizes are compared."""

    sync_beyond: float = 0.25
    """Share of `switch_sync_us` that each rank beyond `chunks.SYNC_RANKS` adds."""

    channel_gbs: float = 21.2
    """What one channel copies, Simple: 84.6 GB/s over 4 (ring of sends, B200), 170 over 8 (all-to-all of 4 GB300)."""

    ll_channel_gbs: float = 5.1
    """The same with LL: 20.4 GB/s over 4 (B200), 41 over 8 (4 GB300)."""

    ll_bytes: float = 512 * KIB
    """Largest message inside a domain that moves at the rate of LL: the time steps down beyond it in all-to-alls of 4
    and 8 and in the ring of sends."""

    fill_bytes: float = 192 * KIB
    """What a channel has copied before the receiver sees the first of it, at most its part."""


MEASURED = LogConstants()
"""As read off the logs of `validation/data/nccl`."""
