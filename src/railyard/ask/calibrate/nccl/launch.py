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

from railyard.ask.calibrate.nccl.constants import CONSTANTS, HOST_GPU_US, Constants

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.calibrate.nccl.log import Block, NcclLog

BARE_METAL, CLOUD, PYTHON = "bare metal", "cloud", "Python"
CLASSES = (BARE_METAL, CLOUD, PYTHON)

CHANNEL_BYTES = 32 << 10
"""Least data of a channel (NCCL: 512 threads of 64 B)."""

HOST_CHANNELS = 24
"""Channels of a ring on 8 A100."""

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
        host_channel_us: The same for each further channel that the size fills.
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
        host = self.host_us + self.host_channel_us * (channels - 1)
        seen: NDArray[np.float64] = np.maximum(host, np.hypot(own_us + self.added_us, self.idle_us))
        return seen


def launch_of(
    log: NcclLog, block: Block, collective: str, ranks: int, constants: Constants = CONSTANTS
) -> tuple[Launch, tuple[str, ...]]:
    """The launch of a table, and what had to be assumed about it.

    Args:
        log: Its header names script, cloud and process layout.
        block: The table.
        collective: In Railyard's words.
        ranks: Of the table.
        constants: What each way of launching adds.
    """
    about = "; ".join(log.headers.get(key, "") for key in ("name", "config", "hardware", "source", "test", "columns"))
    name = CLOUD if _CLOUD.search(about) else BARE_METAL
    own_flags = re.search(r"(?:^|[\s,;])-[nwgb] \d", log.headers.get("config", ""))
    if not own_flags and (_PYTHON.search(about + log.text) or "ml-engineering" in about):
        if _BARRIER.search(log.text):
            return Launch(PYTHON, added_us=constants.python_us), ("launched through PyTorch, one call at a time",)
        host_us = constants.python_us + constants.python_events_us
        return Launch(PYTHON, host_us=host_us, added_us=constants.python_events_us), ("launched through PyTorch",)
    driven = min(block.gpus_per_process, ranks)
    assumed: tuple[str, ...] = ()
    if block.gpus_per_process == 0:
        driven = _driven(about, ranks, several=bool(own_flags))
        assumed = ("one process a GPU, launched by MPI" if driven == 1 else f"one process for {driven} GPUs",)
    posts = driven * constants.host_peer_us * (ranks - 1) if collective == "all-to-all" else 0.0
    host_us = driven * HOST_GPU_US
    if driven == 1:
        return Launch(name, host_us + posts), assumed
    together_us = host_us / 2  # kernels of one process start one after another; a rank waits for half of them
    if posts:
        return Launch(name, host_us + posts, added_us=together_us + posts), assumed
    handed = constants.host_channel_us if re.search(r"[av]100", about, re.IGNORECASE) else 0.0
    return Launch(name, host_us, driven * handed, together_us), assumed


def _driven(about: str, ranks: int, *, several: bool) -> int:
    """GPUs of a process, where no line of the benchmark says it.

    Flags without MPI's command on a machine of up to 8 are those of a single process, as nccl-tests documents it.
    """
    said = re.search(r"1 process x (\d{1,2}) GPUs", about)
    if said:
        return max(1, int(said.group(1)))
    return ranks if several and ranks <= 8 else 1
