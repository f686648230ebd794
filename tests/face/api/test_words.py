"""Sentences on a result: their thresholds, and the percentages that they name, by hand."""

from __future__ import annotations

import html
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.face.report.browser import CHROMIUM, browse
from tests.face.report.test_answers import SUSPECT, diagnosis, embedded, named

from railyard.face import api
from railyard.face.reports import keep_answer
from railyard.kit.errors import InputError
from railyard.measure.result.money import Difference, Unexercised, Verdict
from railyard.measure.result.network import FaultCost
from railyard.measure.result.step import EXPOSED, LayoutFigures, TaxFigures, TaxShares
from railyard.measure.result.variants import TrainingVariant
from railyard.work.study import believed
from railyard.work.study import result_words as faults
from railyard.work.study.memo import warnings
from railyard.work.training import conclusion
from railyard.work.training import present as words

if TYPE_CHECKING:
    from pathlib import Path

HEADLINE = "The spine is full."


LEAD = "The scale-out network costs 0.0 % of the {} of {}; scale-up networks cost 0.0 %."


def taxed(lost=None, inside=None, rest=None):
    """A tax whose parts are given by cause; the rest is computation unless it is given."""
    lost, inside = lost or {}, inside or {}
    rest = rest or {"compute": 1 - sum(lost.values()) - sum(inside.values())}
    return TaxFigures(
        **shares(lost), scale_up=shares(inside), rest=rest, step_without_scale_out_s=1.0, step_without_networks_s=1.0,
        engine="flow",
    )  # fmt: skip


def shares(lost):
    exposed = {cause: lost.get(cause, 0.0) for cause in EXPOSED}
    return {"tokens_lost": sum(lost.values()), "exposed": exposed, "slowed_kernels": lost.get("slowed", 0.0)}


def variant(name, rate, cost=None, step_s=2.0, *, samples=None, tax=None, settings=None, tier="spine", **more):
    """What sentences use of a variant: tokens of a GPU a second, dollars for a million of them, its tax."""
    cpmt = None if cost is None else SimpleNamespace(typical=cost, ends=(cost / 2, cost, 2 * cost))
    return SimpleNamespace(
        name=name,
        utilization=SimpleNamespace(tokens_per_s_per_gpu=rate, gpu=0.4, mfu=0.3),
        tax=tax or taxed(),
        cpmt=cpmt,
        paid=(cpmt, "a million tokens"),
        step=SimpleNamespace(seconds=step_s, samples=samples or [step_s]),
        settings=settings or {},
        model_error=(),
        bottleneck=SimpleNamespace(headline=HEADLINE, name=tier),
        network=SimpleNamespace(tiers=[SimpleNamespace(name="spine")], saturated_tier="leaf"),
        bound=more.get("bound", False),
        outcome=more.get("outcome", "finished"),
        faults=more.get("faults"),
        fault_cost=fault_cost(more["faults"], step_s, more.get("without_s", step_s)) if "faults" in more else None,
        jct=None,
    )


def fault_cost(listed, step_s, without_s):
    """What faults cost: a million tokens 0.1 dollars more, the job a thousand times that."""
    return FaultCost(
        what=" and ".join(one.what for one in listed), step_s=step_s - without_s, tokens_lost=1 - without_s / step_s,
        job_s=None, cpmt_usd=0.1, job_usd=100.0,
    )  # fmt: skip


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
    return SimpleNamespace(of=lambda _kind: list(variants), variants=list(variants), verdict=compared)


def why(*variants, ties=()):
    return words.PRESENTATION.conclusion(result(*variants, ties=ties))


def test_a_step_and_its_price_lead():
    """4 % of contention, 3 % of slowed kernels and 0.04 % of latency are 7.0 %; what is below 0.05 % is not named."""
    tax = taxed({"contention": 0.04, "slowed": 0.03, "latency": 0.0004}, {"bandwidth": 0.02})
    assert why(variant("a", 100, 1.5, tax=tax)) == (
        "A step takes 2.00 s: 100 tokens/s per GPU, $1.50 per million tokens (0.750 to 3.00)."
        " The scale-out network costs 7.0 % (contention 4.0, slowed kernels 3.0) of the tokens; scale-up networks cost"
        f" 2.0 % (bandwidth 2.0). {HEADLINE}"
    )


