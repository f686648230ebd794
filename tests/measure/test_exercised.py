"""What a comparison varies and does not show: keys that move nothing, spines that nothing crosses."""

from __future__ import annotations

import pytest

from railyard.measure.result.network import NetworkFigures
from railyard.measure.result.step import StepFigures
from railyard.measure.result.variants import TrainingVariant
from railyard.measure.verdict import unexercised


def variant(step_s, *, crosses=True, crosses_from=None, **settings):
    return TrainingVariant.model_construct(
        settings={key.replace("__", "."): value for key, value in settings.items()},
        step=StepFigures.model_construct(seconds=step_s, samples=(step_s,)),
        network=NetworkFigures.model_construct(crosses=crosses, crosses_from=crosses_from),
    )


def found(*variants):
    return [(one.key, one.crossing, one.from_servers, one.to_servers) for one in unexercised(variants)]


def test_a_spine_that_nothing_crosses_is_told_with_the_servers_that_would():
    """65 servers at 1:1, 103 at 4:1, whatever the steps are."""
    inside = {"crosses": False}
    pair = [variant(1.0, **inside, crosses_from=65, oversubscription=1), variant(1.1, **inside, crosses_from=103)]
    assert found(*pair) == [("oversubscription", True, 65, 103)]
    never = [variant(1.0, **inside, cluster__back_end__fabric__name=name) for name in ("roce", "uec")]
    assert found(*never) == [("cluster.back_end.fabric.name", True, None, None)]


def test_a_key_that_moves_no_figure_is_told():
    """Steps that differ by ten millionths are not the same; only pairs that differ in the key alone count."""
    assert found(variant(1.0, placement="packed"), variant(1.0, placement="scattered")) == [
        ("placement", False, None, None)
    ]
    assert found(variant(1.0, placement="packed"), variant(1.00001, placement="scattered")) == []
    four = [
        variant(1.0, placement="packed", fabric="roce"),
        variant(1.2, placement="packed", fabric="uec"),
        variant(1.0, placement="scattered", fabric="roce"),
        variant(1.2, placement="scattered", fabric="uec"),
    ]
    assert found(*four) == [("placement", False, None, None)]
    assert (
        found(variant(1.0, placement="packed", fabric="roce"), variant(1.0, placement="scattered", fabric="uec")) == []
    )


@pytest.mark.parametrize("key", ["economics__electricity", "pue", "faults", "recovery__spares"])
def test_prices_and_faults_are_not_meant_to_move_a_step(key):
    assert found(variant(1.0, **{key: 1}), variant(1.0, **{key: 2})) == []
