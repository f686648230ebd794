"""Two measurements under one label."""

from types import SimpleNamespace

import pytest

from railyard_validation.serving.noise import label_noise
from railyard_validation.serving.table import Row


def case(milliseconds: float, framework: str = "vllm 0.19") -> SimpleNamespace:
    return SimpleNamespace(row=Row("x", 2, {"framework": framework, "load": "conc 8"}, {"tpot_ms": milliseconds}))


def test_pairs_under_one_label_are_compared_whichever_is_larger() -> None:
    """10, 12 and 15 ms: a fifth, a quarter and a half; another version is another label."""
    noise = label_noise([case(12.0), case(10.0), case(15.0), case(99.0, "vllm 0.20")], "tpot")
    assert noise is not None
    assert noise.pairs == 3
    assert noise.median == pytest.approx(0.25)
    assert noise.p90 == pytest.approx(0.25 + 0.8 * 0.25)


def test_labels_that_stand_once_tell_nothing() -> None:
    assert label_noise([case(12.0)], "tpot") is None
    assert label_noise([case(12.0), case(10.0)], "ttft") is None