def test_variants_whose_difference_is_smaller_than_the_error_are_equal():
    """3 % of the model and 4 % of prices are 5 % together."""
    assert why(variant("a", 1000, 1.0), variant("b", 1001.9, 1.01), ties=["b"]) == (
        "a and b are equal within error at $1.00 per million tokens (0.500 to 2.00)."
        f" {LEAD.format('tokens', 'a')} The equal variants differ by 1.0 % in dollars per token; their tie threshold is"
        f" 5.0 % (model error 3.0 %, price error 4.1 %). {HEADLINE}"
    )


def test_one_choice_under_several_names_counts_once():
    """Of four tied, b is a and d is c: two choices; of two tied that are one, nothing is a tie."""
    rows = [variant(name, 1000, 1.0) for name in "abcd"]
    found = result(*rows, ties=["b", "c", "d"])
    found.verdict = found.verdict.model_copy(update={"same": (("a", "b"), ("c", "d"))})
    said = words.PRESENTATION.conclusion(found)
    assert said.startswith("a and c are equal within error at $1.00")
    assert "a and b have the same speed and cost, and count as one. c and d have" in said
    found = result(*rows[:2], ties=["b"])
    found.verdict = found.verdict.model_copy(update={"same": (("a", "b"),)})
    said = words.PRESENTATION.conclusion(found)
    assert said.startswith("a and b give the same answer: $1.00 per million tokens (0.500 to 2.00).")
    assert "tie threshold" not in said


def test_details_print_the_parts_of_a_tie_threshold():
    (sheet,) = believed.differences(result(variant("a", 1000, 1.0), variant("b", 1001.9, 1.01), ties=["b"]))
    assert sheet.title.startswith("Variants are equal within error where they differ by less than their tie threshold")
    assert sheet.rows == [["b", "+1.0 %", "5.0 %", "3.0 %", "4.1 %", "0.0 %", "computation", "equal within error"]]


def test_clusters_of_two_sizes_are_compared_by_their_steps():
    """3.9 s on 256 against 2 s on 512; dollars are within error of one another."""
    small = variant("accelerators 256", 1000, 1.0, 3.9, settings={"accelerators": 256})
    large = variant("accelerators 512", 975, 1.01, 2.0, settings={"accelerators": 512})
    assert words.verdict(result(large, small, ties=["accelerators 512"])) == (
        '"accelerators 512" is 1.95 times as fast as "accelerators 256", 2.00 s against 3.90 s a step, at $1.01 per'
        " million tokens (0.505 to 2.02) against $1.00 per million tokens (0.500 to 2.00)."
    )


def test_names_with_commas_are_quoted_in_notes():
    """What all are warned of names nobody."""
    lines = {"roce, 1:1": ("hot", "wide"), "uec, 1:1": ("hot", "wide"), "roce": ("wide",)}
    found = SimpleNamespace(variants=[SimpleNamespace(name=name, warnings=lines[name]) for name in lines])
    assert warnings(found) == ['note: with "roce, 1:1" and "uec, 1:1": hot', "note: wide"]


def test_variants_that_differ_by_less_than_a_large_error_are_not_called_equal():
    """A threshold of 75 % hides $1.00 against $1.36; four long names are counted."""
    found = result(variant("a", 1000, 1.0), variant("b", 1000, 1.36), variant("dear", 500, 3.0), ties=["b"])
    rows = tuple(row.model_copy(update={"band": 0.75} if row.tied else {}) for row in found.verdict.differences)
    found.verdict = found.verdict.model_copy(update={"differences": rows})
    assert words.verdict(found).startswith(
        "a and b cannot be distinguished: $1.00 to $1.36 per million tokens; the price error is larger than the"
        " difference; dear costs "
    )
    wide = tuple(row.model_copy(update={"model_band": 0.5}) for row in rows)
    found.verdict = found.verdict.model_copy(update={"differences": wide})
    assert "; the model's error is larger than the difference" in words.verdict(found)
    assert " a and b differ by 1.0 % in dollars per token; their tie threshold is 75.0 %" in " ".join(
        words.PRESENTATION.why(found)
    )
    found.verdict = found.verdict.model_copy(
        update={"unexercised": (Unexercised(key="qps", crossing=False, from_servers=None, to_servers=None),)}
    )
    assert "qps does not change the speed of this job." in words.PRESENTATION.why(found)
    names = [f"uec, oversubscription {number}:1" for number in range(1, 5)]
    four = result(*(variant(name, 1000, 1 + 0.001 * at) for at, name in enumerate(names)), ties=names[1:])
    assert words.verdict(four) == (
        'Four variants are equal within error at $1.00 per million tokens (0.500 to 2.00), cheapest "uec,'
        ' oversubscription 1:1".'
    )


