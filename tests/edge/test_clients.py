"""Populations: shares, presence and links are exactly what was asked, whoever is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.cluster.edge import transport
from railyard.cluster.edge.clients import Clients, Region
from railyard.cluster.edge.transport import SCORES, Presence, at_score, paths, score_of

CATALOG = catalog.load()
KNOWN = [0.6498237099517652, 0.7535315702076073, 0.15326561733713234]
"""The same on every machine: pinned when it was written."""
LTE = CATALOG.access_link("lte")


def population(count=10_000_000, most=0.2, least=0.05, session=np.inf):
    return Clients(
        count=count,
        devices=((CATALOG.device("phone-high"), 1.0), (CATALOG.device("phone-low"), 3.0)),
        links=((LTE, 0.25), (CATALOG.access_link("fibre"), 0.75)),
        regions=(Region("here", 0.5, 0.0, 0.0), Region("far", 0.5, 8 * 3600.0, 0.1, 0.01)),
        presence=Presence.diurnal(most, least, 2.0, session),
        mean_samples=400.0,
        sample_spread=1.0,
        seed=11,
    )


def test_numbers_are_a_function_of_client_and_stream():
    who = np.arange(1000)
    one = transport.uniform(3, "a", who)
    assert np.array_equal(one[500:], transport.uniform(3, "a", who[500:]))
    for other in (transport.uniform(4, "a", who), transport.uniform(3, "b", who), transport.uniform(3, "a", who, 1)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.1
    assert one.min() > 0
    assert one.max() < 1


def test_known_numbers():
    assert transport.uniform(1, "a", [0, 1, 2**40], 5) == pytest.approx(KNOWN, abs=1e-12)
    assert transport.inverse_normal([0.001, 0.025, 0.5, 0.84134474607, 0.999]) == pytest.approx(
        [-3.0902323, -1.9599640, 0.0, 1.0, 3.0902323], abs=1e-6
    )


def test_quantiles_of_a_link():
    assert at_score(LTE.up_bps, SCORES) == pytest.approx(
        [LTE.up_bps[name] for name in ("p5", "p25", "p50", "p75", "p95")]
    )
    middle = float(at_score(LTE.up_bps, np.array([(SCORES[2] + SCORES[3]) / 2.0]))[0])
    assert middle == pytest.approx((LTE.up_bps["p50"] * LTE.up_bps["p75"]) ** 0.5)
    who = np.arange(200_000)
    up = paths(LTE, 1, who, 1e6, np.zeros(len(who))).up_bps
    for share, name in ((0.05, "p5"), (0.5, "p50"), (0.95, "p95")):
        assert np.quantile(up, share) == pytest.approx(LTE.up_bps[name], rel=0.03)


def test_links_are_correlated_in_time():
    who, tau = np.arange(200_000), LTE.correlation_ps * 1e-12
    now = score_of(LTE, 1, who, 0.0)
    for later, passes in ((0.0, 1.0), (tau, 0.5), (3 * tau, 0.0)):
        expected = LTE.steady + (1 - LTE.steady) * passes
        assert np.corrcoef(now, score_of(LTE, 1, who, later))[0, 1] == pytest.approx(expected, abs=0.01)


@settings(deadline=None)
@given(st.integers(0, 23))
def test_presence_by_hour(hour):
    clients = population()
    who = np.arange(40_000)
    there = clients.there(who, clients.regions_of(who), hour * 3600.0)
    expected = clients.share_there(hour * 3600.0)
    assert there.mean() == pytest.approx(expected, abs=5 * (expected * (1 - expected) / 40_000) ** 0.5)


def test_a_day_has_its_crest_where_it_was_put():
    day = Presence.diurnal(0.4, 0.1, 2.0)
    assert float(day.share(np.array([2 * 3600.0]))[0]) == pytest.approx(0.4)
    assert float(day.share(np.array([14 * 3600.0]))[0]) == pytest.approx(0.1)
    assert float(day.share(np.array([26 * 3600.0]))[0]) == pytest.approx(0.4)
    # 5 hours from the crest: 0.1 + 0.3 (1 + cos(75 degrees)) / 2
    assert float(day.share(np.array([7 * 3600.0]))[0]) == pytest.approx(0.1 + 0.15 * 1.258819, rel=1e-6)


def test_draws_are_uniform_and_without_replacement():
    clients = population()
    who = clients.draw(20_000, 0.0, 3)
    assert len(np.unique(who)) == len(who) == 20_000
    assert clients.there(who, clients.regions_of(who), 0.0).all()
    # Of those there at midnight the region 8 hours ahead has its share by the hour, not by its size.
    shares = clients.presence.share(np.array([0.0, 8 * 3600.0]))
    expected = shares[1] / shares.sum()
    assert (clients.regions_of(who) == 1).mean() == pytest.approx(expected, abs=5 * (0.25 / 20_000) ** 0.5)
    assert (who < clients.count / 4).mean() == pytest.approx(0.25, abs=0.02)
    assert not np.array_equal(who, clients.draw(20_000, 0.0, 4))


def test_small_and_large_populations_agree():
    # 5,000 of 20,000 are nearly all who are there: the draw looks at each client instead of at candidates.
    small = population(count=20_000)
    who = small.draw(5_000, 0.0, 1)
    assert len(who) == pytest.approx(20_000 * small.share_there(0.0), abs=5 * 70)
    assert len(np.unique(who)) == len(who)
    assert len(population(count=100).draw(1_000, 0.0, 1)) < 100


def test_shares_of_devices_and_samples():
    clients = population()
    who = np.arange(100_000)
    assert (clients.devices_of(who) == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert (clients.links_of(who) == 0).mean() == pytest.approx(0.25, abs=0.01)
    assert clients.samples(who).mean() == pytest.approx(400.0, rel=0.02)
    assert np.median(clients.samples(who)) == pytest.approx(400.0 * np.exp(-0.5), rel=0.02)
    phone = clients.devices[0][0]
    fast = clients.flops(who, np.zeros(len(who), int))
    assert np.median(fast) == pytest.approx(max(phone.flops.values()) * phone.training_efficiency, rel=0.02)
    assert np.log(fast).std() == pytest.approx(phone.spread, rel=0.02)


def test_sessions_and_memory():
    clients = population(session=600.0)
    left = clients.presence.leave_s(1, np.arange(100_000), 2)
    assert left.mean() == pytest.approx(600.0, rel=0.02)
    assert np.isinf(population().presence.leave_s(1, np.arange(10), 2)).all()
    from dataclasses import replace

    able = replace(clients, able=(True, False))
    assert able.able_share == pytest.approx(0.25)
    assert (able.devices_of(able.draw(500, 0.0, 1)) == 0).all()
