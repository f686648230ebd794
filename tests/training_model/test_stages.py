"""Which layers a virtual stage holds."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from railyard.work.training.stages import layer_counts, rank_stages, virtual_stages


@given(layers=st.integers(1, 200), stages=st.integers(1, 200), prediction=st.integers(0, 2))
def test_every_layer_stands_once_and_stages_are_even(layers, stages, prediction):
    assume(stages <= layers + 2)
    counts = layer_counts(layers, stages, prediction)
    assert len(counts) == stages
    assert sum(counts) == layers
    assert min(counts) >= 0
    middle = counts[1:-1]
    assert not middle or max(counts) - min(middle) <= 1


@pytest.mark.parametrize(
    ("layers", "stages", "prediction", "expected"),
    [
        (96, 96, 0, [1] * 96),  # GPT-3 175B, MLPerf: PP 8, VP 12
        (126, 64, 0, [1, *[2] * 62, 1]),  # Llama 3.1 405B, MLPerf: PP 8, VP 8
        (126, 128, 0, [0, *[1] * 126, 0]),  # Llama 3.1 405B, Megatron-Bridge: PP 16, VP 8
        (126, 16, 0, [7, *[8] * 14, 7]),  # Llama 3 405B, as Meta trained it: PP 16
        (61, 16, 1, [*[4] * 15, 1]),  # DeepSeek-V3, Megatron-Bridge "Et*4|(t*4|)*14tmL"
        (61, 32, 1, [1, *[2] * 30, 0]),  # DeepSeek-V3, Megatron-Bridge "Et|(tt|)*30mL"
        (5, 3, 0, [2, 2, 1]),
    ],
)
def test_published_cuts(layers, stages, prediction, expected):
    assert layer_counts(layers, stages, prediction) == expected


def test_interleaved_ranks_hold_every_pp_th_chunk(job):
    training = job("gpt-3-175b", pp=8, vp=12)
    stages = virtual_stages(training.model, training.layout)
    assert [(v.stage, v.chunk, v.first_layer) for v in stages[8:10]] == [(0, 1, 8), (1, 1, 9)]
    assert stages[0].embedding
    assert stages[-1].head
    assert [rank.layers for rank in rank_stages(training.model, training.layout)] == [12] * 8


def test_dense_layers_in_front_are_on_the_first_stage(job):
    training = job("deepseek-v3", pp=16, ep=8, dp=8)
    stages = virtual_stages(training.model, training.layout)
    assert stages[0].layers - stages[0].moe_layers == training.model.moe_layer_start
    assert all(stage.layers == stage.moe_layers for stage in stages[1:])
