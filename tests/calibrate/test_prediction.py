"""What the training model says of single operators."""

from __future__ import annotations

import pytest

from railyard import catalog
from railyard.ask.calibrate.plan import attention_s

KNOWN = catalog.load()


@pytest.mark.parametrize("model", ["llama-3-8b", "deepseek-v3", "gemma-3-27b"])
@pytest.mark.parametrize("sequence", [3_000, 200_000])
def test_attention_has_the_heads_that_are_asked_for_whatever_the_model(model, sequence):
    """H100, batch of 3, 64 heads of 128: 2 x 3 s x s/2 x 64 x 256 FLOPs and 64 keys of the diagonal more a query.

    Blocks of 128 queries, 132 units; neither latent attention, nor a window, nor the model's longest sequence matters.
    """
    blocks = 3 * 64 * -(-sequence // 128)
    rate = 989e12 * 0.62 * max(blocks / (blocks + 66), blocks / (-(-blocks // 132) * 132)) / (1 + 128 / sequence)
    work_s = 2 * 3 * sequence * sequence / 2 * 64 * 256 / rate
    forward, both = attention_s(KNOWN.accelerator("h100-sxm"), KNOWN.model(model), (3, 64, sequence, 128))
    assert forward == pytest.approx(work_s + 1.6e-6, rel=1e-9)
    assert both == pytest.approx(3.5 * work_s + 4 * 1.6e-6, rel=1e-9)
