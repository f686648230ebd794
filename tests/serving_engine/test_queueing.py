"""With one request at a time a replica is a queue with one server, whose mean wait is known."""

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, Router, simulate

from .columns import poisson

PS = 1e12


def _waits(requests, cost, **changed):
    one = Pool("server", cost, max_sequences=1, kv_blocks=10**6, **changed)
    run = simulate(requests, Deployment((one,), stop_on_overload=False))
    assert run.outcome == "finished"
    assert (run.admitted_ps >= requests.arrival_ps).all()
    return (run.admitted_ps - requests.arrival_ps) / PS, run


def _batch_error(values, batches=50):
    """Standard error of a mean of correlated values, from the means of long batches."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    return means.std(ddof=1) / np.sqrt(batches)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_constant_service_waits_as_m_d_1(load):
    service = 0.01
    requests = poisson(400_000, load / service)
    waits, _ = _waits(requests, Cost.constant(service))
    expected = load * service / (2 * (1 - load))
    assert abs(waits.mean() - expected) < 4 * _batch_error(waits)
    assert waits.mean() == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_general_service_waits_as_pollaczek_and_khinchine_say(load):
    lengths = np.random.Generator(np.random.Philox(3)).choice([1, 10, 1000], 400_000, p=[0.5, 0.4, 0.1])
    times = lengths * 1e-5
    requests = poisson(400_000, load / times.mean(), lengths)
    cost = Cost(np.array([0, 8192]), np.array([0.0, 8192e-5]), np.zeros(2))
    waits, run = _waits(requests, cost)
    assert np.allclose((run.done_ps - run.admitted_ps) / PS, times, rtol=1e-6)
    rate = load / times.mean()
    expected = rate * (times**2).mean() / (2 * (1 - load))
    assert abs(waits.mean() - expected) < 4 * _batch_error(waits)


def test_decoding_alone_is_service_too():
    requests = poisson(50_000, 50.0, 1, 10)
    waits, _ = _waits(requests, Cost.constant(0.001))
    expected = 0.5 * 0.01 / (2 * 0.5)
    assert abs(waits.mean() - expected) < 4 * _batch_error(waits)


def test_two_choices_wait_less_than_random_ones():
    means = {}
    for kind in ("random", "two-choices", "least-loaded"):
        requests = poisson(50_000, 900.0)
        one = Pool("server", Cost.constant(0.01), 10, max_sequences=1, kv_blocks=100)
        run = simulate(requests, Deployment((one,), Router(kind)))
        means[kind] = (run.admitted_ps - requests.arrival_ps).mean()
    assert means["least-loaded"] < means["two-choices"] < 0.6 * means["random"]
