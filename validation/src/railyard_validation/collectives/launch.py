"""How a benchmark was launched, as its log's header tells, and what that adds to the time of an invocation.

nccl-tests times a loop of invocations that the host queues without waiting. Such a loop cannot run faster than its host
queues: a time is the longer of the host's and the accelerators'. One process that drives several accelerators queues
for one after another, and older libraries also hand over every channel; a benchmark in Python goes through PyTorch, and
times single calls between two events.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard_validation.collectives.nccl_log import Block, NcclLog

BARE_METAL, CLOUD, PYTHON = "bare metal", "cloud", "Python"
CLASSES = (BARE_METAL, CLOUD, PYTHON)

HOST_GPU_US = 4.2
"""Queueing a kernel for one more accelerator of the same process: 34.5 us for 8 (A100, six logs of superbench), 43.8
(A100, one of ml-engineering), with `HOST_CHANNEL_US` for the one channel in use."""

HOST_CHANNEL_US = 0.24
"""The same for every channel of it, of which small data uses few: both logs rise by 37 and 58 us from 32 KiB to 1 MiB,
whatever the collective, while the accelerators' own time hardly does. Libraries of the time of V100 and A100 only:
later ones hand over all channels at once."""

HOST_PEER_US = 0.9
"""The same for every peer of an all-to-all: 87 us for 8 x 7 of them (A100, superbench)."""

START_US = 20.0
"""Kernels of one process start together, behind a barrier: A100 logs from 4 to 64 MiB against those of a process
each. An all-to-all waits for its posts too."""

CHANNEL_BYTES = 32 << 10
"""Least data of a channel (NCCL: 512 threads of 64 B)."""

HOST_CHANNELS = 24
"""Channels of a ring on 8 A100."""

PYTHON_HOST_US = 39.0
"""A call through PyTorch: 39 us from 32 KiB to 512 KiB on 8 H200, where one process a GPU takes 15 to 21 on H100."""

PYTHON_EVENTS_US = 12.0
"""What timing single calls between two events adds: 10 to 15 us from 2 to 64 MiB on the same accelerators."""

PYTHON_BARRIER_US = 28.0
"""The same where every call also starts at a barrier, so that nothing of its launch is hidden: 34 to 47 us on 2 and 4
MI350X, of which RCCL's own floor is 14 to 19."""

_BARRIER = re.compile(r"barrier-aligned|hipEvent", re.IGNORECASE)
_PYTHON = re.compile(
    r"all_reduce_bench\.py|\btorch\.(?:b?float\d*|distributed|dist)\b|\bthrough PyTorch\b", re.IGNORECASE
)
_CLOUD = re.compile(
    r"\baws|\bec2\b|\beks\b|\befa\b|\bp[45](?:de|d|en|e)?\b|\bp6[\w-]*|azure|\bndv?\d|\bnd[a-z]*_|\baks\b|\bgcp\b|google|\bgke\b|"
    r"\ba3 |\ba3-|\ba3(?:mega|high|ultra)|\ba4\b|\btcpxo?\b|nebius|lambda|\bvm\b|virtual|superbench",
    re.IGNORECASE,
)
"""Words of clouds that rent virtual machines. Shapes called bare metal (OCI's `BM`), CoreWeave, Vultr and machines that
are named by their maker are none."""


@dataclass(frozen=True)
class Launch:
    """What the way of launching does to times.

    Attributes:
        name: One of `CLASSES`.
        host_us: What the host needs for an invocation, whatever its size.
        host_channel_us: The same for each channel that the size fills.
        added_us: On top of the accelerators' own time.
        idle_us: Time to wake a network path that has fallen idle; traffic that takes longer keeps it awake.
    """

    name: str = BARE_METAL
    host_us: float = 0.0
    host_channel_us: float = 0.0
    added_us: float = 0.0
    idle_us: float = 0.0

    def times_us(self, size_bytes: NDArray[np.int64], own_us: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times as the benchmark sees them, float64[k].

        Args:
            size_bytes: int64[k], nccl-tests sizes.
            own_us: float64[k], of accelerators and network.
        """
        channels = np.clip(np.ceil(size_bytes / CHANNEL_BYTES), 1, HOST_CHANNELS)
        host = self.host_us + self.host_channel_us * channels
        seen: NDArray[np.float64] = np.maximum(host, np.hypot(own_us + self.added_us, self.idle_us))
        return seen


def launch_of(log: NcclLog, block: Block, collective: str, ranks: int) -> tuple[Launch, tuple[str, ...]]:
    """The launch of a table, and what had to be assumed about it.

    Args:
        log: Its header names script, cloud and process layout.
        block: The table.
        collective: In Railyard's words.
        ranks: Of the table.
    """
    about = "; ".join(log.headers.get(key, "") for key in ("name", "config", "hardware", "source", "test", "columns"))
    name = CLOUD if _CLOUD.search(about) else BARE_METAL
    own_flags = re.search(r"(?:^|[\s,;])-[nwgb] \d", log.headers.get("config", ""))
    if not own_flags and (_PYTHON.search(about + log.text) or "ml-engineering" in about):
        if _BARRIER.search(log.text):
            return Launch(PYTHON, added_us=PYTHON_BARRIER_US), ("launched through PyTorch, one call at a time",)
        return Launch(PYTHON, host_us=PYTHON_HOST_US, added_us=PYTHON_EVENTS_US), ("launched through PyTorch",)
    driven = min(block.gpus_per_process, ranks)
    assumed: tuple[str, ...] = ()
    if block.gpus_per_process == 0:
        driven = _driven(about, ranks, several=bool(own_flags))
        assumed = ("one process a GPU, launched by MPI" if driven == 1 else f"one process for {driven} GPUs",)
    if driven == 1:
        return Launch(name), assumed
    if collective == "all-to-all":
        posts = driven * HOST_PEER_US * (ranks - 1)
        return Launch(name, host_us=driven * HOST_GPU_US + posts, added_us=START_US + posts), assumed
    handed = HOST_CHANNEL_US if re.search(r"[av]100", about, re.IGNORECASE) else 0.0
    return Launch(name, driven * HOST_GPU_US, driven * handed, START_US), assumed


def _driven(about: str, ranks: int, *, several: bool) -> int:
    """GPUs of a process, where no line of the benchmark says it.

    Flags without MPI's command on a machine of up to 8 are those of a single process, as nccl-tests documents it.
    """
    said = re.search(r"1 process x (\d{1,2}) GPUs", about)
    if said:
        return max(1, int(said.group(1)))
    return ranks if several and ranks <= 8 else 1