def test_taxes_of_different_layouts_are_not_compared():
    """`auto` took TP 2 on one network and TP 1 on the other: 10 % against 20 % says nothing about the networks."""
    layouts = [{"tp": 2, "pp": 1, "micro_batch": 2}, {"tp": 1, "pp": 1, "micro_batch": 1}]
    bound = dict.fromkeys(TrainingVariant.model_fields)
    pair = [
        TrainingVariant.model_construct(**bound | vars(variant(name, 10, cost, tax=taxed({"bandwidth": lost}))))
        for name, cost, lost in (("a", 1.0, 0.1), ("b, 2:1", 1.5, 0.2))
    ]
    for one, keys in zip(pair, layouts, strict=True):
        found = LayoutFigures(words=str(keys), parallelism=keys)
        vars(one).update(layout=found, layouts=[SimpleNamespace(layout=found, step_seconds=1.0)])
    said = why(*pair)
    assert "costs 10.0 % (bandwidth 10.0) of the tokens of a;" in said
    assert (
        'a runs TP 2, "b, 2:1" TP 1: compare their steps and dollars. Network taxes compare on one layout only.' in said
    )
    assert "20.0 %" not in said
    vars(pair[1]).update(layout=pair[0].layout)
    assert "20.0 %" in why(*pair)


def test_a_variant_without_a_price_is_not_compared_by_cost():
    assert why(variant("a", 1000, 1.0), variant("b", 1001, None), ties=["b"]) == (
        f"a and b are equal within error at 2.00 s a step. {LEAD.format('tokens', 'a')} The equal variants differ by"
        f" 1.0 % in step time; their tie threshold is 3.0 % (model error 3.0 %). {HEADLINE}"
    )


def test_the_cause_of_a_difference():
    """60 tokens more than 48 are 25 % more; the tier is named where the other waits for bandwidth or contention."""
    slow = variant("slow", 48, 2.0, tax=taxed({"contention": 0.2, "slowed": 0.02}, {"bandwidth": 0.04}))
    fast = variant("fast", 60, 1.6, tax=taxed({"contention": 0.025}, {"bandwidth": 0.05}))
    assert why(slow, fast) == (
        "fast costs least: $1.60 per million tokens (0.800 to 3.20); slow costs 50.0 % more. The scale-out network"
        " costs fast 2.5 % (contention 2.5) of its tokens and slow 22.0 % (contention at spine 20.0, slowed kernels"
        " 2.0); scale-up networks cost 5.0 % and 4.0 %. fast gets 25.0 % more tokens out of a GPU"
        f" than slow. {HEADLINE}"
    )


def test_names_of_several_words_are_quoted():
    said = why(variant("uec, 2:1", 48, 2.0), variant("fast", 60, 1.6), variant("odd name", 50, 1.9))
    assert said.startswith("fast costs least: $1.60 per million tokens (0.800 to 3.20); the others cost 50.0 % more.")
    assert said.endswith(f'fast gets 25.0 % more tokens out of a GPU than "uec, 2:1". {HEADLINE}')


def test_of_two_that_are_as_fast_the_price_is_given():
    """$1.50 against $2.00 at the same speed; the more expensive of two slow ones is the one compared with."""
    dear, cheap = variant("dear", 60, 2.0), variant("cheap", 60, 1.5)
    same = "cheap costs least: $1.50 per million tokens (0.750 to 3.00); "
    said = why(dear, cheap)
    assert said.startswith(f"{same}dear costs 50.0 % more.")
    assert said.endswith(f"cheap and dear take the same step. {HEADLINE}")
    assert why(variant("between", 60, 1.8), dear, cheap).startswith(f"{same}the others cost 50.0 % more.")


