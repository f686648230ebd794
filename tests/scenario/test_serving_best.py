"""Which variant of a serving study is called the best."""

from __future__ import annotations

from railyard.api.served import best_variant, why
from railyard.result.money import ServingCostFigures
from railyard.result.result import Result
from railyard.result.section import Band
from railyard.result.serving import ModelServing, ObjectiveFigures
from railyard.result.variants.serving import ServingVariant


def variant(name, attainment, usd):
    """A variant as far as the choice looks at it: the share in time of 90 % asked for, dollars a million tokens."""
    cost = ServingCostFigures.model_construct(total=Band(low=usd / 2, typical=usd, high=2 * usd))
    slo = ObjectiveFigures.model_construct(attainment=attainment, target=0.9, goodput_rps=attainment)
    serving = ModelServing.model_construct(slo=slo, cpmt=cost, ttft_parts={})
    return ServingVariant.model_construct(name=name, serving=serving)


def of(*variants):
    return Result.model_construct(variants=variants)


def test_late_answers_are_no_bargain():
    """A variant that misses the objective is not the best, however cheap."""
    result = of(variant("cheap", 0.86, 3.0), variant("dear", 0.95, 3.2), variant("dearer", 1.0, 4.0))
    assert best_variant(result).name == "dear"
    assert why(result).startswith("dear comes out best of the 2 of 3 variants with 90 % of the requests in time")


def test_where_all_are_late_that_is_said():
    """The cheapest is named, and that it does not do what was asked."""
    result = of(variant("a", 0.5, 3.0), variant("b", 0.6, 2.0))
    assert best_variant(result).name == "b"
    assert "though no variant has 90 % of the requests in time" in why(result)
