"""Which collective a kernel or a call is, by the names that libraries gave it over the years."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LIBRARY = re.compile(r"nccl|rccl|mscclKernel|msccl_|\bgloo:|\bc10d::", re.IGNORECASE)
"""NCCL: ncclKernel_ (to 2.18), ncclDevKernel_ (from 2.19), ncclSymkDevKernel_ (2.27); RCCL: the same, and
ncclDevKernel_Generic, rccl_main_kernel, mscclKernel_; gloo: annotations of the host."""

_KINDS = (
    ("reduce_scatter", "reducescatter"),
    ("all_reduce", "allreduce"),
    ("all_gather", "allgather"),
    ("all_to_all", "alltoall"),
    ("send_recv", "sendrecv"),
    ("broadcast", "broadcast"),
    ("barrier", "barrier"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("send", "isend"),
    ("recv", "recv"),
)

BUSBW: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
    "broadcast": lambda _: 1.0,
    "reduce": lambda _: 1.0,
}
"""busbw over algbw by ranks (nccl-tests, doc/PERFORMANCE.md)."""


@cache
def is_communication(name: str) -> bool:
    """Whether a kernel is one of a library of collectives."""
    return _LIBRARY.search(name) is not None


@cache
def kind_of(name: str) -> str:
    """all_reduce, all_gather, reduce_scatter, all_to_all, broadcast and so on; empty where the name does not say."""
    bare = re.sub(r"[^a-z]", "", re.sub(r"^(nccl|gloo|xccl|mpi):", "", name.lower()).split("(")[0])
    return next((kind for kind, word in _KINDS if word in bare), "")
