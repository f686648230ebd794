"""Passes of a layer, put together by hand."""

import numpy as np
import pytest

from railyard.work.training.columns import Columns
from railyard.work.training.passes import layer_passes


@pytest.mark.parametrize(("model", "ffn"), [("deepseek-v3", "experts"), ("llama-3-8b", "mlp")])
def test_a_layer_that_predicts_ahead_is_one_more_layer_with_its_own_head(h100, job, model, ffn):
    """It has the FFN that the last layer has, and joins two vectors of h by a matrix of 2 h x h: 4 T h^2 FLOPs."""
    training = job(model, seq_len=3000, micro_batch=3, model_changes={"mtp_layers": 2})
    passes = layer_passes(Columns.of([training], [h100]))
    parts = passes.attention + getattr(passes, ffn) + passes.head
    joint = (passes.prediction.times(0.5) + parts.times(-1.0)).flops
    assert joint == pytest.approx(4 * 9000 * training.model.hidden**2, rel=1e-9)


def test_a_stage_is_the_sum_of_what_it_holds(h100, job):
    """7 layers of which 4 with experts, the embedding and half a head with what goes with it."""
    passes = layer_passes(Columns.of([job("deepseek-v3", seq_len=3000)], [h100]))
    found = passes.stage(7.0, 4.0, 1.0, 0.5)
    ends = passes.embedding.forward + 0.5 * (passes.head.forward + passes.prediction.forward)
    layers = 7 * passes.attention.forward + 3 * passes.mlp.forward + 4 * passes.experts.forward
    assert np.allclose(found.forward, layers + ends, rtol=1e-12)
