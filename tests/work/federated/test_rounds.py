"""Rounds: order statistics in closed form, shares of a server's line, barriers, deadlines, buffers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard import catalog
from railyard.cluster.edge import transport
from railyard.cluster.edge.clients import Clients, Region
from railyard.cluster.edge.transport import SCORES, Presence, at_score, paths, score_of
from railyard.engine import rounds as buffered
from railyard.engine import rounds as waiting
from railyard.engine.rounds import Cohort, RoundEnd, close


def cohort(compute, leave=None, before=(), after=(), up_bits=0.0):
    compute = np.asarray(compute, float)
    none, one = np.zeros(len(compute)), np.ones(len(compute))
    return Cohort(
        delay_s=none,
        down_bits=none,
        down_bps=one,
        down_lag_s=none,
        compute_s=compute,
        crossing_s=none,
        up_bits=one * up_bits,
        up_bps=one * 10.0,
        up_lag_s=none,
        before_s=np.array(before, float).reshape(len(before), len(compute)),
        after_s=np.array(after, float).reshape(len(after), len(compute)),
        leave_s=one * np.inf if leave is None else np.asarray(leave, float),
    )


@pytest.mark.parametrize(("selected", "goal"), [(40, 40), (13, 10), (52, 40)])
def test_rounds_of_exponential_clients(selected, goal):
    random, rounds = np.random.default_rng(5), 3000
    took = [close(cohort(random.exponential(2.0, selected)), RoundEnd(goal, 1)).took_s for _ in range(rounds)]
    # Mean of the goal-th smallest of independent exponential numbers of mean 2 s (Renyi 1953).
    expected = 2.0 * sum(1.0 / left for left in range(selected - goal + 1, selected + 1))
    assert np.mean(took) == pytest.approx(expected, abs=5 * np.std(took) / rounds**0.5)


def test_dropouts_are_binomial():
    random = np.random.default_rng(6)
    # Leaves before it is done with probability 1 - exp(-1/4): work of 1 s, stays of 4 s on average.
    stays = [random.exponential(4.0, 60) for _ in range(400)]
    left = [close(cohort(np.ones(60), one), RoundEnd(60, 1)).gone.sum() for one in stays]
    share = 1 - np.exp(-0.25)
    mean, variance = 60 * share, 60 * share * (1 - share)  # of a binomial number
    assert np.mean(left) == pytest.approx(mean, abs=5 * (variance / 400) ** 0.5)
    assert np.var(left) == pytest.approx(variance, rel=0.4)


def test_a_deadline_ends_a_round():
    closed = close(cohort([1.0, 2.0, 9.0, 4.0]), RoundEnd(goal=4, least=3, deadline_s=5.0))
    assert (closed.took_s, closed.ok, closed.by_deadline, closed.critical) == (5.0, True, True, -1)
    assert closed.used.tolist() == [True, True, False, True]
    assert not close(cohort([1.0, 2.0, 9.0, 8.0]), RoundEnd(goal=4, least=3, deadline_s=5.0)).ok


def test_the_last_one_that_is_waited_for_is_critical():
    closed = close(cohort([3.0, 1.0, 7.0, 2.0]), RoundEnd(goal=3, least=1))
    assert (closed.took_s, closed.critical, int(closed.used.sum())) == (3.0, 0, 3)


def test_all_come_or_go():
    closed = close(cohort([1.0, 5.0, 2.0], leave=[np.inf, 4.0, np.inf]), RoundEnd(goal=3, least=2))
    assert (closed.took_s, closed.ok, closed.gone.tolist()) == (4.0, True, [False, True, False])


def test_stages_wait_for_all_who_are_there():
    # Stages of 1 and 3 s, then 2 and 2 s: both wait for the slowest; work of 1 s; a stage behind it, 2 of 2 needed.
    part = cohort([1.0, 1.5], before=[[1.0, 3.0], [2.0, 2.0]], after=[[0.5, 0.25]])
    closed = close(part, RoundEnd(goal=2, least=2, stay_share=1.0))
    assert closed.took_s == pytest.approx(3.0 + 2.0 + 1.5 + 0.5)
    assert closed.stages_s == pytest.approx(5.5)
    gone = close(cohort([1.0, 1.0], leave=[2.0, np.inf], before=[[1.0, 3.0]]), RoundEnd(goal=2, least=1))
    assert gone.gone.tolist() == [True, False]


def line(bps, count):
    return waiting.ClientTree.line(bps, count)


def test_a_line_is_shared_fairly():
    ends = waiting.finish_s(np.array([0.0, 0.0, 1.0]), np.full(3, 10.0), np.array([1.0, 10.0, 10.0]), line(6.0, 3))
    assert ends == pytest.approx([10.0, 3.0, 4.0])
    ends = waiting.finish_s(np.zeros(4), np.full(4, 8.0), np.full(4, 4.0), line(8.0, 4))
    assert ends == pytest.approx(np.full(4, 4.0))
    ends = waiting.finish_s(np.array([0.0, np.inf]), np.full(2, 8.0), np.full(2, 4.0), line(2.0, 2))
    assert ends == pytest.approx([4.0, np.inf])


def filled(limits, ways, capacity):
    """Max-min fair rates by progressive filling: all rise together until a limit or a link stops some of them."""
    rates, open_ = np.zeros(len(limits)), np.ones(len(limits), bool)
    left = np.array(capacity, float)
    while open_.any():
        users = np.array([sum(open_[i] and link in way for i, way in enumerate(ways)) for link in range(len(left))])
        room = [one / many for one, many in zip(left, users, strict=True) if many]
        step = min([*room, *(limits - rates)[open_]])
        rates[open_] += step
        left = left - users * step
        full = {link for link in range(len(left)) if users[link] and left[link] <= 1e-9 * capacity[link]}
        for i, way in enumerate(ways):
            if rates[i] >= limits[i] * (1 - 1e-9) or full & set(way):
                open_[i] = False
    return rates


def played(start, size, limits, ways, capacity):
    """Ends by filling anew at every start and end."""
    left, ends, now = size.copy(), np.full(len(size), np.inf), 0.0
    while True:
        active = np.flatnonzero((start <= now) & (left > 0))
        coming = start[(start > now) & (left > 0)]
        if not len(active):
            if not len(coming):
                return ends
            now = coming.min()
            continue
        rates = filled(limits[active], [ways[i] for i in active], capacity)
        step = min([*(left[active] / rates), *(coming - now)])
        left[active] -= rates * step
        now += step
        done = active[left[active] <= 1e-9 * size[active]]
        left[done], ends[done] = 0.0, now


transfers = st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 20), st.floats(0.1, 10)), min_size=1, max_size=14)
trees = st.lists(st.tuples(st.integers(-1, 4), st.floats(0.5, 20)), min_size=1, max_size=6)


@given(transfers, trees, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_trees_are_shared_as_by_filling(rows, links, random):
    start, size, own = (np.array(column) for column in zip(*rows, strict=True))
    parent = [min(one, number - 1) for number, (one, _) in enumerate(links)]
    first = [random.randint(-1, len(links) - 1) for _ in rows]
    ways = []
    for link in first:
        way = [link] if link >= 0 else []
        while way and parent[way[-1]] >= 0:
            way.append(parent[way[-1]])
        ways.append(way)
    capacity = np.array([bps for _, bps in links])
    tree = waiting.ClientTree(capacity, np.array(parent, np.int32), np.array(first, np.int32))
    found = waiting.finish_s(start, size, own, tree)
    assert found == pytest.approx(played(start, size, own, ways, capacity), rel=1e-6)
    wider = waiting.ClientTree(2 * capacity, tree.parent, tree.first)
    if len(links) == 1:
        assert (waiting.finish_s(start, size, own, wider) <= found * (1 + 1e-9)).all()


def test_many_transfers_over_one_line():
    random = np.random.default_rng(3)
    start, own = random.uniform(0, 50, 20_000), random.uniform(100, 900, 20_000)
    ends = waiting.finish_s(start, np.full(20_000, 30.0), own, line(9_000.0, 20_000))
    # 12,000 a second come for 50 s, 9,000 pass: the line is never idle, and ends with the last bit.
    assert ends.max() == pytest.approx(20_000 * 30.0 / 9_000.0, rel=5e-3)
    assert (ends >= start + 30.0 / own - 1e-9).all()


def test_a_buffered_server_is_a_renewal_process():
    random = np.random.default_rng(7)
    took, left = random.exponential(3.0, 20_000), random.random(20_000) < 0.2

    def draw(count):
        return cohort(np.where(left, 1e6, took)[:count], leave=np.where(left, took, np.inf)[:count])

    steps = buffered.run(draw, 60, 12, 500)
    # 60 places, a cycle of 3 s, four of five stay: 16 updates a second, 12 of them a step.
    assert steps.at_s[-1] == pytest.approx(500 * 12 / 16.0, rel=0.05)
    # An update sees the steps of its own 3 s: 3 * 16 / 12 = 4, and what is left of the buffer.
    assert steps.staleness.mean() == pytest.approx(4.0, rel=0.1)
    assert steps.wasted == pytest.approx(6000 / 4, rel=0.1)
    assert (np.diff(steps.at_s) >= 0).all()
    assert len(np.unique(steps.row)) == len(steps.row) == 6000


@pytest.mark.parametrize("places", [1, 4, 10])
def test_places_that_share_a_line_are_a_closed_queue(places):
    # Work of 4 s on average, then 10 b over a line of 10 b/s: machines and a repairman. Sharing a line fairly, only the
    # mean of what is sent matters, so that the closed form for exponential numbers holds for equal ones too.
    random = np.random.default_rng(8)
    work = random.exponential(4.0, 20_000)

    def draw(count):
        return replace(cohort(work[:count], up_bits=10.0), up=waiting.ClientTree.line(10.0, count))

    steps = buffered.run(draw, places, 10, 1_500)
    weights = [math.perm(places, busy) / 4.0**busy for busy in range(places + 1)]
    assert 15_000 / steps.at_s[-1] == pytest.approx(1.0 - 1.0 / sum(weights), rel=0.02)


# Populations: shares, presence and links are exactly what was asked, whoever is drawn.

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
