"""Settings that follow a run: up where there is room, back where links stand, the first ones where packets are lost."""

from __future__ import annotations

import json

import numpy as np
import pytest

from railyard.ask.tune.space import TuneCase
from railyard.ask.tune.study import AGAIN, ONLINE, WRITTEN, OnlineResult
from railyard.ask.tune.trials import SHARES, TimedStep, Times, curves, tail_gains
from railyard.cluster.fabric import fabrics
from railyard.engine.packet import Period, Retuning, Settings, Traffic, leaf_spine, run
from railyard.engine.packet.fabrics import PERIOD_PS, ROCE, Follow, following
from railyard.face.cli import guard
from railyard.kit.errors import InputError

US = 1_000_000


LINKS = 200


def feed(law, *periods):
    """Feeds (notifications, links that stand, packets lost) a period of 1 us; the place on the list after each."""
    found = []
    for at, (cnps, stands, lost) in enumerate(periods):
        counts = {"sent": 10, "retransmitted": 0, "dropped": lost, "marked": cnps, "pauses": 0, "cnps": cnps}
        paused = round(stands * US)
        law(Period((at + 1) * US, US, delivered_bytes=100, paused_ps=paused, links=LINKS, **counts))
        found.append(law.at)
    return found


def short_tempered():
    """With waits that a hand can count."""
    return Follow(hold=4, longest=256)


CALM, CROWDED, BETWEEN = (5, 4.9, 0), (5, 10.1, 0), (5, 7.0, 0)
"""Below half of 5 % of 200 links, above it, and neither."""


def test_it_is_bold_once_senders_are_told_to_slow_down_and_few_links_stand():
    assert feed(Follow(), (0, 0, 0), (0, 0, 0), CALM, (0, 0, 0)) == [0, 0, 2, 2]
    assert feed(Follow(), (5, 9.9, 0), (5, 10.1, 0)) == [2, 0]


def test_it_is_back_in_the_period_in_which_links_stand_and_waits_for_calm():
    assert feed(short_tempered(), CALM, CROWDED, *[CALM] * 5) == [2, 0, 0, 0, 0, 0, 2]
    assert feed(short_tempered(), CALM, CROWDED, CALM, CALM, BETWEEN, *[CALM] * 5) == [2, *[0] * 8, 2]
    assert feed(short_tempered(), CALM, CROWDED, CALM, CROWDED, *[CALM] * 5) == [2, *[0] * 7, 2]


def test_where_it_did_not_last_the_next_wait_is_twice_as_long():
    law = short_tempered()
    feed(law, CALM, CROWDED, *[CALM] * 5, CROWDED, *[CALM] * 9, CROWDED, *[CALM] * 17)
    assert [(end // US, place) for end, place, _ in law.steps] == [
        (1, 2), (2, 0), (7, 2), (8, 0), (17, 2), (18, 0), (35, 2),
    ]  # fmt: skip
    feed(law, *[CALM] * 16, CROWDED, *[CALM] * 5)
    assert [place for _, place, _ in law.steps][-2:] == [0, 2]


def test_it_waits_for_a_dozen_of_the_first_settings_clocks_and_no_longer_than_five_milliseconds():
    law = Follow()
    assert law.hold * PERIOD_PS == 640 * US
    feed(law, CALM)
    waits = []
    for _ in range(5):
        feed(law, CROWDED)
        waits.append(next(count for count in range(1000) if feed(law, CALM) == [2]))
    assert waits == [64, 128, 256, 512, 512]


def test_lost_packets_lead_to_the_first_settings_for_good():
    assert feed(Follow(), CALM, (5, 0, 1), *[CALM] * 30) == [2, *[0] * 31]


def test_the_list_begins_with_what_the_run_has_and_never_leads_below_it():
    constants = fabrics.get("roce").packets.constants
    assert all(constants[name] == value for name, value in ROCE[0].items())
    own = Settings(**{**constants, "dcqcn_additive_bps": 5e9})
    law = following(own).decide
    assert [one["dcqcn_additive_bps"] for one in law.settings] == [5e9, 2e10]
    with pytest.raises(InputError, match="where DCQCN runs over switches with PFC"):
        following(Settings(**fabrics.get("uec").packets.constants))


def test_on_packets_a_changing_mix_ends_sooner():
    constants = fabrics.get("roce").packets.constants
    hosts, rounds, here = 16, 6, np.arange(16)
    shift = np.repeat([5, 7, 9, 4, 11, 6], hosts)
    source = np.tile(here, rounds)
    mix = Traffic.of(hosts, source, (source + shift) % hosts, np.where(np.arange(96) < 48, 8_000_000, 2_000_000))
    later, before = np.arange(hosts, 96), np.arange(0, 96 - hosts)
    mix = mix.after(later, before, at=1)
    network = leaf_spine(hosts, leaf_hosts=4, spines=2, rate_bps=int(400e9))
    ends = []
    for retuning in (None, Retuning(PERIOD_PS, Follow())):
        record = run(network, mix, Settings(**constants, seed=3), retuning=retuning)
        ends.append(int(record.end_ps.max()))
    assert ends[1] < 0.9 * ends[0]


def test_cases_are_compared_by_the_means_of_their_twins():
    twins = {WRITTEN: ((1.0, 3.0), (4.0, 4.0)), AGAIN: ((2.0, 2.0), (4.0, 4.0)), ONLINE: ((1.5, 2.0), (4.4, 4.4))}
    found = OnlineResult("t", (TuneCase(1), TuneCase(2)), {**twins, "fixed": ((3.0, 3.0), (2.0, 2.0))})
    assert found.steps_s[WRITTEN] == (2.0, 4.0)
    assert found.gains == pytest.approx([0.125, -0.1])
    assert found.worst_case(ONLINE) == pytest.approx(0.1)
    assert found.worst_run(ONLINE) == pytest.approx(0.5)
    assert found.worst_case(AGAIN) == 0.0
    assert found.worst_run(AGAIN) == pytest.approx(1.0)
    assert found.best_fixed == "fixed"


def test_the_loop_is_refused_where_nothing_follows(tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: uec}}\n"
        "workload: {training: {model: mpt-125m, global_batch: 16, sequence: 2048, parallelism: {tp: 4}}}\n"
    )
    assert guard.run(["tune", str(scenario), "--online", "--quiet"]) == 2
    assert "settings follow a run where DCQCN runs over switches with PFC" in capsys.readouterr().err


