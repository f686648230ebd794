"""What kind of work a kernel does, by the names that libraries give their kernels.

A slow accelerator slows every kind that leans on the same resource: GEMMs, attention and experts need its clock, the
others its memory. Work that is unevenly spread makes one kind slow: attention by longer sequences, experts by more
tokens.
"""

from __future__ import annotations

import re
from functools import cache

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
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)


@cache
def kind_of_kernel(name: str) -> str:
    """attention, expert, gemm, norm, optimizer or copy; elementwise where the name says none of them."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), ELEMENTWISE)
