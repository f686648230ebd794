"""With one request at a time a replica is a queue with one server, whose mean wait is known."""

import math

import numpy as np
import pytest

from railyard.engine.serving import Cost, Deployment, Pool, Router, simulate

from .columns import poisson

PS = 1e12


def _waits(requests, cost, **changed):
    one = Pool("server", cost, max_sequences=1, kv_blocks=10**6, **changed)
    run = simulate(requests, Deployment((one,), stop_on_overload=False))
    assert run.meta["outcome"] == "finished"
    assert (run.column("admitted_ps") >= requests.arrival_ps).all()
    return (run.column("admitted_ps") - requests.arrival_ps) / PS, run


def _batch_error(values, batches=50):
    """Standard error of a mean of correlated values, from the means of long batches."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    return means.std(ddof=1) / np.sqrt(batches)


def _agrees(values, expected):
    return abs(values.mean() - expected) < 4 * _batch_error(values)


def _general(load):
    """Service times of 0.01, 0.1 and 10 ms, as a table has them of tokens; the law; requests."""
    lengths = np.random.Generator(np.random.Philox(3)).choice([1, 10, 1000], 400_000, p=[0.5, 0.4, 0.1])
    times = lengths * 1e-5
    return times, poisson(400_000, load / times.mean(), lengths)


def _table(per_token_s):
    return Cost(np.array([0, 8192]), np.array([0.0, 8192 * per_token_s]), np.zeros(2))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_constant_service_waits_as_m_d_1(load):
    service = 0.01
    requests = poisson(400_000, load / service)
    waits, run = _waits(requests, Cost.constant(service))
    # a server without a break: the next one goes in when it has come and the one before is out (Lindley, 1952)
    assert (run.column("admitted_ps")[1:] == np.maximum(requests.arrival_ps[1:], run.end_ps[:-1])).all()
    assert (run.end_ps - run.column("admitted_ps") == service * PS).all()
    assert _agrees(waits, load * service / (2 * (1 - load)))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_tails_of_constant_service_are_erlang_s(load):
    """P(wait <= xD) = (1 - load) sum over j <= x of (load (j - x))^j / j! exp(load (x - j)) (Erlang, 1909)."""
    service = 0.01
    waits, _ = _waits(poisson(400_000, load / service, seed=4), Cost.constant(service))
    for late in (0.0, 0.5, 1.0, 1.5, 3.0, 5.0):
        terms = [
            (load * (j - late)) ** j / math.factorial(j) * math.exp(load * (late - j)) for j in range(int(late) + 1)
        ]
        assert _agrees(waits <= late * service, (1 - load) * sum(terms))


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_general_service_waits_as_pollaczek_and_khinchine_say(load):
    times, requests = _general(load)
    waits, run = _waits(requests, _table(1e-5))
    assert np.allclose((run.end_ps - run.column("admitted_ps")) / PS, times, rtol=1e-6)
    assert _agrees(waits, load / times.mean() * (times**2).mean() / (2 * (1 - load)))


@pytest.mark.parametrize("wrong", [0.97, 1.03])
def test_a_service_time_that_is_3_percent_off_is_seen(wrong):
    """What the checks of means above are worth."""
    for load in (0.3, 0.6, 0.8):
        waits, _ = _waits(poisson(400_000, load / 0.01), Cost.constant(0.01 * wrong))
        assert not _agrees(waits, load * 0.01 / (2 * (1 - load)))
    for load in (0.3, 0.7):
        times, requests = _general(load)
        waits, _ = _waits(requests, _table(1e-5 * wrong))
        assert not _agrees(waits, load / times.mean() * (times**2).mean() / (2 * (1 - load)))
    waits, _ = _waits(poisson(200_000, 50.0, 1, 10), Cost.constant(0.001 * wrong))
    assert not _agrees(waits, 0.5 * 0.01 / (2 * 0.5))


def test_decoding_alone_is_service_too():
    waits, _ = _waits(poisson(200_000, 50.0, 1, 10), Cost.constant(0.001))
    assert _agrees(waits, 0.5 * 0.01 / (2 * 0.5))


def test_two_choices_wait_less_than_random_ones():
    means = {}
    for kind in ("random", "two-choices", "least-loaded"):
        requests = poisson(50_000, 900.0)
        one = Pool("server", Cost.constant(0.01), 10, max_sequences=1, kv_blocks=100)
        run = simulate(requests, Deployment((one,), Router(kind)))
        means[kind] = (run.column("admitted_ps") - requests.arrival_ps).mean()
    assert means["least-loaded"] < means["two-choices"] < 0.6 * means["random"]
