"""What kind of work a kernel does, by the names that libraries give their kernels.

A slow accelerator slows every kind that leans on the same resource: GEMMs, attention and experts need its clock, the
others its memory. Work that is unevenly spread makes one kind slow: attention by longer sequences, experts by more
tokens.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
"""What users call them."""

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
