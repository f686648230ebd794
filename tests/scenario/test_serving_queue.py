"""With an ideal network and one request at a time, a scenario is the queue with one server whose mean wait is known."""

import pytest

from .test_serving import one


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
