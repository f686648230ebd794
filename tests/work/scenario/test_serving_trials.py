"""How many requests the trials of a capacity have, and what they say about it."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from railyard.graph.request_table import RequestTable
from railyard.measure.model_error import ModelError
from railyard.measure.result.money import ServingCostFigures
from railyard.measure.result.reading import Result
from railyard.measure.result.section import Band
from railyard.measure.result.serving import (
    ModelServing,
    ObjectiveFigures,
    Percentiles,
    ReplicaTrial,
    RequestsFigures,
    ThroughputFigures,
)
from railyard.measure.result.step import ServingTax, ServingTaxShares
from railyard.measure.result.variants import ServingVariant
from railyard.measure.serving.latencies import Served
from railyard.measure.serving.objective import Objective
from railyard.measure.verdict import verdict_of
from railyard.work.serving.capacity import with_curve
from railyard.work.serving.measuring import MeasuredServing
from railyard.work.serving.present import best_variant, bottleneck, trials, verdict, why
from railyard.work.study.tasks import Control

from .test_serving import one

ANSWER_S = 7.3


def answered(requests: RequestTable) -> Served:
    """Every request after 7.3 s: 0.73 s to the first token, ten others each 0.657 s later."""
    count = len(requests)
    arrival, zero = requests.arrival_ps * 1e-12, np.zeros(count)
    return Served(
        arrival_s=arrival, done_s=arrival + ANSWER_S, input_tokens=np.full(count, 100),
        output_tokens=np.full(count, 11), cached_tokens=np.zeros(count, np.int64), ttft_s=np.full(count, 0.73),
        queue_s=zero, transfer_s=zero, collectives_s=zero, compute_s=zero, tpot_s=np.full(count, 0.657),
        decode_collectives_s=zero, e2e_s=np.full(count, ANSWER_S), status=np.zeros(count, np.uint8),
    )  # fmt: skip


def search(first: int, limit_per_s: float):
    """A search from 2 requests a second on, 12 of which are known; more a second than the limit are an overload."""
    requests = RequestTable(np.arange(12) * 500_000_000_000, np.full(12, 100, np.int32), np.full(12, 11, np.int32))
    serving = ModelServing.model_construct(
        requests=RequestsFigures.model_construct(rate_per_s=2.0, count=12),
        slo=ObjectiveFigures.model_construct(attainment=1.0, goodput_rps=2.0),
        ttft_s=Percentiles.model_construct(p50=0.73, p99=0.73),
        tpot_s=Percentiles.model_construct(p50=0.657, p99=0.657),
        outcome="done",
        throughput=ThroughputFigures.model_construct(output_tokens_per_s=22.0, accelerators=5),
    )
    variant = ServingVariant.model_construct(serving=serving, warnings=())
    cost = SimpleNamespace(usd_per_h=SimpleNamespace(typical=72.0))
    found = MeasuredServing(variant, requests=answered(requests), cost=cost)
    trials: list[tuple[float, int]] = []

    def serve(sent: RequestTable) -> tuple[Served, bool]:
        trials.append((round(sent.rate_per_s, 6), len(sent)))
        return answered(sent), sent.rate_per_s > limit_per_s

    section = SimpleNamespace(capacity=SimpleNamespace(first=first, tolerance=0.2))
    job = SimpleNamespace(section=section, requests=requests, variant=SimpleNamespace(name="one", draft=None))
    control = Control(lambda _what, _share: None, Event())
    curve = with_curve(found, job, objective=Objective(e2e_s=10.0), serve=serve, control=control)
    return trials, curve.variant


def test_trials_last_ten_times_as_long_as_an_answer():
    """At r a second 73 r requests: 146 at 2, 292 at 4, 438 at 6, but at least twice the last; no trial has fewer again.

    What misses the objective is not tried for longer; 7 - 6 is within a fifth of 7.
    """
    trials, variant = search(10, 6.5)
    assert trials == [(2, 10), (2, 146), (4, 146), (4, 292), (8, 292), (6, 292), (6, 584), (7, 584)]
    capacity = variant.serving.capacity
    assert (capacity.rate_per_s, capacity.bounded) == (6.0, True)
    assert [point.requests for point in capacity.points] == [146, 292, 584, 584, 292]
    assert variant.warnings == (
        "capacity: trials send up to 584 requests (the scenario's 12, repeated) instead of 10, so that queues have time"
        " to build up",
    )


def test_trials_have_at_most_64_times_the_first_ones_requests():
    """3 x 64 = 192 are fewer than the 292 that 4 a second want."""
    trials, variant = search(3, 7.0)
    assert trials == [(2, 3), (2, 146), (4, 146), (4, 192), (8, 192), (6, 192), (7, 192)]
    assert variant.warnings[0].startswith("capacity: may be lower, for 192 requests (the scenario's 12, repeated)")
    assert "less than 10 times as long" in variant.warnings[0]


def test_points_of_the_front_are_by_user_accelerator_and_dollar():
    """At 2 a second 146 requests of 11 tokens, each in 7.3 s: from then to 72.5 s another 130 end.

    72 USD an hour are 0.02 a second; overloads are none.
    """
    variant = search(10, 6.5)[1]
    pareto = variant.serving.pareto
    rate = 130 * 11 / (145 / 2 - 7.3)
    assert [point.rate_per_s for point in pareto] == [2, 4, 6]
    assert pareto[0].plain() == {
        "rate_per_s": pytest.approx(2), "per_user": pytest.approx(1 / 0.657),
        "per_gpu": pytest.approx(rate / 5, rel=1e-6), "per_usd": pytest.approx(rate / 0.02, rel=1e-6),
        "front": False, "front_usd": False,
    }  # fmt: skip


# Which variant of a serving study is called the best.

NONE = ServingTaxShares(goodput_lost=0.0, ttft={}, tpot={})
TAX = ServingTax(goodput_lost=0.125, ttft={}, tpot={}, scale_up=NONE)


def variant(name, attainment, usd):
    """A variant as far as the choice looks at it: the share in time of 90 % asked for, dollars a million tokens."""
    cost = ServingCostFigures.model_construct(total=Band(low=usd / 2, typical=usd, high=2 * usd))
    slo = ObjectiveFigures.model_construct(attainment=attainment, target=0.9, goodput_rps=attainment)
    requests = RequestsFigures.model_construct(count=1000)
    serving = ModelServing.model_construct(
        slo=slo, cpmt=cost, ttft_parts={}, requests=requests, ttft_s=Percentiles.model_construct(p50=0.1, p99=0.5),
        tpot_s=Percentiles.model_construct(p50=0.01, p99=0.05),
    )  # fmt: skip
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
    assert why(result)[0].startswith("The scale-out network costs dear 12.5 % of goodput")
    said = verdict(result)
    assert said.startswith(
        "2 of 3 variants reach 90 % of requests within the SLO; of these, dear costs least: $3.20 per million tokens"
        " within the SLO (1.60 to 6.40), p99 TTFT "
    )
    alone = of(variant("cheap", 0.86, 3.0), variant("dear", 0.95, 3.2))
    assert verdict(alone).startswith("Of 2 variants only dear reaches 90 % of requests within the SLO: $3.20 per ")
    assert verdict(of(variant("a", 1.0, 3.0), variant("b", 1.0, 9.0))).endswith(
        "; both variants reach 90 % of requests within the SLO."
    )


def test_what_cannot_be_told_apart_is_not_called_best():
    """3.7 is 15.6 % more than 3.2; ln 1.15 of the model and 0.02 of prices are 0.1412 together, 15.2 %: apart.

    3.6 is 12.5 % more.
    """
    assert verdict(of(variant("a", 0.95, 3.2), variant("b", 1.0, 3.7))).startswith("a costs least: $3.20 ")
    result = of(variant("a", 0.95, 3.2), variant("b", 1.0, 3.6))
    assert verdict(result).startswith("a and b cannot be distinguished: $3.20 to $3.60 per million tokens within the")
    tied = (
        "These variants differ by 12.5 % in dollars per token; their tie threshold is 15.2 % (model error 15.0 %,"
        " price error 2.0 %)."
    )
    assert tied in why(result)


def test_where_all_are_late_that_is_said():
    """The cheapest is named, and that it does not do what was asked."""
    result = of(variant("a", 0.5, 3.0), variant("b", 0.6, 2.0))
    assert best_variant(result).name == "b"
    assert verdict(result).startswith("No variant reaches 90 % of requests within the SLO; b costs least: $2.00 ")


def test_variants_of_different_work_are_ranked_within_it():
    """At 5 a second 4.0 is a quarter more than 3.2; at 10 a second 2.0 and 2.1 differ by less than their error."""
    costs = {"a": (5, 3.2), "b": (5, 4.0), "c": (10, 2.1), "d": (10, 2.0)}
    rows = [
        variant(name, 1.0, usd).model_copy(update={"settings": {"rate": rate, "pools.both.tp": name}})
        for name, (rate, usd) in costs.items()
    ]
    words = "The variants do different work (rate 5 and 10). Within each, a and d lead"
    assert verdict(of(*rows)) == f"{words}; others are equal within error."
    assert verdict(of(*rows[:2], rows[2])) == f"{words.partition('.')[0]}. Within each, a leads."


# The sentence on what requests wait for, from the trials with one more replica of each pool.


def serving_bottleneck_variant(
    *trials: ReplicaTrial, target: float = 0.9, limit: float | None = None
) -> ServingVariant:
    """First tokens at 0.4 s, 0.1 s a token, 24.2 % in time."""
    serving = ModelServing.model_construct(
        ttft_s=Percentiles.model_construct(p99=0.4),
        tpot_s=Percentiles.model_construct(p99=0.1),
        slo=ObjectiveFigures.model_construct(attainment=0.242, target=target, ttft_s=limit),
        trials=trials,
    )
    return ServingVariant.model_construct(serving=serving)


def trial(pool: str, ttft_s: float, tpot_s: float, attainment: float) -> ReplicaTrial:
    return ReplicaTrial(
        pool=pool, replicas=3, accelerators=4, ttft_p99_s=ttft_s, tpot_p99_s=tpot_s,
        attainment=attainment, goodput_rps=1.0, reason="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("prefill", "decode", "words"),
    [
        # Sooner first tokens that bring nothing in time are not what slow answers wait for.
        ((0.3, 0.1, 0.242), (0.4, 0.02, 0.99), "Answers wait for the decode replicas: one more decode replica"),
        ((0.2, 0.1, 0.60), (0.4, 0.05, 0.30), "First tokens wait for the prefill replicas: one more prefill"),
        # Neither brings more in time: then the sooner first token counts, from one percent on.
        ((0.4, 0.1, 0.242), (0.395, 0.1, 0.242), "First tokens wait for the decode replicas"),
        ((0.4, 0.1, 0.25), (0.397, 0.1, 0.242), "One more replica of any pool changes almost nothing"),
    ],
)
def test_the_pool_is_the_one_whose_growth_brings_requests_in_time(prefill, decode, words) -> None:
    assert bottleneck(serving_bottleneck_variant(trial("prefill", *prefill), trial("decode", *decode))).startswith(
        words
    )


def test_first_tokens_that_are_in_time_are_not_what_is_late() -> None:
    """0.4 s meets 1 s and misses 0.3 s; one more replica brings both forward, and all requests in time."""
    grown = trial("both", 0.36, 0.044, 1.0)
    for limit, what in ((1.0, "Answers"), (0.3, "First tokens")):
        said = bottleneck(serving_bottleneck_variant(grown, limit=limit))
        assert said.startswith(f"{what} wait for the replicas: one more replica (4 accelerators): TTFT p99 400 ms ")


def test_where_compute_is_most_a_larger_tp_is_proposed() -> None:
    """Not one more replica, though it helps: the cluster does not have its accelerator."""
    grown = trial("both", 0.39, 0.1, 0.242).model_copy(update={"bought": 8, "accelerators": 1})
    wider = trial("both", 0.2, 0.05, 0.242).model_copy(update={"tp": 2})
    served = serving_bottleneck_variant(grown, wider)
    served.serving.slo.__dict__["target"] = 0.2
    assert bottleneck(served).startswith(
        "Compute is the largest part of TTFT p99: TP 2 on the same accelerators, 3 replicas: TTFT p99 400 ms -> 200 ms"
    )
    assert "one more replica (1 accelerator; the cluster must grow by 8): " in trials(served)[0]


def test_a_larger_tp_is_tried_on_the_accelerators_there_are() -> None:
    """Eight replicas of one: TP 2, 4 and 8 on the same eight, and one more replica on a server more."""
    one_each = {"both": {"replicas": 8, "tp": 1}}
    drawn = {"synthetic": {"rate": 2, "input": 4000, "output": 10, "count": 60}}
    served = one({"model": "llama-3-8b", "pools": one_each, "requests": drawn, "slo": {"ttft": "1 ms"}})
    found = [(each["tp"], each["replicas"], each["bought"]) for each in served["trials"]]
    assert found[1:] == [(2, 4, 0), (4, 2, 0), (8, 1, 0)]
    assert served["trials"][1]["ttft_p99_s"] < served["ttft_s"]["p99"]


def test_without_trials_it_is_said_that_none_was_needed() -> None:
    said = "All SLOs are met and few requests queue: no remedy was tried."
    assert bottleneck(serving_bottleneck_variant(target=0.2)) == said
    assert bottleneck(serving_bottleneck_variant()) == ""


# With an ideal network and one request at a time, a scenario is the queue with one server whose mean wait is
# known.


def _served(**synthetic):
    """A replica of 16 accelerators over two servers, so that its collectives cross the network."""
    return one(
        {
            "requests.synthetic": {"input": 800, "output": 1, **synthetic},
            "pools": {"both": {"replicas": 1, "tp": 16, "max_sequences": 1}},
        },
        **{"cluster.back_end.fabric": "ideal"},
    )


def _service_s(served):
    """Time of the replica for each request. What a first token takes before and behind it keeps nobody waiting."""
    return served["replicas"][0]["busy"] * served["throughput"]["span_s"] / served["replicas"][0]["iterations"]


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_waits_on_an_ideal_network_are_those_of_m_d_1(load):
    alone = _served(arrivals="fixed", rate=0.5, count=5)
    service = _service_s(alone)
    queue = _served(arrivals="poisson", rate=load / service, count=100_000)
    assert alone["queue_s"]["mean"] == 0
    assert _service_s(queue) == pytest.approx(service, rel=1e-9)
    for part in ("collectives_s", "compute_s"):
        assert queue["ttft_parts"]["mean"][part] == pytest.approx(alone["ttft_parts"]["mean"][part], rel=1e-9)
    rate = queue["requests"]["rate_per_s"]
    assert queue["queue_s"]["mean"] == pytest.approx(rate * service**2 / (2 * (1 - rate * service)), rel=0.04)
