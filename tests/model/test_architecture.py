"""Columns of models against their published configurations, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog
from railyard.model.architecture import ModelColumns

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
