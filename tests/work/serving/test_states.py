"""States of recurrences take memory from the cache, a sequence's from its admission to its end; by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.catalog.hugging_face import hf_config
from railyard.face import api
from railyard.model.machine import Machine
from railyard.work.serving.cost import iteration_cost
from railyard.work.serving.costing import copy_cost
from railyard.work.serving.layout import Deployments, ServingLayout
from railyard.work.serving.memory import cache_tokens, divide, sequences, state_tokens
from railyard.work.serving.reuse import Reuse, reuse
from railyard.work.serving.software import profile

DATA = Path(__file__).parents[2] / "catalog" / "data"
KNOWN = catalog.load()
H100 = KNOWN.accelerator("h100-sxm")


def rows(name, **layout):
    """One replica on H100."""
    model = hf_config.read(DATA / name)
    return Deployments.of((model, ServingLayout(**layout), Machine.of_device(H100, 4e11, domain=8)))


@pytest.mark.parametrize(
    ("name", "layout", "state", "token"),
    [
        # 23 Mamba-2 layers: 64 heads x 64 x 128 in 32 bits, 3 taps x (64 x 64 + 2 x 8 x 128) in 16; 6 of attention with
        # 2 heads of 128.
        ("nemotron-3-nano", {"tp": 1}, 23 * (4 * 64 * 64 * 128 + 2 * 3 * 6144), 6 * 2 * 2 * 128 * 2),
        # Four ranks split the states, but two heads of keys and values only in two.
        ("nemotron-3-nano", {"tp": 4}, 23 * (4 * 64 * 64 * 128 + 2 * 3 * 6144) / 4, 6 * 2 * 2 * 128 * 2 / 2),
        # 54 of 118 layers, 256 heads x 64 x 256; 10 of attention with 8 heads of 128.
        ("nemotron-h-56b", {"tp": 8}, 54 * (4 * 256 * 64 * 256 + 2 * 3 * 20480) / 8, 10 * 2 * 8 * 128 * 2 / 8),
        # A cache in 8 bits holds twice the tokens; the states stay as they are.
        ("nemotron-3-nano", {"kv_bits": 8}, 23 * (4 * 64 * 64 * 128 + 2 * 3 * 6144), 6 * 2 * 2 * 128),
    ],
)
def test_a_state_is_so_many_cached_tokens(name, layout, state, token):
    assert state_tokens(rows(name, **layout))[0] == pytest.approx(state / token, rel=1e-12)


def test_models_without_recurrences_have_none():
    assert state_tokens(rows("qwen3-8b"))[0] == 0.0
    assert divide(1e5, 0.0, np.array([10.0]), context=10.0, most=256) == divide(
        1e5, 0.0, np.array([1e9]), context=1e6, most=256
    )


def test_a_model_of_recurrences_alone_holds_sequences_and_no_tokens(tmp_path):
    """Mamba, 130M: 24 layers, 1,536 channels of 16 states in 32 bits and 3 taps in 16; no token takes anything."""
    found = rows("mamba-130m")
    each = 24 * (4 * 1536 * 16 + 2 * 3 * 1536)
    room = divide(cache_tokens(found)[0], state_tokens(found)[0], np.array([5000.0]), context=4000.0, most=10**9)
    # What is free is counted in bytes then: a token is one byte, as nothing at all has no room to be divided by.
    assert state_tokens(found)[0] == each
    assert room.sequences == int(cache_tokens(found)[0] // (each + 4000))


@pytest.mark.parametrize(
    ("state", "context", "longest", "most", "expected"),
    [
        (700.0, 1300.0, 2100.0, 256, 49),  # 99,999 / 2,000
        (700.0, 1300.0, 2100.0, 37, 37),  # the engine's own limit is lower
        (700.0, 1300.0, 90_000.0, 256, 14),  # the longest must fit beside the states: 9,999 / 700
        (700.0, 1300.0, 99_600.0, 256, 49),  # that one fits not even alone, and is refused later
        (99_000.0, 1300.0, 900.0, 256, 1),
    ],
)
def test_memory_is_divided_at_the_mean(state, context, longest, most, expected):
    room = divide(99_999.0, state, np.array([300.0, longest]), context=context, most=most)
    assert (room.sequences, room.tokens) == (expected, 99_999.0 - expected * state)


@given(
    st.floats(1.0, 1e8),
    st.floats(0.0, 1e6),
    st.floats(1.0, 1e6),
    st.integers(1, 4096),
    st.lists(st.floats(1, 1e7), max_size=5),
)
def test_no_division_takes_more_than_there_is(capacity, state, context, most, lengths):
    room = divide(capacity, state, np.array(lengths), context=context, most=most)
    assert 1 <= room.sequences <= most
    assert room.sequences == 1 or room.tokens + room.sequences * state <= capacity * (1 + 1e-12)
    for length in lengths:
        if length + state <= capacity:
            assert length <= room.tokens * (1 + 1e-9)


def test_concurrency_counts_states():
    found = rows("nemotron-h-56b", tp=8)
    free, state = cache_tokens(found)[0], state_tokens(found)[0]
    assert sequences(found, np.array([1500.0]))[0] == free // (1500 + state)
    assert sequences(found, np.array([1500.0]))[0] < 0.1 * (free // 1500)


def test_copies_in_lockstep_have_a_state_a_sequence_each():
    """A state lies with one copy, whose share of the capacity it is taken from."""
    model, machine = hf_config.read(DATA / "nemotron-3-nano"), Machine.of_device(H100, 4e11, domain=8)
    layout = ServingLayout(tp=1, dp_attention=4, ep=4)
    together = iteration_cost(model, layout, machine, profile("vllm", H100))
    one = copy_cost(model, layout, machine, profile("vllm", H100))
    assert one.state_tokens == together.state_tokens == pytest.approx(23 * 2_134_016 / 6144)
    assert one.kv_capacity_tokens == pytest.approx(together.kv_capacity_tokens / 4)


def scenario(limit):
    """Nemotron 3 Nano on one H100, more requests at once than its states leave room for."""
    asked = {"synthetic": {"arrivals": "fixed", "rate": 2000, "input": 300, "output": 40, "count": 600}}
    serving = {
        "model": str(DATA / "nemotron-3-nano" / "config.json"),
        "requests": asked,
        "pools": {"both": {"replicas": 1, "tp": 1, "max_sequences": limit}},
    }
    return {"name": "x", "cluster": {"accelerators": 8, "server": "hgx-h100"}, "workload": {"serving": serving}}


def test_a_run_admits_as_many_as_states_leave_room_for():
    """Free memory in tokens over 300 + 20 tokens and a state of 7,988.7: 241 sequences, not the 1,024 allowed."""
    free = cache_tokens(rows("nemotron-3-nano"))[0]
    allowed = int(free / (320 + 23 * 2_134_016 / 6144))
    assert 200 < allowed < 300
    few, many = (api.run(scenario(limit), out=None).result.plain() for limit in (allowed, 1024))
    assert few["variants"][0]["digest"] == many["variants"][0]["digest"]
    fewer = api.run(scenario(allowed - 20), out=None).result.plain()
    assert fewer["variants"][0]["digest"] != many["variants"][0]["digest"]
    warned = " ".join(many["variants"][0]["warnings"])
    assert f"{allowed} of the 1024 sequences" in warned
    assert "were estimated" in warned


# Bits of cached elements and ranks that share a sequence: capacity, time, transfer, in closed form.

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


# From which rate on a cached prefix is worth its way: Mooncake's figures, and the model's own.


def of(device: str, tokens: int = 8192, **layout: object) -> Reuse:
    found, model = KNOWN.accelerator(device), KNOWN.model("llama-3-70b")
    spread = ServingLayout(**{"tp": 8, **layout})
    cost = iteration_cost(model, spread, Machine.of_device(found, 200e9), profile("vllm", found))
    return reuse(model, found, spread, cost, tokens)


@pytest.mark.parametrize(("device", "published", "peak"), [("a800-sxm", 6e9, 312e12), ("h800-sxm", 19e9, 989.5e12)])
def test_mooncake_pays_from_6_and_19_gigabytes_a_second(device: str, published: float, peak: float) -> None:
    """Published: Qin et al., FAST'25, section 2.2, eight accelerators at their peak, 8,192 tokens of Llama 3 70B."""
    found = of(device)
    assert found.cache_bytes == 8192 * 327_680
    assert found.peak_bps / 8 == pytest.approx(published, rel=0.1)
    # Their equation 2 with their table 1: 2 d s / (g (a p d + b d^2)) of G = 8 accelerators.
    hidden, groups, a, b = 8192, 8, 4, 22
    theirs = 2 * hidden * 2 / (groups * (a * 8192 * hidden + b * hidden**2)) * 8 * peak
    assert found.peak_bps / 8 == pytest.approx(theirs, rel=0.08)


def test_a_real_engine_computes_slower_so_that_slower_stores_pay() -> None:
    for device in ("a800-sxm", "h800-sxm"):
        found = of(device)
        assert 0.1 * found.peak_bps < found.predicted_bps < found.peak_bps


def test_longer_prefixes_pay_sooner_and_narrow_caches_too() -> None:
    short, long = of("h800-sxm", 1024), of("h800-sxm", 65536)
    assert long.peak_bps < short.peak_bps
    assert of("h800-sxm", kv_bits=8).peak_bps == pytest.approx(of("h800-sxm").peak_bps / 2)
