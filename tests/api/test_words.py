"""Sentences on a result: their thresholds, and the percentages that they name, by hand."""

from __future__ import annotations

from types import SimpleNamespace

from railyard.api import faults, words
from railyard.result.model_error import Difference, Verdict

HEADLINE = "The spine is full."


def variant(name, rate, cost=None, step_s=2.0, *, samples=None, time=None, settings=None, tier="spine", **more):
    """What sentences use of a variant: tokens of a GPU a second, dollars for a million of them, shares of time."""
    parts = [SimpleNamespace(cause=cause, share=share) for cause, share in (time or {"compute": 1.0}).items()]
    return SimpleNamespace(
        name=name,
        utilization=SimpleNamespace(tokens_per_s_per_gpu=rate, gpu=0.4),
        cpmt=None if cost is None else SimpleNamespace(typical=cost, ends=(cost / 2, cost, 2 * cost)),
        step=SimpleNamespace(seconds=step_s, samples=samples or [step_s], without_faults_s=more.get("without_s")),
        time=parts,
        settings=settings or {},
        bottleneck=SimpleNamespace(headline=HEADLINE, name=tier),
        network=SimpleNamespace(tiers=[SimpleNamespace(name="spine")], saturated_tier="leaf"),
        bound=more.get("bound", False),
        outcome=more.get("outcome", "finished"),
        faults=more.get("faults"),
        jct=None,
    )


def result(*variants, ties=(), unlike=(), **more):
    """The cheapest leads; some are tied with it: 1 % apart, with bands of 3 % (model) and 4 % (prices)."""
    priced = all(one.cpmt for one in variants)
    products = [one for one in variants if not one.bound]
    dead = lambda one: sum(fault.lost_s for fault in one.faults or ()) if one.outcome != "finished" else 0.0  # noqa: E731
    ranked = sorted(products, key=lambda one: (dead(one), one.cpmt.typical if priced else one.step.seconds))
    leading, bound = ranked[0], next((one for one in variants if one.bound), None)
    rows = tuple(
        Difference(
            variant=one.name,
            difference=0.01 if one.name in ties else 0.5,
            model_band=0.03,
            price_band=0.04 if priced else 0.0,
            band=0.05 if priced else 0.03,
            shared="computation",
            tied=one.name in ties,
        )
        for one in ranked[1:]
    )
    name = None if unlike or dead(leading) else leading.name
    verdict = Verdict(
        by="cpmt" if priced else "step_s",
        leading=name,
        bound=None if bound is None else bound.name,
        above_bound=None if bound is None else 0.021,
        best=None if ties else name,
        ties=tuple(ties),
        ranking=() if unlike else tuple(one.name for one in ranked),
        unlike=tuple(unlike),
        unexercised=more.get("unexercised", ()),
        differences=rows,
    )
    compared = verdict if len(variants) > 1 else None
    return SimpleNamespace(
        steps=list(variants), variants=list(variants), jobs=[], served=[], operated=[], wide=[], verdict=compared
    )


def why(*variants, ties=()):
    return words.why(result(*variants, ties=ties))


def test_one_variant_has_its_headline_alone():
    assert why(variant("a", 100)) == HEADLINE


def test_variants_that_cannot_be_told_apart_are_tied():
    """3 % of the model and 4 % of prices are 5 % together."""
    assert why(variant("a", 1000, 1.0), variant("b", 1001.9, 1.01), ties=["b"]) == (
        f"Both variants are tied: 1.0 % in dollars a token is inside the error of model and prices (5.0 %). {HEADLINE}"
    )


def test_a_variant_without_a_price_is_not_compared_by_cost():
    assert why(variant("a", 1000, 1.0), variant("b", 1001, None), ties=["b"]) == (
        f"Both variants are tied: 1.0 % in step time is inside the error of the model (3.0 %). {HEADLINE}"
    )