def test_a_tier_that_trying_did_not_find_is_the_fullest_one():
    slow = variant("slow", 48, 2.0, tax=taxed({"contention": 0.2, "bandwidth": 0.1}), tier="memory")
    assert "slow 30.0 % (contention at leaf 20.0, bandwidth 10.0)" in why(slow, variant("fast", 60, 1.6))


def test_bandwidth_is_at_the_tier_that_trying_found():
    slow = variant("slow", 48, 2.0, tax=taxed({"bandwidth": 0.3}), tier="leaf")
    assert "slow 30.0 % (bandwidth at leaf 30.0)" in why(slow, variant("fast", 60, 1.6))


def test_the_tax_of_the_scale_out_network_is_never_said_to_be_at_scale_up():
    slow = variant("slow", 48, 2.0, tax=taxed({"contention": 0.3}), tier="scale-up")
    slow.network.tiers.append(SimpleNamespace(name="scale-up"))
    fast = variant("fast", 60, 1.6)
    assert "slow 30.0 % (contention at leaf 30.0)" in why(slow, fast)
    slow.network.saturated_tier = "scale-up"
    assert "slow 30.0 % (contention 30.0)" in why(slow, fast)


def test_variants_equal_to_the_best():
    best, near, dear = variant("best", 101.9, 1.0), variant("near", 100, 1.019), variant("dear", 100, 1.5)
    found = why(variant("slow", 50, 2.0), best, near, dear, ties=["near"])
    assert found.startswith(
        "best and near are equal within error at $1.00 per million tokens (0.500 to 2.00); the others"
    )
    assert "The equal variants differ by 1.0 % in dollars per token" in found
    many = why(variant("slow", 50, 2.0), best, near, dear, ties=["near", "dear"])
    assert many.startswith("best, near and dear are equal within error at $1.00")
    assert "; slow costs 50.0 % more." in many
    assert "The equal variants differ by at most 1.0 % in dollars per token" in many


def test_the_cheapest_is_best_though_another_is_faster():
    """1,200 tokens for 1.50 dollars a million against 1,000 for one: the cheaper leads."""
    cheap, fast = variant("cheap", 1000, 1.0), variant("fast", 1200, 1.5)
    assert why(cheap, fast) == (
        "cheap costs least: $1.00 per million tokens (0.500 to 2.00); fast costs 50.0 % more."
        f" {LEAD.format('tokens', 'cheap')} None gets more than 20.0 % more tokens out of a GPU than cheap."
        f" {HEADLINE}"
    )


def test_the_leading_variant_is_described_though_a_tied_one_is_faster():
    three = variant("a", 1000, 1.0), variant("b", 1010, 1.015), variant("c", 1100, 1.03)
    assert words.best_variant(result(*three, ties=["b"])).name == "a"
    assert words.best_variant(result(*three)).name == "a"


def test_other_machines_compare_by_dollars_alone():
    machines = {"settings": {"cluster.server": "hgx-b200"}}
    assert why(variant("small", 1000, 0.25, **machines), variant("large", 10, 1.75, **machines)) == (
        "small costs least: $0.250 per million tokens (0.125 to 0.500); large costs 50.0 % more."
        f" {LEAD.format('tokens', 'small')} The variants are different machines: compare dollars, not tokens per GPU."
        f" {HEADLINE}"
    )


def test_other_work_has_no_winner():
    """Nine requests a second and four are different work, however it is written."""
    one, other = variant("a", 1, 0.2, settings={"rate": 4}), variant("b", 1, 0.1, settings={"rate": 9})
    conclusion = words.PRESENTATION.conclusion
    assert conclusion(result(one, other, unlike=["rate"])) == (
        "The variants do different work (rate 4 and 9), so none is better."
    )
    nested = variant("c", 1, 0.1, settings={"workload.serving": {"requests": {"rate": 9}}})
    key = "workload.serving.requests.rate"
    assert f"({key} its default and 9)" in conclusion(result(one, nested, unlike=[key]))


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


