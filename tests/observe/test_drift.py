"""Constants that follow a cluster: by hand for one collective, and on drifting streams whose truth is known."""

import json

import numpy as np
import pytest

from railyard.ask.observe.answer import cluster_of
from railyard.ask.observe.expected import Constants, Drift, TimedClass, expected_s
from railyard.ask.observe.readers.nccl import _noted_s
from railyard.face.cli import guard

CLUSTER = """
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: {kind: leaf-spine, ports_per_leaf: 16, spines: 4}, fabric: infiniband}
"""


def stream(rng, hours, truth, *, noise=0.03, a_minute=4, names=("AllReduce 8",)):
    """Collectives of many sizes; `truth(name, hour)` is extra and factor."""
    for number in range(round(hours * 60 * a_minute)):
        at = 1e9 // 3600 * 3600 + number * 60 / a_minute
        for name in names:
            expected = float(np.exp(rng.uniform(np.log(50e-6), np.log(50e-3))))
            extra, factor = truth(name, number / a_minute / 60)
            yield TimedClass(at, name, expected, (extra + factor * expected) * float(np.exp(rng.normal(0, noise))))


def test_one_collective_by_hand():
    """Expected 1 ms, took 1.1: variance 30 us^2 + 150 us^2 of the model, 50 us^2 of one time; gains by share."""
    found = Constants()
    found.learn(TimedClass(0.0, "x", 1e-3, 1.1e-3))
    unsure = 30e-6**2 + 150e-6**2 + 50e-6**2
    assert found.estimate[0] == pytest.approx(30e-6**2 / unsure * 100e-6)
    assert found.estimate[1] == pytest.approx(1 + 0.15**2 * 1e-3 / unsure * 100e-6)
    assert found.noise == pytest.approx((0.98 * 0.05**2 + 0.02 * 0.1**2) ** 0.5)
    assert found.count == 1


def test_a_model_that_is_right_is_left_alone():
    found = Drift()
    found.take(stream(np.random.default_rng(1), 3, lambda name, hour: (0.0, 1.0)))
    assert len(found.changes) <= 3
    assert all(abs(hour.plain()["mape"] - hour.plain()["mape_model"]) < 0.001 for hour in found.hours)
    assert [hour.count for hour in found.hours] == [240, 240, 240]


def test_a_slow_drift_is_followed():
    """5 % an hour for eight hours: the model is 40 % wrong at its end, the applied constants by about the noise."""
    found = Drift()
    found.take(stream(np.random.default_rng(2), 8, lambda name, hour: (20e-6, 1.0 + 0.05 * hour)))
    last = found.hours[-1].plain()
    assert last["mape_model"] > 0.25
    assert all(hour.plain()["mape"] < 0.044 for hour in found.hours[1:])
    assert 2 <= len(found.changes) <= 120


def test_a_sudden_change_is_an_event_and_an_outlier_is_none():
    found = Drift()
    calm = list(stream(np.random.default_rng(3), 2, lambda name, hour: (0.0, 1.0)))
    odd = [
        TimedClass(one.at_s, one.name, one.expected_s, 40 * one.seconds) if at in (100, 300) else one
        for at, one in enumerate(calm)
    ]
    found.take(odd)
    assert max((abs(change.after / change.before - 1) for change in found.changes), default=0) < 0.1
    later = [TimedClass(one.at_s + 7200, one.name, one.expected_s, 1.3 * one.seconds) for one in calm]
    found.take(later)
    assert found.classes["AllReduce 8"].factor == pytest.approx(1.3, abs=0.03)
    assert found.hours[-1].plain()["mape"] < 0.044


def test_classes_do_not_mix():
    truth = {"a": (0.0, 1.0), "b": (50e-6, 1.2)}
    found = Drift()
    found.take(stream(np.random.default_rng(4), 2, lambda name, hour: truth[name], names=("a", "b")))
    assert found.classes["a"].factor == pytest.approx(1, abs=0.01)
    assert found.classes["b"].factor == pytest.approx(1.2, abs=0.03)
    assert found.classes["b"].extra_s == pytest.approx(50e-6, abs=5e-6)


def test_hours_of_an_inspector_log(tmp_path, capsys):
    """Three hours of all-reduces that take 1.25 times as long as the model expects: learned in the first."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    should = expected_s(cluster_of(cluster), "all_reduce", 1 << 26, 16, 2)
    lines = []
    for minute in range(180):
        perf = {"coll": "AllReduce", "coll_msg_size_bytes": 1 << 26, "coll_exec_time_us": 1.25e6 * should}
        header = {"id": "0x1", "rank": 0, "n_ranks": 16, "nnodes": 2}
        noted = {"dump_timestamp_us": 1_700_002_800_000_000 + minute * 60_000_000}
        lines.append(json.dumps({"header": header, "metadata": noted, "coll_perf": perf}))
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert guard.run(["observe", str(tmp_path / "log.jsonl"), "--cluster", str(cluster), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [hour["collectives"] for hour in found["hours"]] == [60, 60, 60]
    assert found["hours"][2]["mape_model"] == pytest.approx(0.2)
    assert found["hours"][2]["mape"] < 0.01
    assert found["constants"][0]["class"] == "all_reduce 16 over 2"
    assert guard.run(["observe", str(tmp_path / "log.jsonl"), "--cluster", str(cluster)]) == 0
    assert "2023-11-14 23:00" in capsys.readouterr().out


@pytest.mark.parametrize(
    "noted", [None, {}, {"dump_timestamp_us": "soon"}, {"dump_timestamp_us": -1}, {"dump_timestamp_us": True}]
)
def test_times_that_are_none_are_no_times(noted):
    assert np.isnan(_noted_s(noted))
