"""Columns of models against their published configurations, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.model.architecture import (
    ModelColumns,
    busiest,
    groups_visited,
    imbalance,
    places_visited,
    tokens_between,
    touched,
)
from railyard.model.machine import DeviceColumns, Machine, MachineColumns, RecordColumns, Slowdowns, table_of
from railyard.work.training.pace import TAIL, Scatter, expected, noise

KNOWN = catalog.load()


class Row:
    def __init__(self, columns):
        self.columns = columns

    def __getitem__(self, name):
        return float(getattr(self.columns, name)[0])


def of(name):
    found = ModelColumns([KNOWN.model(name)])
    return Row(found), found


def test_latent_attention_caches_its_latent_vector():
    """DeepSeek-V3: 512 + 64 elements a token; scores of 128 + 64, values of 128; decoding 512 + 64 and 512."""
    row, found = of("deepseek-v3")
    assert (row["latent"], row["kv_elements"], row["decode_dim"]) == (1, 576, 1088)
    assert (row["score_dim"], row["value_dim"]) == (192, 128)
    assert (row["topk"], row["groups"], row["group_share"]) == (8, 4, 4 / 8)
    # 58 layers of 256 experts of 3 x 7,168 x 2,048.
    assert row["expert_share"] * row["total_parameters"] == pytest.approx(58 * 256 * 3 * 7168 * 2048, rel=1e-12)
    assert float(found.active_parameters[0]) == pytest.approx(KNOWN.model("deepseek-v3").active_parameters(), rel=1e-12)


def test_grouped_attention_caches_keys_and_values_of_its_groups():
    """Llama 3 70B: 8 heads of 128, keys and values; 128,256 words of 8,192 in 16 bits."""
    row, found = of("llama-3-70b")
    assert (row["latent"], row["kv_elements"], row["decode_dim"]) == (0, 2 * 8 * 128, 256)
    assert (row["score_dim"], row["value_dim"], row["q_lora"], row["nope_dim"]) == (128, 128, 0, 0)
    assert (row["expert_parameters"], row["router_parameters"], row["expert_share"]) == (0, 0, 0)
    assert float(found.head_bytes[0]) == 2 * 128256 * 8192
    assert float(found.active_parameters[0]) == row["total_parameters"]
    # A cell is a product of 128 for its score and one of 128 for its value.
    assert float(found.core_flops(np.array([3.0]))[0]) == 3 * 4 * 128


def test_a_window_bounds_the_pairs_of_its_layers():
    """GPT-OSS: every second layer sees 128 keys; of 5 tokens all pairs before them, of 300 the near ones."""
    row, found = of("gpt-oss-20b")
    assert (row["window"], row["windowed"], row["mlp_parameters"]) == (128, 0.5, 0)
    few, many = (float(found.causal_pairs(np.array([count]))[0]) for count in (5.0, 300.0))
    assert few == 12.5
    assert many == 0.5 * (300 * 128 - 128**2 / 2) + 0.5 * 300**2 / 2


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("llama-3-8b", 32),
        ("deepseek-v3", 61),
        ("qwen3.5-397b-a17b", 60),
        ("nemotron-nano-9b-v2", (27 + 4 + 25) / 2),  # each layer is a mixer or an MLP
        ("nemotron-3-nano-30b-a3b", (23 + 6 + 23) / 2),
        ("llama-3.3-nemotron-super-49b", (49 + 80) / 2),  # 31 layers without attention
    ],
)
def test_a_whole_layer_is_a_mixer_and_an_mlp(name, whole):
    assert ModelColumns([KNOWN.model(name)]).whole_layers[0] == pytest.approx(whole)


# Columns of records: order, reading each once, replacing.


@dataclass(frozen=True)
class Item:
    size: float | None
    flag: bool = True
    twice: float = -1.0


def test_each_distinct_record_is_read_once_and_keeps_its_rows():
    read = []

    def derive(item):
        read.append(item)
        return {"twice": 2 * item.size}

    first, second = Item(3.5), Item(7, flag=False)
    found = RecordColumns([first, second, first, Item(3.5)], derive)
    assert found.twice.tolist() == [7.0, 14.0, 7.0, 7.0]  # takes the place of the attribute
    assert found.size.tolist() == [3.5, 7.0, 3.5, 3.5]
    assert found.flag.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert read == [Item(3.5), second, Item(3.5)]


def test_columns_that_no_record_has_are_errors_and_none_is_not_a_number():
    found = RecordColumns([Item(None), Item(2.0)])
    assert np.isnan(found.size[0])
    assert found.size[1] == 2.0
    with pytest.raises(AttributeError, match="sise"):
        _ = found.sise


def test_replaced_columns_leave_the_others_as_they_were():
    found = RecordColumns([Item(1.0), Item(2.0)])
    other = found.replace(size=np.array([5.0, 6.0]))
    assert (found.size.tolist(), other.size.tolist(), other.twice.tolist()) == ([1.0, 2.0], [5.0, 6.0], [-1.0, -1.0])


def test_items_of_one_key_are_worked_out_once():
    worked = []
    table = table_of([5, 12, 15, 2], lambda n: worked.append(n) or (n % 10, n % 10 + 0.5), key=lambda n: n % 10)
    assert table.tolist() == [[5, 5.5], [2, 2.5], [5, 5.5], [2, 2.5]]
    assert worked == [5, 12]


def test_a_class_of_communicators_is_slowed_by_others():
    machine = Machine.of_device(catalog.load().accelerator("h100-sxm"), 400e9)
    slowed = Slowdowns({"dp": np.array([1.5, 1.0])}, {"dp": np.array([4.0, 2.0])}, {"dp": np.array([4.0, 2.0])})
    met = MachineColumns.of([machine] * 2, slowed).seen_by("dp")
    assert met.out_bytes_s == pytest.approx([400e9 / 8 / 4, 400e9 / 8 / 2])
    assert met.up_bytes_s == pytest.approx(machine.scale_up_bps / 8 / np.array([1.5, 1.0]))


# Rates of accelerators by the width of operands, from their entries in the catalogue.


@pytest.mark.parametrize(
    ("name", "gemm8", "best8", "best4"),
    [
        # Floating point of 8 bits at 330.3 TFLOP/s, integers at 660.6.
        ("rtx-4090", 0.85 * 330.3e12, 0.85 * 660.6e12, 0.85 * 660.6e12),
        # No 8-bit floating point: 16 bits at 312 TFLOP/s, integers at 624.
        ("a100-sxm-80gb", 0.87 * 312e12, 0.8 * 624e12, 0.8 * 624e12),
    ],
)
def test_integers_are_the_best_of_8_bits_only_where_they_are_faster(name, gemm8, best8, best4):
    found = DeviceColumns([KNOWN.accelerator(name)])
    assert found.gemm8[0] == pytest.approx(gemm8, rel=1e-12)
    widths = [float(found.best_flops_s(np.array([bits]))[0]) for bits in (16.0, 8.0, 4.0)]
    assert widths == pytest.approx([float(found.gemm16[0]), best8, best4], rel=1e-12)


def test_four_bits_are_the_best_where_there_are_units_for_them():
    device = KNOWN.accelerator("b200-sxm")
    found = DeviceColumns([device])
    four = device.flops["fp4"] * device.gemm_efficiency_8bit
    assert float(found.gemm4[0]) == float(found.best_flops_s(np.array([4.0]))[0]) == four
    assert float(found.hbm_bytes_s[0]) == device.memory_bps / 8 * device.memory_efficiency


# What own runs say of the next one: points by hand, and what must hold of any.

WIDTHS = Scatter(system=0.03, alike=0.04, reach=2.0, run=0.05)


def test_one_run_by_hand():
    # Shared variance 0.0009 + 0.0016 = 0.0025 at its own place; with 0.0075 of its own a quarter is believed.
    at, off, spread = np.zeros((1, 2)), np.array([0.2]), np.array([0.0075])
    mean, variance = expected(at, off, spread, at, WIDTHS)
    assert mean[0] == pytest.approx(0.25 * 0.2)
    assert variance[0] == pytest.approx(0.0025 * 0.75)
    # Two reaches away along each of two traits: distance^2 / (2 reach^2) = 32 / 8 = 4.
    far = np.full((1, 2), 4.0)
    near = 0.0009 + 0.0016 * math.exp(-4.0)
    mean, variance = expected(at, off, spread, far, WIDTHS)
    assert mean[0] == pytest.approx(near / 0.01 * 0.2)
    assert variance[0] == pytest.approx(0.0025 - near**2 / 0.01)


def test_the_noise_of_one_run_by_hand():
    # The likeliest weights solve v = s2 (4 + (left^2 + spread) / s2) / 5 with left and spread under v itself.
    at, off = np.zeros((1, 1)), np.array([0.3])
    (found,) = noise(at, off, np.ones(1), WIDTHS)
    gain = 0.0025 / (0.0025 + found)
    left, open_ = 0.3 * (1.0 - gain), 0.0025 * (1.0 - gain)
    assert found == pytest.approx((TAIL * 0.0025 + left**2 + open_) / (TAIL + 1.0), rel=1e-3)


def test_a_run_far_off_the_others_pulls_little():
    at = np.zeros((5, 1))
    off = np.array([0.0, 0.01, -0.01, 0.0, 1.0])
    mean, _ = expected(at, off, noise(at, off, np.ones(5), WIDTHS), at[:1], WIDTHS)
    assert mean[0] < 0.02  # their mean is 0.2


def test_runs_that_are_all_network_say_little():
    at, off = np.zeros((1, 1)), np.array([0.1])
    spread = noise(at, off, np.array([0.1]), WIDTHS)
    assert spread[0] > 0.2
    assert expected(at, off, spread, at, WIDTHS)[0][0] < 0.002


@given(st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=12), st.floats(0.0, 10.0))
def test_nothing_is_surer_than_before_for_free_and_nothing_less(off, apart):
    at = apart * np.arange(len(off), dtype=np.float64)[:, None]
    spread = noise(at, np.array(off), np.ones(len(off)), WIDTHS)
    mean, variance = expected(at, np.array(off), spread, at, WIDTHS)
    assert np.all((variance > 0.0) & (variance < 0.0025))
    assert np.all(np.abs(mean) <= 0.5)
    assert np.all(spread >= TAIL / (TAIL + 1.0) * 0.05**2 * (1 - 1e-9))


# Where tokens go: bounds, closed forms, random draws.


@given(st.sampled_from([8, 16, 64, 256]), st.sampled_from([1, 2, 4, 8]), st.floats(0.0, 4.0))
def test_load_lies_between_the_mean_and_everything(experts, ranks, skew):
    assert 1.0 <= imbalance(experts, ranks, skew) <= ranks * (1.0 + 1e-12)


def test_one_expert_a_rank_is_the_most_popular_ones_share():
    share = np.arange(1, 9) ** -1.0
    assert imbalance(8, 8, 1.0) == pytest.approx(8 * share[0] / share.sum())


def test_more_experts_a_rank_even_out():
    loads = [imbalance(256, ranks, 0.5) for ranks in (2, 8, 32, 128)]
    assert loads == sorted(loads)
    assert imbalance(256, 64, 0.0) == 1.0


def test_own_favourites_even_out_the_loads_and_leave_each_ranks_tokens_skewed():
    share = np.arange(1, 9) ** -1.15
    share /= share.sum()
    loads = [imbalance(8, 8, 1.15, own) for own in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert loads == sorted(loads, reverse=True)
    table = next(tokens_between(8, 8, 1.15, 1.0))
    assert np.sort(table, axis=1) == pytest.approx(np.tile(np.sort(share), (8, 1)))
    assert next(tokens_between(8, 8, 1.15, 0.0)) == pytest.approx(
        np.tile(next(tokens_between(8, 8, 1.15, 0.0))[0], (8, 1))
    )


def test_experts_touched_are_those_of_even_draws():
    draws = np.random.default_rng(1)
    seen = [len({expert for _ in range(20) for expert in draws.choice(64, 4, replace=False)}) for _ in range(400)]
    assert touched(np.array([64.0]), np.array([4.0]), np.array([20.0]))[0] == pytest.approx(np.mean(seen), rel=0.01)
    assert touched(np.array([64.0]), np.array([4.0]), np.array([1.0]))[0] == pytest.approx(4.0)


def test_the_busiest_rank_finds_as_many_experts_as_draws_do():
    # 128 experts on 8 ranks, 8 tokens of 8 experts each: the mean rank finds 6.4, the busiest of 8 some three more.
    draws, found = np.random.default_rng(2), []
    for _ in range(2000):
        hit = np.zeros(128, bool)
        for _ in range(8):
            hit[draws.choice(128, 8, replace=False)] = True
        found.append(hit.reshape(8, 16).sum(axis=1).max())
    one_row = (np.array([value]) for value in (128.0, 8.0, 8.0, 8.0))
    assert busiest(*one_row)[0] == pytest.approx(np.mean(found), rel=0.05)


def test_tokens_go_to_as_many_groups_as_experts_are_in():
    """8 experts in 8 groups, 2 of them: two; in one group: one; half of 256 drawn by 8: all groups but a few."""
    eight = KNOWN.model("mixtral-8x22b")
    assert groups_visited(eight, 8) == pytest.approx(2.0)
    assert groups_visited(eight, 1) == 1.0
    # Two of eight without repetition in four groups of two: both in one with probability 1/7.
    assert groups_visited(eight, 4) == pytest.approx(2 - 1 / 7)
    assert groups_visited(KNOWN.model("llama-3-70b"), 4) == 1.0


def test_tokens_go_to_places_as_draws_do():
    """Eight experts each anywhere of 5 places: 5 (1 - (4/5)^8) = 4.161; one expert is at one place."""
    assert places_visited(np.array([5.0, 5.0]), np.array([8.0, 1.0])) == pytest.approx([4.16114, 1.0], rel=1e-5)