def test_who_dies_is_said_first():
    """86,400 s are a day, twice that two."""
    dead = variant("a", 90, 1.2, outcome="died", faults=[fault(lost_s=86_400.0)])
    worse = variant("b", 90, 1.3, outcome="died", faults=[fault(lost_s=172_800.0)])
    alive = variant("c", 60, 1.5, faults=[fault(outcome="rerouted")])
    assert why(dead, worse, alive).startswith(
        "The job dies on a, b (switch-down: spine 0), and loses 1 d to 2 d. c is the only variant that finishes and can"
        " be bought: $1.50 per million tokens (0.750 to 3.00). The scale-out network costs 0.0 % of the tokens of c;"
    )
    assert why(dead, worse).startswith(
        "The job dies on every variant: a, b (switch-down: spine 0), and loses 1 d to 2 d."
        f" a loses least of what can be bought: $1.20 per million tokens (0.600 to 2.40). {LEAD.format('tokens', 'a')}"
    )
    equal = variant("b", 90, 1.21, outcome="died", faults=[fault(lost_s=86_400.0)])
    assert "All that can be bought cost the same within error: $1.20 per million tokens" in why(dead, equal, ties=["b"])
    crossbar = variant("ideal", 99, 1.0, bound=True, faults=[fault(outcome="unnoticed")])
    assert why(dead, worse, crossbar).startswith("The job dies on every variant that can be bought: a, b (switch-down")
    assert why(dead).startswith(
        "The job dies: switch-down: spine 0 at 50 ms ends it, and 1 d are lost, 21.6 h of it until it is repaired."
    )


def test_variants_that_died_are_not_said_to_cost_more():
    """Of two that finish, b costs half as much again; a died, and is cheaper than both."""
    dead = variant("a", 90, 0.5, outcome="died", faults=[fault(lost_s=86_400.0)])
    alive = variant("c", 60, 1.0, faults=[fault(outcome="rerouted")])
    dear = variant("b", 60, 1.5, faults=[fault(outcome="rerouted")])
    said = why(dead, alive, dear)
    assert "c costs least: $1.00 per million tokens (0.500 to 2.00); b costs 50.0 % more." in said


def test_the_cost_of_a_slow_link_is_said_first():
    """2.2 s with it and 2 s without are a tenth more; the bound, which does not feel it, is not in the range."""
    slow = [fault("degrade-link: leaf 0 - spine 0 at 25 %", outcome="slowed")]
    one = variant("a", 90, 1.2, 2.2, without_s=2.0, faults=slow)
    assert why(one).startswith(
        "The step takes 2.20 s with degrade-link: leaf 0 - spine 0 at 25 % and 2.00 s without it, 10.0 % longer:"
        " 9.1 % of the tokens are lost to it. A million tokens costs $0.100 more because of it, the job $100. "
    )
    assert faults.cell(one) == "9.1 % of tokens, step +200 ms, +$0.100/Mtoken"
    other = variant("b", 80, 1.3, 2.5, without_s=2.0, faults=slow)
    ideal = variant("ideal", 99, 1.0, 2.0, without_s=2.0, faults=slow, bound=True)
    assert why(one, other, ideal).startswith(
        "a costs least: $1.20 per million tokens (0.600 to 2.40); b costs 50.0 % more."
        " degrade-link: leaf 0 - spine 0 at 25 % makes a step 10.0 % (a) to 25.0 % (b) longer."
        f" {LEAD.format('tokens', 'a')} a gets 12.5 % more"
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
        "warning: switch-down: spine 0 does not hit these networks alike: shares of the tier differ, see above",
    ]


def test_the_bound_is_given_with_its_distance_and_never_leads():
    """2.1 % is what the verdict says."""
    said = why(variant("a", 1000, 1.2), variant("b", 900, 1.3), variant("ideal", 1021, 1.0, bound=True), ties=["b"])
    assert said == (
        "a and b are equal within error at $1.20 per million tokens (0.600 to 2.40)."
        f" {LEAD.format('tokens', 'a')} The equal variants differ by 1.0 % in dollars per token; their tie threshold is"
        " 5.0 % (model error 3.0 %, price error 4.1 %)."
        " ideal, a bound with the same NICs, gets 2.1 % more tokens out of a GPU than a."
        f" {HEADLINE}"
    )


def test_work_without_tokens_is_compared_by_time():
    """1.5 s lead 2."""
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.5)) == (
        f"b is fastest: 1.50 s a step; a takes 50.0 % longer. {LEAD.format('time', 'b')} {HEADLINE}"
    )
    assert why(variant("a", None, step_s=2.0), variant("b", None, step_s=1.9961), ties=["a"]) == (
        f"b and a are equal within error at 2.00 s a step. {LEAD.format('time', 'b')} The equal variants differ by"
        f" 1.0 % in step time; their tie threshold is 3.0 % (model error 3.0 %). {HEADLINE}"
    )


