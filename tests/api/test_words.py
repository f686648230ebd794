"""Sentences on a result: their thresholds, and the percentages that they name, by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railyard.api import words

HEADLINE = "The spine is full."


def variant(name, rate, cost=None, step_s=2.0, *, samples=None, time=None, settings=None, tier="spine"):
    """What sentences use of a variant: tokens of a GPU a second, dollars for a million of them, shares of time."""
    parts = [SimpleNamespace(cause=cause, share=share) for cause, share in (time or {"compute": 1.0}).items()]
    return SimpleNamespace(
        name=name,
        utilization=SimpleNamespace(tokens_per_s_per_gpu=rate, gpu=0.4),
        cpmt=None if cost is None else SimpleNamespace(typical=cost),
        step=SimpleNamespace(seconds=step_s, samples=samples or [step_s]),
        time=parts,
        settings=settings or {},
        bottleneck=SimpleNamespace(headline=HEADLINE, name=tier),
        network=SimpleNamespace(tiers=[SimpleNamespace(name="spine")], saturated_tier="leaf"),
    )


def why(*variants):
    return words.why(SimpleNamespace(steps=list(variants), variants=list(variants), jobs=[], served=[]))


def test_one_variant_has_its_headline_alone():
    assert why(variant("a", 100)) == HEADLINE


@pytest.mark.parametrize(
    ("cost", "words_on_costs"),
    [
        (1.0198, ", and cost the same within what prices are known"),  # within 2 %
        (1.0202, "; a costs least"),
    ],
)
def test_variants_that_do_alike_within_two_thousandths(cost, words_on_costs):
    assert why(variant("a", 1000, 1.0), variant("b", 1001.9, cost)) == (
        f"All 2 variants do alike{words_on_costs}. {HEADLINE}"
    )


def test_a_variant_without_a_price_is_not_compared_by_cost():
    assert why(variant("a", 1000, 1.0), variant("b", 1001, None)) == f"All 2 variants do alike. {HEADLINE}"


def test_what_sets_two_apart():
    """60 tokens more than 48 are 25 % more; waiting was 0.20 + 0.10 and is 0.05 + 0.02, contention fell most."""
    slow = variant("slow", 48, 2.0, time={"compute": 0.7, "contention": 0.2, "straggler": 0.1})
    fast = variant("fast", 60, 1.6, time={"compute": 0.93, "contention": 0.05, "straggler": 0.02})
    assert why(slow, fast) == (
        "fast gets 25.0 % more tokens out of a GPU than slow: waiting for the network and for stragglers falls from"
        f" 30.0 % to 7.0 % of the step, mostly contention at spine. {HEADLINE}"
    )


def test_a_tier_that_trying_did_not_find_is_the_fullest_one():
    slow = variant("slow", 48, 2.0, time={"compute": 0.7, "bandwidth": 0.3}, tier="memory")
    assert "mostly bandwidth at leaf." in why(slow, variant("fast", 60, 1.6))


def test_storage_is_named_where_it_counts():
    slow = variant("slow", 48, 2.0, time={"compute": 0.8, "data": 0.2})
    assert "waiting for the network, stragglers and storage falls from 20.0 % to 0.0 %" in why(
        slow, variant("fast", 60, 1.6)
    )


def test_computation_beside_longer_collectives():
    """Of 60 tokens/s against 48, 0.93 / 60 = 15.5 ms of a token against 0.84 / 48 = 17.5: 12.9 % longer."""
    apart = {"settings": {"fabric": "roce"}}
    slow = variant("slow", 48, 2.0, time={"compute": 0.84, "bandwidth": 0.16}, **apart)
    fast = variant("fast", 60, 1.6, time={"compute": 0.93, "bandwidth": 0.07})
    assert "; computation beside its longer collectives takes 12.9 % longer." in why(slow, fast)
    slow.settings = {"cluster.accelerators": 8}
    assert "longer collectives" not in why(slow, fast)


def test_peers_of_the_best():
    """`near` costs 1.9 % more and is 1.9 % slower than `best`: equal to it; `dear` costs 2.1 % more."""
    best, near, dear = variant("best", 101.9, 1.0), variant("near", 100, 1.019), variant("dear", 100, 1.021)
    found = why(variant("slow", 50, 2.0), best, near, dear)
    assert "near: equal to it within what prices are known." in found
    assert "dear" not in found


def test_the_cheapest_is_best_though_another_is_faster():
    """1,200 tokens for 1.50 dollars a million against 1,000 for one: the cheaper is told of."""
    cheap, fast = variant("cheap", 1000, 1.0), variant("fast", 1200, 1.5)
    assert why(cheap, fast) == (f"cheap costs least; none gets more than 20.0 % more tokens out of a GPU. {HEADLINE}")


def test_of_those_equally_dear_the_fastest_is_best():
    result = SimpleNamespace(steps=[variant("a", 1000, 1.0), variant("b", 1010, 1.015), variant("c", 1100, 1.03)])
    assert words.best_variant(result).name == "b"


def test_other_jobs_compare_by_dollars_alone():
    jobs = {"settings": {"workload.training.model": "llama-3-8b"}}
    assert why(variant("small", 1000, 0.25, **jobs), variant("large", 10, 1.75, **jobs)) == (
        "The variants are different jobs or machines: a million tokens costs from $0.250 (small) to $1.75 (large)."
        f" small: {HEADLINE}"
    )


def test_work_without_tokens_is_compared_by_time():
    """1.5 s are a quarter less than 2."""
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.5)) == (
        f"b takes 25.0 % less time than a. {HEADLINE}"
    )
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.9961)) == (
        f"All 2 variants take alike long. {HEADLINE}"
    )


def test_a_step_with_and_without_a_range():
    assert words.step_words(variant("a", 1, step_s=13.4)) == "13.4 s"
    assert words.step_words(variant("a", 1, step_s=13.4, samples=[11.9, 13.4, 15.2])) == "13.4 s (11.9 to 15.2 s)"
    assert words.step_words(variant("a", 1, step_s=1.0, samples=[0.9, 1.2])) == "1.00 s (900 ms to 1.20 s)"


def test_exposed_communication():
    """Causes below half a thousandth are not named, but count."""
    shares = {"bandwidth": 0.091, "latency": 0.0004, "contention": 0.032, "straggler": 0.2}
    assert words.exposed_words(variant("a", 1, time=shares)) == "12.3 % (bandwidth 9.1, contention 3.2)"
    assert words.exposed_words(variant("a", 1)) == "0.0 %"
