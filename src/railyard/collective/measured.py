"""Constants of collective libraries that were read off published logs: what their sources leave out.

Each says on which measurements it rests; `validation/tools/collectives_left_out.py` fits them, from the priors named in
`railyard.ask.calibrate.nccl.constants`. What the libraries state themselves is in `tuner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.collective.tuner import constants

if TYPE_CHECKING:
    from collections.abc import Mapping

KIB = 1 << 10

SOFTWARE_US: Mapping[str, float] = {
    "ll": constants.NETWORK_US["tree"][0],
    "ll128": constants.NETWORK_US["tree"][1],
    "simple": constants.NETWORK_US["tree"][2] - constants.NETWORK_PATH_US,
}
"""A step through a NIC without the path itself: proxy thread, doorbell, flag, for Simple the flush. NCCL's constants of
a tree. Those of LL and LL128 are taken without taking the path off them: floors of two and four servers (8 x H100 and
8 x A100 over InfiniBand) are 8.1 us a step of LL with its path."""


@dataclass(frozen=True)
class LogConstants:
    """The constants, in us, GB/s and bytes; shares and factors of 1."""

    ampere_hop: float = 1.88
    """On NCCL's time of a step inside a domain, for Volta and Ampere, whose links and SMs are slower than those of the
    Hopper it was tuned on: 32 A100 on four servers 55 us; from 16 to 64 MiB 8 A100 are 40 to 60 us above it."""

    blackwell_hop: float = 2.3
    """The same for Blackwell's LL and LL128 and for its synchronisation of in-switch reduction: 16 us for 7 steps
    (B200), 17.9 for 6 and 30 for 14 (GB300). NCCL 2.31 itself starts LL kernels of a domain with 4.5 us on Hopper and
    8.5 on Blackwell."""

    peer_us: float = 0.367
    """Posting one more message of an all-to-all: 10.9 us for 8 ranks, 15 us for 8 over two trays."""

    rccl_peer_us: float = 1.05
    """The same by RCCL: 38 us for 16 ranks of MI355X on two servers."""

    efa_us: float = 10.2
    """Software of AWS' EFA, a step beside NCCL's proxy and the path: libfabric's reliable datagrams."""

    peer_share: float = 0.906
    """Share of the planned scale-up rate of kernels that only copy: grouped sends (224 of 240 GB/s on A100, 673 of 722
    on B200, 667 of 722 on GB300) and a ring's all-gather, which also copies its own part (223 of 240 on A100, 329 of
    360 on 2 x 8 H200, 672 of 722 on B200); all-reduce and reduce-scatter reach 0.97 to 1."""

    switch_share: float = 0.897
    """Share of the planned scale-up rate that in-switch reduction reaches between synchronisations: H200 with 4 to 8
    ranks; 12.6 more MB in a loop of 8 GB300 take 22.2 us."""

    switch_sync_us: float = 3.23
    """Fixed part of the synchronisation of a loop of in-switch reduction on Hopper; see `chunks.switch_sync_us`. The
    times of 8 H100 (4.1 us) and 8 GB300 (8.0 us) are what two chunk sizes leave."""

    mesh_share: float = 0.92
    """Share of the planned rate on a full mesh: 330 of 350 (MI300X), 409 of 430 GB/s (MI355X), 54.7 of 61.4 (one
    link)."""

    channel_gbs: float = 20.3
    """What one channel copies, Simple: 84.6 GB/s over 4 (ring of sends, B200), 170 over 8 (all-to-all of 4 GB300)."""

    fill_bytes: float = 153 * KIB
    """What a channel has copied before the receiver sees the first of it, at most its part: of grouped sends, and of a
    chain, as broadcasts and reductions of 8 A100 fill."""

    @property
    def software_us(self) -> Mapping[str, float]:
        """A step through a NIC without its path, by protocol."""
        return SOFTWARE_US

    @property
    def ll_channel_gbs(self) -> float:
        """What one channel copies with LL, by NCCL's ratio to Simple; 20.4 over 4 (B200) and 41 over 8 (GB300) GB/s."""
        return self.channel_gbs / constants.LL_SLOWER

    @property
    def mesh_peer_share(self) -> float:
        """Share of the planned rate in grouped sends on a full mesh: 361 of 430 GB/s (MI355X)."""
        return self.mesh_share * self.peer_share

    def hop_factor(self, generation: str, protocol: str) -> float:
        """On NCCL's time of a step inside a domain, for a generation of its constants and a protocol."""
        if generation in ("volta", "ampere"):
            return self.ampere_hop
        return self.blackwell_hop if generation == "blackwell" and protocol != "simple" else 1.0


MEASURED = LogConstants()
"""As read off the logs of `validation/data/nccl`."""
