"""Constants of collective libraries that were read off published logs: what their sources leave out.

Each says on which measurements it rests; `validation/tools/collectives_left_out.py` fits them, from the priors named in
`railyard.ask.calibrate.nccl.constants`. What the libraries state themselves is in `tuner`.

Constants of NCCL's cost model (2.30, same in 2.31) and what they were before: latencies in us, bandwidths in GB/s.

Source: NVIDIA/nccl 2.30.7 (2026-06-11), `tuning.cc` and the graph search; Apache-2.0. Restated as facts, not as code.
Triples are LL, LL128, Simple.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


Version = tuple[int, int]
NEWEST: Version = (2, 30)
PROTOCOLS = ("ll", "ll128", "simple")
BASE_US = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4), "pat": (8.0, 8.0, 8.0)}
NVLINK_US = {
    "tree": (0.6, 1.25, 4.0),
    "ring": (0.6, 1.9, 3.4),
    "collnet-direct": (0.0, 0.0, 3.7),
    "collnet-chain": (0.0, 0.0, 2.8),
}
PCI_US = {
    "tree": (1.0, 1.9, 4.0),
    "ring": (1.0, 2.5, 5.7),
    "collnet-direct": (0.0, 0.0, 3.7),
    "collnet-chain": (0.0, 0.0, 2.8),
}
NETWORK_US = {
    "tree": (5.0, 8.5, 14.0),
    "collnet-direct": (0.0, 0.0, 31.0),
    "collnet-chain": (0.0, 0.0, 30.0),
    "nvls-sharp": (0.0, 0.0, 18.0),
}
NETWORK_PATH_US = 3.5
"""The part of these that is the path between NICs: InfiniBand through two tiers, on which NVIDIA tunes them."""

PAT_SHARE = 0.75
"""Share of a NIC's rate that NCCL takes aggregated trees (PAT) to reach."""

BOTH_WAYS_SHARE = 0.92
"""Share of the planned rate of kernels that reduce upwards and copy downwards at once (NCCL's trees)."""

LL_SLOWER = 3.8
"""How much slower NCCL takes LL to be than Simple where flags and not links bound it (its trees)."""

MANY_RANKS_SHARE = 0.74 / 0.85
"""NCCL's efficiency of in-switch reduction on Blackwell over that on Hopper."""

MULTICAST_RANK_US = 0.137
"""What one more rank adds to a multicast write inside a domain (NCCL 2.31, copy engines of Blackwell)."""

TREE_CORRECTION: dict[str, tuple[float, ...]] = {
    "ll": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    "ll128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    "simple": (0.9,) * 7 + (0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9),
}
"""Factors on the bandwidth of a tree all-reduce; index floor(log2(bytes / 64)), the last one for all larger sizes."""

