"""Which variant of a serving study is called the best."""

from __future__ import annotations

from railyard.measure.model_error import ModelError
from railyard.measure.result.money import ServingCostFigures
from railyard.measure.result.reading import Result
from railyard.measure.result.section import Band
from railyard.measure.result.serving import ModelServing, ObjectiveFigures, RequestsFigures
from railyard.measure.result.step import ServingTax, ServingTaxShares
from railyard.measure.result.variants import ServingVariant
from railyard.measure.verdict import verdict_of
from railyard.work.serving.present import best_variant, why

NONE = ServingTaxShares(goodput_lost=0.0, ttft={}, tpot={})
TAX = ServingTax(goodput_lost=0.125, ttft={}, tpot={}, scale_up=NONE)


def variant(name, attainment, usd):
    """A variant as far as the choice looks at it: the share in time of 90 % asked for, dollars a million tokens."""
    cost = ServingCostFigures.model_construct(total=Band(low=usd / 2, typical=usd, high=2 * usd))
    slo = ObjectiveFigures.model_construct(attainment=attainment, target=0.9, goodput_rps=attainment)
    requests = RequestsFigures.model_construct(count=1000)
    serving = ModelServing.model_construct(slo=slo, cpmt=cost, ttft_parts={}, requests=requests)
    error = ModelError("throughput", "dense", -0.1, 0.1, 0.05, 0.15, -0.05, 0.05, 50, 5, "source")
    rows = (error.row("cpmt", usd, inverse=True),)
    return ServingVariant.model_construct(
        name=name, settings={}, bound=False, serving=serving, tax=TAX, model_error=rows
    )


def of(*variants):
    return Result.model_construct(variants=variants, verdict=verdict_of(variants))


def test_late_answers_are_no_bargain():
    """A variant that misses the objective is not the best, however cheap."""
    result = of(variant("cheap", 0.86, 3.0), variant("dear", 0.95, 3.2), variant("dearer", 1.0, 4.0))
    assert best_variant(result).name == "dear"
    tax, choice = why(result).splitlines()[:2]
    assert tax.startswith("The scale-out network takes 12.5 % of the goodput of dear")
    assert choice.startswith("dear comes out best of the 2 of 3 variants with at least 90 % of the requests in time")


def test_what_cannot_be_told_apart_is_not_called_best():
    """3.7 is 15.6 % more than 3.2; ln 1.15 of the model and 0.02 of prices are 0.1412 together, 15.2 %: apart.

    3.6 is 12.5 % more.
    """
    assert "comes out best" in why(of(variant("a", 0.95, 3.2), variant("b", 1.0, 3.7)))
    result = of(variant("a", 0.95, 3.2), variant("b", 1.0, 3.6))
    assert (
        why(result)
        .splitlines()[1]
        .startswith("a leads, tied with others, of the 2 of 2 variants with at least 90 % of the requests in time")
    )
    tied = "Both variants are tied: they differ by 12.5 % in dollars a token, within the error of model and prices"
    assert f"{tied} (15.2 %)" in why(result)


def test_where_all_are_late_that_is_said():
    """The cheapest is named, and that it does not do what was asked."""
    result = of(variant("a", 0.5, 3.0), variant("b", 0.6, 2.0))
    assert best_variant(result).name == "b"
    assert "though no variant has at least 90 % of the requests in time" in why(result)
