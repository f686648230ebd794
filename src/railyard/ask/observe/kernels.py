"""What ran on a rank, as columns: a trace of hundreds of ranks holds tens of millions of kernels."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from railyard.graph import Record

    Column = NDArray[np.int64]


ATTENTION, EXPERT, GEMM = "attention", "expert", "gemm"
NORM, OPTIMIZER, ELEMENTWISE, COPY = "norm", "optimizer", "elementwise", "copy"

COMPUTE_BOUND = (ATTENTION, EXPERT, GEMM)
MEMORY_BOUND = (NORM, OPTIMIZER, ELEMENTWISE)

WORDS = {
    ATTENTION: "attention kernels",
    EXPERT: "expert GEMMs",
    GEMM: "GEMMs",
    NORM: "normalizations",
    OPTIMIZER: "optimizer kernels",
    ELEMENTWISE: "elementwise kernels",
    COPY: "copies between host and device",
}
"""Names for users."""

_PATTERNS = (
    # FlashAttention 2 and 3, CUTLASS FMHA, cuDNN SDPA, Triton and FlexAttention, CK and AITER on ROCm
    (ATTENTION, r"flash|fmha|attention|attn|sdpa|\bmha|_mla_"),
    # CUTLASS grouped GEMM, grouped_gemm, DeepGEMM's m-grouped kernels, fused_moe of vLLM and SGLang
    (EXPERT, r"group(ed)?_?(gemm|mm)|gemm_?group|groupproblemshape|mgrouped|moe|expert"),
    (OPTIMIZER, r"adam|multi_tensor_apply|optimizer|foreach|\blamb|\bsgd"),
    (NORM, r"norm|rsqrt|softmax|\bbn_"),
    # cuBLAS (nvjet, gemm, xmma), CUTLASS, Tensile (Cijk), convolutions of cuDNN and MIOpen
    (
        GEMM,
        r"gemm|gemv|nvjet|cijk_|matmul|cutlass|xmma|wgmma|conv\w*(fwd|bwd|forward|backward)|implicit_|wgrad|dgrad|fprop|scudnn|winograd",
    ),
    (COPY, r"memcpy|memset"),
)
_KERNEL_KINDS_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)


@cache
def kind_of_kernel(name: str) -> str:
    """attention, expert, gemm, norm, optimizer or copy; elementwise where the name says none of them."""
    return next((kind for kind, pattern in _KERNEL_KINDS_KINDS if pattern.search(name)), ELEMENTWISE)


_LIBRARY = re.compile(r"nccl|rccl|mscclKernel|msccl_|\bgloo:|\bc10d::|deep_ep::|hybrid_ep::", re.IGNORECASE)
"""NCCL: ncclKernel_ (to 2.18), ncclDevKernel_ (from 2.19), ncclSymkDevKernel_ (2.27); RCCL: the same, and
ncclDevKernel_Generic, rccl_main_kernel, mscclKernel_; gloo: annotations of the host; DeepEP and HybridEP: dispatch and
combination of tokens, `deep_ep::internode::dispatch`."""

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
    ("all_to_all", "dispatch"),
    ("all_to_all", "combine"),
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


COMPUTE, COMMUNICATION, COPY_PHASE = "compute", "communication", "copy"
PHASES = (COMPUTE, COMMUNICATION, COPY_PHASE)


@dataclass(frozen=True)
class Kernels:
    """n kernels, copies and communications, of one rank, in the order of its file.

    Attributes:
        words: Names, kinds and groups.
        phase: uint8[n], index into `PHASES`.
        name: int32[n], into `words`, as in the trace.
        kind: int32[n], into `words`: all_reduce and so on of a communication; empty where its name does not say.
        group: int32[n], into `words`: process group of a communication; empty where that is not known.
        start_ns: int64[n], of the rank's clock.
        duration_ns: int64[n].
        stream: int64[n], of the device, or thread of the host.
        launch: int64[n], grows in the order in which the host launched them; -1 where not known.
        blocks: int64[n], thread blocks of its grid; 0 where not known.
        sequence: int64[n], number of a communication in its group, -1 where not known.
        size_bytes: int64[n], of a communication the larger of its buffers, as in nccl-tests; 0 where not known.
    """

    words: tuple[str, ...]
    phase: NDArray[np.uint8]
    name: NDArray[np.int32]
    kind: NDArray[np.int32]
    group: NDArray[np.int32]
    start_ns: Column
    duration_ns: Column
    stream: Column
    launch: Column
    blocks: Column
    sequence: Column
    size_bytes: Column

    def __len__(self) -> int:
        return len(self.phase)

    @property
    def communicates(self) -> NDArray[np.bool_]:
        """bool[n], those that are communications."""
        return np.asarray(self.phase == PHASES.index(COMMUNICATION))

    def later(self, by_ns: int) -> Kernels:
        """The same kernels, started later."""
        return replace(self, start_ns=self.start_ns + by_ns)


@dataclass
class KernelRows:
    """Kernels row by row, on their way to columns."""

    words: dict[str, int] = field(default_factory=dict)
    _phase: Any = field(default_factory=lambda: array("B"))
    _columns: Any = field(default_factory=lambda: [array("i") for _ in range(3)] + [array("q") for _ in range(7)])

    def __len__(self) -> int:
        return len(self._phase)

    def add(
        self,
        phase: str,
        name: str,
        start_ns: int,
        duration_ns: int,
        *,
        stream: int = 0,
        launch: int = -1,
        blocks: int = 0,
        kind: str = "",
        group: str = "",
        sequence: int = -1,
        size_bytes: int = 0,
    ) -> None:
        """Adds one; see `Kernels`.

        Raises:
            OverflowError: A number does not fit in 64 bits.
        """
        words = self.words
        row = (
            words.setdefault(name, len(words)),
            words.setdefault(kind, len(words)),
            words.setdefault(group, len(words)),
            start_ns,
            duration_ns,
            stream,
            launch,
            blocks,
            sequence,
            size_bytes,
        )
        if max(row) >= 1 << 63 or min(row) < -(1 << 63):
            raise OverflowError("a number of an event is too large")
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)
        self._phase.append(PHASES.index(phase))

    def columns(self) -> Kernels:
        """All rows as columns."""
        name, kind, group = (np.array(column, np.int32) for column in self._columns[:3])
        wide = [np.array(column, np.int64) for column in self._columns[3:]]
        return Kernels(tuple(self.words), np.array(self._phase, np.uint8), name, kind, group, *wide)


def communicating(record: Record) -> NDArray[np.bool_]:
    """bool[n], which kernels of a record communicate."""
    return np.array([label.phase == COMMUNICATION for label in record.labels], np.bool_)[record.what]


def starts_of(*columns: Column) -> Column:
    """int64[m], rows at which any of several sorted columns changes."""
    new = np.zeros(len(columns[0]), np.bool_)
    new[:1] = True
    for column in columns:
        new[1:] |= np.diff(column) != 0
    return np.flatnonzero(new)