def test_what_sets_two_apart():
    """60 tokens more than 48 are 25 % more; waiting was 0.20 + 0.10 and is 0.05 + 0.02, contention fell most."""
    slow = variant("slow", 48, 2.0, time={"compute": 0.7, "contention": 0.2, "straggler": 0.1})
    fast = variant("fast", 60, 1.6, time={"compute": 0.93, "contention": 0.05, "straggler": 0.02})
    assert why(slow, fast) == (
        "fast gets 25.0 % more tokens out of a GPU than slow: waiting for the network and for stragglers falls from"
        f" 30.0 % to 7.0 % of the step, mostly contention at spine. {HEADLINE}"
    )


def test_of_two_that_are_as_fast_the_price_is_told():
    """$1.50 against $2.00 at the same speed are 25 % less; the dearer of two slow ones is the one compared with."""
    dear, cheap = variant("dear", 60, 2.0), variant("cheap", 60, 1.5)
    assert why(dear, cheap) == f"cheap and dear take the same step; a token costs 25.0 % less on cheap. {HEADLINE}"
    assert why(variant("between", 60, 1.8), dear, cheap).startswith("cheap and dear take the same step")


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
    best, near, dear = variant("best", 101.9, 1.0), variant("near", 100, 1.019), variant("dear", 100, 1.5)
    found = why(variant("slow", 50, 2.0), best, near, dear, ties=["near"])
    assert " near is tied with best: 1.0 % in dollars a token is inside" in found
    assert "dear" not in found
    many = why(variant("slow", 50, 2.0), best, near, dear, ties=["near", "dear"])
    assert " near, dear are tied with best: at most 1.0 % in dollars a token" in many


def test_the_cheapest_is_best_though_another_is_faster():
    """1,200 tokens for 1.50 dollars a million against 1,000 for one: the cheaper is told of."""
    cheap, fast = variant("cheap", 1000, 1.0), variant("fast", 1200, 1.5)
    assert why(cheap, fast) == (f"cheap costs least; none gets more than 20.0 % more tokens out of a GPU. {HEADLINE}")


def test_of_those_tied_the_fastest_is_told_of():
    three = variant("a", 1000, 1.0), variant("b", 1010, 1.015), variant("c", 1100, 1.03)
    assert words.best_variant(result(*three, ties=["b"])).name == "b"
    assert words.best_variant(result(*three)).name == "a"


def test_other_machines_compare_by_dollars_alone():
    machines = {"settings": {"cluster.server": "hgx-b200"}}
    assert why(variant("small", 1000, 0.25, **machines), variant("large", 10, 1.75, **machines)) == (
        f"The variants are different machines: a million tokens costs from $0.250 (small) to $1.75 (large). {HEADLINE}"
    )


def test_other_work_has_no_winner():
    """Nine requests a second and four are different work, however it is written."""
    one, other = variant("a", 1, 0.2, settings={"rate": 4}), variant("b", 1, 0.1, settings={"rate": 9})
    assert words.why(result(one, other, unlike=["rate"])) == (
        "The variants do different work (rate 4 against 9): none of them is the better one."
    )
    nested = variant("c", 1, 0.1, settings={"workload.serving": {"requests": {"rate": 9}}})
    key = "workload.serving.requests.rate"
    assert f"({key} its default against 9)" in words.why(result(one, nested, unlike=[key]))


def fault(what="switch-down: spine 0", lost_s=0.0, outcome="aborted", tiers=((4, 8),)):
    """A fault that hits so many of so many links of each tier."""
    return SimpleNamespace(
        what=what,
        at_s=0.05,
        lost_s=lost_s,
        outcome=outcome,
        parts=[SimpleNamespace(cause="until it is repaired", seconds=0.9 * lost_s)],
        tiers=[SimpleNamespace(links=some, of=of, tier="spine", share=some / of) for some, of in tiers],
    )