def test_a_step_with_and_without_a_range():
    assert words.step_words(variant("a", 1, step_s=13.4)) == "13.4 s"
    assert words.step_words(variant("a", 1, step_s=13.4, samples=[11.9, 13.4, 15.2])) == "13.4 s (11.9 to 15.2 s)"
    assert words.step_words(variant("a", 1, step_s=1.0, samples=[0.9, 1.2])) == "1.00 s (900 ms to 1.20 s)"


def test_cells_of_the_table():
    """The two taxes, the other waits and the computation without networks add up to the step."""
    tax = taxed(
        {"bandwidth": 0.091, "latency": 0.0004, "slowed": 0.032},
        {"latency": 0.05},
        {"compute": 0.6826, "bubble": 0.14, "host": 0.004},
    )
    one = variant("a", 1, tax=tax)
    assert words.tax_cell(one.tax) == "12.3 % (bandwidth 9.1, slowed kernels 3.2)"
    assert words.tax_cell(one.tax, {"bandwidth": "spine"}) == "12.3 % (bandwidth at spine 9.1, slowed kernels 3.2)"
    assert words.tax_cell(one.tax.scale_up) == "5.0 % (latency 5.0)"
    assert words._other_waits(one) == "bubble 14.0 %, host 0.4 %"
    assert words._other_waits(variant("a", 1)) == "none"
    assert words.tax_cell(TaxShares(**shares({}))) == "0.0 %"


# Views for notebooks: pages in frames that need nothing.


def inside(view):
    """The document in the frame."""
    found = re.search(r'srcdoc="([^"]*)"', view._repr_html_())
    return html.unescape(found[1])


def test_a_run_and_an_answer_are_shown_in_frames_without_rights(tmp_path):
    result = named("</iframe><b>")
    view = api.Run(result.name, result).view(height=321)
    assert embedded(inside(view)) == result.plain()
    assert 'sandbox="allow-scripts"' in view._repr_html_()
    assert 'height="321"' in view._repr_html_()
    assert view._repr_html_().count("<iframe") == 1
    folder = keep_answer(diagnosis(SUSPECT), tmp_path)
    assert embedded(inside(api.view(folder))) == diagnosis(SUSPECT).plain()
    assert api.view(folder / "diagnosis.json") == api.view(folder)
    run = tmp_path / "run"
    run.mkdir()
    (run / "result.json").write_text(result.text())
    assert embedded(inside(api.view(str(run)))) == result.plain()
    with pytest.raises(InputError, match="nothing that can be shown"):
        api.view(tmp_path)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_choice_in_a_frame_needs_no_address(tmp_path: Path):
    """The frame has no origin, so that the browser lets nothing into its address."""
    page = keep_answer(diagnosis(SUSPECT, SUSPECT), tmp_path / "runs")
    click = "setInterval(() => document.querySelector('button.line[aria-pressed=false]')?.click(), 100)"
    document = inside(api.view(page)).replace("</body>", f"<script>{click}</script></body>")
    outer = f'<iframe sandbox="allow-scripts" width="900" height="700" srcdoc="{html.escape(document)}"></iframe>'
    (tmp_path / "cell.html").write_text(f"<!doctype html><title>x</title>{outer}")
    found = browse((tmp_path / "cell.html").as_uri(), tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in found.stderr


def test_the_surest_layout_is_named_next_to_the_fastest():
    """Own runs made `auto` take 1.5 s that are known rather than 1.4 s that are not: 6.7 % less."""
    rows = [
        SimpleNamespace(layout=SimpleNamespace(words=name), step_seconds=seconds)
        for name, seconds in (("TP 1", 1.5), ("TP 2", 1.4), ("TP 4", 1.6))
    ]
    bound = dict.fromkeys(TrainingVariant.model_fields)
    one = TrainingVariant.model_construct(**bound | {"layouts": rows})
    assert conclusion.layout_sentence(result(variant("a", 1, 1.0)), one) == (
        "Layout: TP 1, the surest of 3 by your own runs. TP 2 is predicted 6.7 % shorter, but is less like them."
    )
