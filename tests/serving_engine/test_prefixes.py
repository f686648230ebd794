"""Prefix caching against the rule of Mooncake's authors, on their own trace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, simulate
from railyard.work.serving.traces import read_trace

TRACES = Path(__file__).parents[2] / "examples" / "serving" / "traces"


def leading_hits(requests) -> np.ndarray:
    """Of each request: its first blocks that came before, without a gap. Blocks are never forgotten."""
    seen: set[int] = set()
    found = []
    for i in range(len(requests)):
        chain = requests.blocks_of(i).tolist()
        found.append(next((k for k, one in enumerate(chain) if one not in seen), len(chain)))
        seen.update(chain)
    return np.array(found, np.int64)


@pytest.fixture(scope="module")
def requests():
    return read_trace(TRACES / "synthetic_trace.jsonl")


def test_the_rule_gives_the_published_share(requests):
    """64 % of the synthetic trace's blocks; a prompt's last block counts, even where it is not full."""
    blocks = np.diff(requests.block_ptr)
    assert (blocks == -(-requests.input_tokens // 512)).all()
    assert leading_hits(requests).sum() / blocks.sum() == pytest.approx(0.64, abs=0.005)


@pytest.mark.parametrize("max_batched_tokens", [2048, 16384])
def test_with_room_for_all_the_engine_hits_what_the_rule_says(requests, max_batched_tokens):
    """All but the last block of a prompt that came before as a whole: its last token has to be computed."""
    cost = Cost.constant(1e-4)
    one = Pool("x", cost, kv_blocks=2**31, max_batched_tokens=max_batched_tokens, prefix_cache=True)
    run = simulate(requests, Deployment((one,), stop_on_overload=False))
    assert run.meta["outcome"] == "finished"
    hits, last = leading_hits(requests), (requests.input_tokens - 1) // 512
    assert run.column("cached_tokens").tolist() == (512 * np.minimum(hits, last)).tolist()
    lost = (hits > last).sum() / np.diff(requests.block_ptr).sum()
    assert 0 < lost < 0.002
    blocks = run.column("cached_tokens").sum() / 512 / np.diff(requests.block_ptr).sum()
    assert blocks + lost == pytest.approx(0.64, abs=0.005)


def test_a_smaller_cache_hits_less(requests):
    some = requests.head(1500)
    cost = Cost.constant(1e-4)
    shares = []
    for tokens in (200_000, 2_000_000, 20_000_000):
        one = Pool("x", cost, kv_blocks=tokens // 16, prefix_cache=True)
        run = simulate(some, Deployment((one,), stop_on_overload=False))
        shares.append(run.column("cached_tokens").sum() / some.input_tokens.sum())
    assert shares[0] < shares[1] < shares[2]