INTRA_SPEEDS: dict[str, tuple[float, ...]] = {
    "ampere": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    "blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
"""Speeds of one channel that the graph search tries inside a domain."""

INTER_SPEEDS: dict[str, tuple[float, ...]] = {
    "ampere": (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12),
    "hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    "blackwell": (96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
}
"""Speeds of one channel that the graph search tries across domains."""


@dataclass(frozen=True)
class Generation:
    """Constants of one accelerator generation; triples are for 1, 2 and more domains.

    Attributes:
        ll_max: Largest bus bandwidth of LL. Between domains NCCL takes it by the CPU, whose proxy reads every flag:
            AMD's for Ampere, whose usual hosts are EPYC, Intel's and others' for the rest.
        ring_ll128: Largest bandwidth of one ring channel, LL128.
        tree_ll128: The same of a tree channel.
        tree_simple: The same, Simple.
        nvls_tree: The same of an NVLS tree channel.
        ring_speed: Speed of a ring channel that the graph search ends with on a full server.
    """

    ll_max: tuple[float, float, float]
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree_simple: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    ring_speed: float


_LL128_OLD = (20.0, 20.0, 20.0)
_LL_PROXY = (39.0, 20.4)
GENERATIONS = {
    "volta": Generation((39.0, *_LL_PROXY), _LL128_OLD, _LL128_OLD, (26.5, 18.5, 10.0), (26.5, 18.5, 10.0), 20.0),
    "ampere": Generation((87.7, 22.5, 19.0), _LL128_OLD, _LL128_OLD, (24.0, 23.6, 17.8), (24.0, 23.6, 17.8), 20.0),
    "hopper": Generation(
        (141.0, *_LL_PROXY), (36.7, 36.7, 36.7), (36.7, 36.7, 29.0), (38.7, 41.4, 36.0), (0.0, 57.7, 45.5), 30.0
    ),
    "blackwell": Generation(
        (282.0, *_LL_PROXY), (40.0, 40.0, 40.0), (55.6, 31.67, 20.0), (70.0, 42.8, 24.0), (0.0, 96.0, 80.0), 40.0
    ),
}
_FAMILY = {"turing": "volta", "ada": "ampere", "blackwell-ultra": "blackwell", "blackwell-pcie": "blackwell"}


def generation_name(architecture: str) -> str:
    """The generation whose constants an architecture takes; unknown ones take the newest."""
    name = _FAMILY.get(architecture.lower(), architecture.lower())
    return name if name in GENERATIONS else "blackwell"


@cache
def generation(architecture: str, version: Version = NEWEST) -> Generation:
    """Constants of an architecture in a version: Hopper's LL rose in 2.21, Blackwell came in 2.25, tuned until 2.30."""
    name = generation_name(architecture)
    if name == "hopper" and version < (2, 21):
        return replace(GENERATIONS[name], ll_max=(87.7, *_LL_PROXY))
    if name != "blackwell" or version >= (2, 30):
        return GENERATIONS[name]
    if version < (2, 25):
        return GENERATIONS["hopper"]
    cap = 34.5 if version >= (2, 29) else 73.4
    return replace(GENERATIONS[name], ring_ll128=(cap, cap, cap))


def speeds(table: dict[str, tuple[float, ...]], generation: str) -> tuple[float, ...]:
    """The row of a table of speeds; generations before Ampere share Ampere's."""
    return table.get(generation, table["ampere"])


KIB = 1 << 10

SOFTWARE_US: Mapping[str, float] = {
    "ll": NETWORK_US["tree"][0],
    "ll128": NETWORK_US["tree"][1],
    "simple": NETWORK_US["tree"][2] - NETWORK_PATH_US,
}
"""A step through a NIC without the path itself: proxy thread, doorbell, flag, for Simple the flush. NCCL's constants of
a tree. Those of LL and LL128 are taken without taking the path off them: floors of two and four servers (8 x H100 and
8 x A100 over InfiniBand) are 8.1 us a step of LL with its path."""


@dataclass(frozen=True)
class LogConstants:
    """The constants, in us, GB/s and bytes; shares and factors of 1."""

    ampere_hop: float = 1.88
    """Factor on NCCL's time of a step inside a domain, for Volta and Ampere: their links and SMs are slower than
    those of the Hopper it was tuned on: 32 A100 on four servers 55 us; from 16 to 64 MiB 8 A100 are 40 to 60 us
    above it."""

    blackwell_hop: float = 2.3
    """The same for Blackwell's LL and LL128 and for its synchronisation of in-switch reduction: 16 us for 7 steps
    (B200), 17.9 for 6 and 30 for 14 (GB300). NCCL 2.31 itself starts LL kernels of a domain with 4.5 us on Hopper and
    8.5 on Blackwell."""

    peer_us: float = 0.367
    """Posting one more message of an all-to-all: 10.9 us for 8 ranks, 15 us for 8 over two trays."""

    rccl_peer_us: float = 1.05
    """The same by RCCL: 38 us for 16 ranks of MI355X on two servers."""

    efa_us: float = 10.2
    """Time of AWS EFA's software (libfabric's reliable datagrams) per step, on top of NCCL's proxy and the path."""

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
        return self.channel_gbs / LL_SLOWER

    @property
    def mesh_peer_share(self) -> float:
        """Share of the planned rate in grouped sends on a full mesh: 361 of 430 GB/s (MI355X)."""
        return self.mesh_share * self.peer_share

    def hop_factor(self, generation: str, protocol: str) -> float:
        """Factor on NCCL's time of a step inside a domain, for a generation of its constants and a protocol."""
        if generation in ("volta", "ampere"):
            return self.ampere_hop
        return self.blackwell_hop if generation == "blackwell" and protocol != "simple" else 1.0


MEASURED = LogConstants()
"""Constants read off the logs of `validation/data/nccl`."""


SECTION = "collectives"
"""Table of the file that holds them; others are of other kinds of measurements."""


def read_constants(path: Path) -> LogConstants:
    """The constants of a file over those that ship.

    Raises:
        InputError: It cannot be read, holds none of collectives, or names a constant that there is not.
    """
    try:
        content = tomllib.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"the file cannot be read as TOML: {error}", file=path) from error
    section = content.get(SECTION)
    if not isinstance(section, dict):
        raise InputError(f"the file has no table `{SECTION}`", file=path, found=", ".join(content) or "nothing")
    known = [field.name for field in fields(LogConstants)]
    for name, value in section.items():
        key = f"{SECTION}.{name}"
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"there is no constant `{name}`", file=path, key=key, found=name, allowed=known, hint=hint)
        most = 1.0 if name.endswith("_share") else float("inf")
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 < value <= most
            or value == float("inf")
        ):
            allowed = "above 0, at most 1" if most == 1.0 else "above 0"
            raise InputError("no such value for a constant", file=path, key=key, found=value, allowed=allowed)
    return replace(MEASURED, **{name: float(value) for name, value in section.items()})
