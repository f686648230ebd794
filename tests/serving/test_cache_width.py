"""Bits of cached elements and ranks that share a sequence: capacity, time, transfer, in closed form."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.face import api
from railyard.model.machine import Machine
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.layout import ServingLayout
from railyard.work.serving.software import profile

KNOWN = catalog.load()
# Bits of an element with its share of the block's scale.
STORED = {16: 16.0, 8: 8.0, 4: 4.5}
ELEMENTS = 32 * 8 * 128 * 2
"""Llama 3.1 8B: layers, heads of keys and values, their dimension, both."""


def cost(model="llama-3.1-8b", device="h100-sxm", **layout):
    """Of an iteration."""
    found = KNOWN.accelerator(device)
    machine = Machine.of_device(found, 4e11, domain=8)
    return iteration_cost(KNOWN.model(model), ServingLayout(**layout), machine, profile("vllm", found))


@pytest.mark.parametrize("bits", [8, 4])
def test_fewer_bits_hold_more_and_read_less(bits):
    """Capacity goes up, bytes moved and the time to read a cached token go down, all by the stored bits."""
    wide, narrow = cost(kv_bits=16), cost(kv_bits=bits)
    ratio = 16 / STORED[bits]
    assert narrow.kv_bytes_per_token == ELEMENTS * STORED[bits] / 8
    assert narrow.kv_capacity_tokens == pytest.approx(ratio * wide.kv_capacity_tokens)
    assert narrow.attention_per_kv_token_s == pytest.approx(wide.attention_per_kv_token_s / ratio)
    assert narrow.weight_bytes == wide.weight_bytes
    # Prompts compute attention in the width of their activations: as long as before.
    assert narrow.attention_per_pair_s == wide.attention_per_pair_s


@pytest.mark.parametrize("bits", [8, 4])
def test_fewer_bits_are_moved_sooner(bits):
    """Between prefill and decode, alone on the network."""
    asked = {"synthetic": {"arrivals": "fixed", "rate": 0.2, "input": 16000, "output": 2, "count": 4}}
    pools = {"prefill": {"replicas": 1, "tp": 8}, "decode": {"replicas": 1, "tp": 8}}
    moved = []
    for width in (16, bits):
        serving = {"model": "llama-3.1-8b", "requests": asked, "pools": pools, "kv_bits": width}
        scenario = {
            "name": "x",
            "cluster": {"accelerators": 16, "server": "hgx-h100", "back_end": {"link_rate": "25 Gb/s"}},
            "workload": {"serving": serving},
        }
        found = api.run(scenario, out=None).result.plain()["variants"][0]["serving"]
        moved.append(found["ttft_parts"]["mean"]["transfer_s"])
    assert moved[0] / moved[1] == pytest.approx(16 / STORED[bits], rel=0.02)


def test_latent_attention_on_narrow_caches_is_bound_by_its_math():
    """DeepSeek-V3 reads a latent cache once for 128 heads: half of the bytes is not half of the time."""
    layout = {"tp": 1, "dp_attention": 16, "ep": 16, "precision": "fp8"}
    wide, narrow = (cost("deepseek-v3", "h200-sxm", kv_bits=bits, **layout) for bits in (16, 8))
    assert narrow.kv_capacity_tokens == pytest.approx(2 * wide.kv_capacity_tokens)
    assert wide.attention_per_kv_token_s / 2 < narrow.attention_per_kv_token_s < wide.attention_per_kv_token_s


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_share_a_sequence_hold_its_cache_together(ranks):
    """Each has the weights and its part of every sequence."""
    one, several = cost(), cost(cp=ranks)
    # The ranks' communicators take a little of each one's room.
    assert several.kv_capacity_tokens == pytest.approx(ranks * one.kv_capacity_tokens, rel=0.02)
    assert several.weight_bytes == ranks * one.weight_bytes
    assert several.kv_bytes_per_token == one.kv_bytes_per_token


def test_a_long_prompt_fits_where_ranks_share_it():
    """600,000 tokens are refused by one accelerator, not by four that hold them together."""
    asked = {"synthetic": {"arrivals": "fixed", "rate": 0.01, "input": 600000, "output": 2, "count": 2}}
    done = []
    for ranks in (1, 4):
        serving = {"model": "llama-3.1-8b", "requests": asked, "pools": {"both": {"replicas": 1, "cp": ranks}}}
        scenario = {"name": "x", "cluster": {"accelerators": 8, "server": "hgx-h100"}, "workload": {"serving": serving}}
        done.append(api.run(scenario, out=None).result.plain()["variants"][0]["serving"]["requests"])
    assert (done[0]["dropped"], done[1]["done"]) == (2, 2)
