"""Which variant of a serving study is called the best."""

from __future__ import annotations

from railyard.api.served import best_variant, why


def variant(name, attainment, usd):
    """A variant as far as the choice looks at it: the share in time of 90 % asked for, dollars a million tokens."""
    band = {"low": usd / 2, "typical": usd, "high": 2 * usd}
    slo = {"attainment": attainment, "target": 0.9, "goodput_rps": attainment}
    return {"name": name, "serving": {"slo": slo, "cpmt": {"total": band}, "ttft_parts": {}}}


def test_late_answers_are_no_bargain():
    """A variant that misses the objective is not the best, however cheap."""
    result = {"variants": [variant("cheap", 0.86, 3.0), variant("dear", 0.95, 3.2), variant("dearer", 1.0, 4.0)]}
    assert best_variant(result)["name"] == "dear"
    assert why(result).startswith("dear comes out best of the 2 of 3 variants with 90 % of the requests in time")


def test_where_all_are_late_that_is_said():
    """The cheapest is named, and that it does not do what was asked."""
    result = {"variants": [variant("a", 0.5, 3.0), variant("b", 0.6, 2.0)]}
    assert best_variant(result)["name"] == "b"
    assert "though no variant has 90 % of the requests in time" in why(result)