def test_who_dies_is_told_first():
    """86,400 s are a day, twice that two."""
    dead = variant("a", 90, 1.2, outcome="died", faults=[fault(lost_s=86_400.0)])
    worse = variant("b", 90, 1.3, outcome="died", faults=[fault(lost_s=172_800.0)])
    alive = variant("c", 60, 1.5, faults=[fault(outcome="rerouted")])
    assert why(dead, worse, alive).startswith(
        "The job dies on a, b (switch-down: spine 0), and loses 1 d to 2 d. c is the only variant that finishes and"
        " can be bought, at $"
    )
    assert why(dead, worse).startswith(
        "The job dies on every variant (switch-down: spine 0), and loses 1 d to 2 d. a loses least of what can be"
        " bought, at $"
    )
    assert why(dead).startswith(
        "The job dies: switch-down: spine 0 at 50 ms ends it, and 1 d are lost, 21.6 h of it until it is repaired."
    )


def test_what_a_slow_link_costs_is_told_first():
    """2.2 s with it and 2 s without are a tenth more; the bound, which does not feel it, is not in the range."""
    slow = [fault("degrade-link: leaf 0 - spine 0 at 25 %", outcome="slowed")]
    one = variant("a", 90, 1.2, 2.2, without_s=2.0, faults=slow)
    assert why(one).startswith(
        "The step takes 2.20 s with degrade-link: leaf 0 - spine 0 at 25 % and 2.00 s without it, 10.0 % longer. "
    )
    other = variant("b", 80, 1.3, 2.5, without_s=2.0, faults=slow)
    ideal = variant("ideal", 99, 1.0, 2.0, without_s=2.0, faults=slow, bound=True)
    assert why(one, other, ideal).startswith(
        "degrade-link: leaf 0 - spine 0 at 25 % makes a step 10.0 % (a) to 25.0 % (b) longer. a gets 12.5 % more"
    )
    same = variant("a", 90, 1.2, 2.0, without_s=2.0, faults=slow)
    assert why(same).startswith("The step takes 2.00 s with and without degrade-link")


def test_links_that_faults_hit_are_printed_and_differences_are_warned_of():
    alike = [variant(name, 1, 1.0, faults=[fault()]) for name in "ab"]
    assert faults.hits(result(*alike)) == [
        "fault: switch-down: spine 0 hits 4 of 8 links of spine (50.0 %) on every variant"
    ]
    apart = [*alike, variant("c", 1, 1.0, faults=[fault(tiers=((4, 16),))])]
    assert faults.hits(result(*apart)) == [
        "fault: switch-down: spine 0 hits 4 of 8 links of spine (50.0 %) on a, b; 4 of 16 links of spine (25.0 %) on c",
        "warning: switch-down: spine 0 is not the same loss on these networks: links and shares differ, see above",
    ]


def test_the_bound_is_told_with_its_distance_and_never_leads():
    """2.1 % is what the verdict says."""
    said = why(variant("a", 1000, 1.2), variant("b", 900, 1.3), variant("ideal", 1021, 1.0, bound=True), ties=["b"])
    assert said == (
        "Both variants that are compared are tied: 1.0 % in dollars a token is inside the error of model and prices"
        f" (5.0 %). The bound, ideal, gets 2.1 % more out of an accelerator than a. {HEADLINE}"
    )


def test_work_without_tokens_is_compared_by_time():
    """1.5 s are a quarter less than 2."""
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.5)) == (
        f"b takes 25.0 % less time than a. {HEADLINE}"
    )
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.9961), ties=["a"]) == (
        f"Both variants are tied: 1.0 % in step time is inside the error of the model (3.0 %). {HEADLINE}"
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


def test_the_cell_adds_up_with_the_utilization():
    """76.9 % of computation, 8.7 % of exposed communication: the bubble of 14.4 % stands there too."""
    shares = {"compute": 0.769, "bandwidth": 0.05, "contention": 0.037, "bubble": 0.14, "straggler": 0.004}
    cell = words.exposed_cell(variant("a", 1, time=shares))
    assert cell == "8.7 % (bandwidth 5.0, contention 3.7); bubble 14.0 %; straggler 0.4 %"
    assert words.exposed_cell(variant("a", 1, time={"compute": 0.9996, "bubble": 0.0004})) == "0.0 %"
