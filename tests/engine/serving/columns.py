"""Requests and pools of the tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from railyard.engine.serving import Cost, Pool


@dataclass
class Rows:
    arrival_ps: Any
    input_tokens: Any
    output_tokens: Any
    block_ptr: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    block_hash: Any = field(default_factory=lambda: np.zeros(0, np.uint64))
    block_tokens: int = 0
    session: Any = field(default_factory=lambda: np.zeros(0, np.int64))
    priority: Any = field(default_factory=lambda: np.zeros(0, np.int32))


def rows(arrival_ps, input_tokens, output_tokens, **more) -> Rows:
    return Rows(
        np.asarray(arrival_ps, np.int64),
        np.asarray(input_tokens, np.int32),
        np.asarray(output_tokens, np.int32),
        **more,
    )


def hashed(base: Rows, chains: list[list[int]], block_tokens: int) -> Rows:
    base.block_ptr = np.concatenate(([0], np.cumsum([len(chain) for chain in chains]))).astype(np.int64)
    base.block_hash = np.array([one for chain in chains for one in chain], np.uint64)
    base.block_tokens = block_tokens
    return base


def poisson(count: int, rate_per_s: float, input_tokens: Any = 1, output_tokens: Any = 1, seed: int = 1) -> Rows:
    gaps = np.random.Generator(np.random.Philox(seed)).exponential(1e12 / rate_per_s, count)
    full = np.full(count, 1)
    return rows(np.cumsum(gaps).astype(np.int64), full * input_tokens, full * output_tokens)


LINEAR = Cost(
    tokens=np.array([0, 64, 512]),
    compute_s=np.array([1e-3, 2e-3, 9.1e-3]),
    network_s=np.array([1e-5, 3e-5, 1.7e-4]),
    host_s=2.5e-4,
    host_per_seq_s=1.3e-6,
    attention_per_kv_token_s=3.7e-8,
    attention_per_sequence_s=1.1e-6,
    attention_floor_s=4e-5,
    attention_per_pair_s=6.1e-10,
)


def pool(**changed: Any) -> Pool:
    given: dict[str, Any] = {
        "name": "test",
        "cost": LINEAR,
        "kv_blocks": 80,
        "max_sequences": 8,
        "max_batched_tokens": 512,
        "kv_bytes_per_token": 1000.0,
    }
    return Pool(**(given | changed))