def test_the_command_and_the_key(tmp_path, capsys):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: rail-optimized, fabric: roce}}\n"
        "workload: {training: {model: mpt-125m, global_batch: 16, sequence: 2048, parallelism: {tp: 4}}}\n"
        "packet: {budget_hops: 50000}\ntune: {unseen_seeds: 2, unseen_loads: [0], twins: 1}\n"
    )
    assert guard.run(["tune", str(scenario), "--online", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    fixed = ["fixed 4 Gb/s every 10 us", "fixed 20 Gb/s every 5 us"]
    assert list(found["steps_s"]) == ["as written", "as written, again", *fixed, "online"]
    assert all(len(steps) == 2 for steps in found["steps_s"].values())
    assert all(len(twins) == 1 for cases in found["twins_s"].values() for twins in cases)
    assert guard.run(["tune", str(scenario), "--online", "--env", str(tmp_path / "e")]) == 2
    assert "--env has no meaning with --online" in capsys.readouterr().err


# Tails before and after: quantiles by nearest rank, gains pair by pair with Student's interval, pooled
# curves.


def judging_run(values, *, flows=None):
    timed = {"collectives": Times.of(np.asarray(values, np.float64))}
    return TimedStep(1.0, 1.0, timed | ({} if flows is None else {"flows": Times.of(np.asarray(flows, np.float64))}))


def test_quantiles_are_values_that_were_seen():
    times = Times.of(np.arange(1000.0, 0.0, -1.0))
    assert (times.count, times.at(0.5), times.at(0.99), times.at(0.999), times.at(1.0)) == (1000, 500, 990, 999, 1000)
    assert len(SHARES) == 118
    assert sorted(set(SHARES)) == list(SHARES)


def test_gains_are_of_pairs_and_of_tails_with_enough_behind_them():
    pairs = [
        (judging_run(100 * scale * np.arange(1, 101)), judging_run(keep * 100 * scale * np.arange(1, 101)))
        for scale, keep in ((1, 0.7), (3, 0.8))
    ]
    found = {one.tail: one for one in tail_gains(pairs)}
    assert list(found) == ["p50", "p99", "slowest"]
    half = 6.314 * (np.log(0.8) - np.log(0.7)) / 2
    middle = np.log(0.56) / 2
    seen = (found["p99"].gain, found["p99"].low, found["p99"].high)
    assert seen == pytest.approx((1 - np.exp(middle), 1 - np.exp(middle + half), 1 - np.exp(middle - half)))
    assert found["p50"].before_us == pytest.approx(5000 * np.sqrt(3))
    assert found["p50"].after_us == pytest.approx(5000 * np.sqrt(3 * 0.56))


def test_what_only_some_runs_timed_is_left_out():
    pairs = 2 * [(judging_run([1, 2], flows=[5, 6]), judging_run([1, 1]))]
    assert [one.what for one in tail_gains(pairs)] == ["collectives"] * 2
    assert list(curves(pairs)) == ["collectives"]


def test_curves_pool_all_cases_by_their_numbers():
    few, many = judging_run(np.full(100, 8.0)), judging_run(np.full(300, 2.0))
    before, after = curves([(few, few), (many, many)])["collectives"]
    assert before == after
    assert dict(before)[2.0] == pytest.approx(0.25)
    assert before[-1] == (8.0, pytest.approx(0.0, abs=1e-12))
    shares = [share for _, share in before]
    assert shares == sorted(shares, reverse=True)
