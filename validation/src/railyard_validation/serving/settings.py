"""What InferenceX's recipes set in an engine beside its layout, where it decides a time and no label tells it.

`benchmarks/*.sh` of SemiAnalysisAI/InferenceX (Apache-2.0) and their history, September 2025 to May 2026: width of the
cache (`kv-cache-dtype`, `kv_cache_config.dtype`), tokens of an iteration (`max-num-batched-tokens`, `MAX_NUM_TOKENS`),
and requests ahead of the measured ones (`num-warmups`, `benchmark_lib.sh`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Model
    from railyard_validation.serving.table import Row

WARM_SINCE = "2026-01-21"
"""Day from which its client sends 2 C requests ahead; before, the first wave meets kernels that are yet to be compiled.

Commit d053ae24e, "num-warmups".
"""
# vLLM with the recipes of April 2026 for MiniMax-M2.5 on Blackwell: an eight-bit cache, and two prompts an iteration.
_MINIMAX_SINCE = (0, 19)
# First day of an eight-bit cache of gpt-oss under vLLM on Blackwell (commit 25506e87c).
_GPT_OSS_SINCE = "2025-12-05"
# First day on which TensorRT-LLM's recipes of DeepSeek-R1 give an iteration at least 8,192 tokens (commit 64af5a771).
_WIDE_SINCE = "2026-01-21"
_WIDE = 8192


def cache_bits(row: Row, model: Model, device: Accelerator, engine: str) -> int | None:
    """Bits of a cached element, None where no recipe departs from the engine's usual choice."""
    blackwell = device.architecture.startswith("blackwell")
    if engine == "vllm" and "llama-3-70b" in model.name:
        return 8
    if engine == "vllm" and "gpt-oss" in model.name and blackwell and row.get("date") >= _GPT_OSS_SINCE:
        return 8
    if engine == "vllm" and _two_prompts(row, model, device):
        return 8
    if engine == "tensorrt-llm" and "gpt-oss" in model.name and blackwell:
        return 8
    # SGLang's recipes of H200 name no width, so that its caches are as wide as its activations.
    return 16 if engine == "sglang" and device.architecture == "hopper" else None


def batched_tokens(row: Row, model: Model, device: Accelerator) -> int | None:
    """Tokens of an iteration of vLLM; None for its default."""
    return 2 * round(row.real.get("isl", 0.0)) if _two_prompts(row, model, device) else None


def least_tokens(row: Row) -> int:
    """Tokens of an iteration of TensorRT-LLM's DeepSeek-R1 at least."""
    return _WIDE if row.get("date") >= _WIDE_SINCE else 0


def _two_prompts(row: Row, model: Model, device: Accelerator) -> bool:
    if "minimax" not in model.name or not device.architecture.startswith("blackwell"):
        return False
    version = re.search(r"(\d+)\.(\d+)", row.get("framework"))
    return version is None or (int(version[1]), int(version[2])) >= _MINIMAX_SINCE


def cold(row: Row) -> bool:
    """Whether a run had no requests ahead of those that were measured."""
    return row.get("date") < WARM_SINCE
