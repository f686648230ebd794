"""Closed forms of transports at points computed by hand, and what must hold for any path."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.edge.transport import carried_s, goodput_bps, transfer_s, transports
from railyard.kit.errors import InputError
from railyard.work.federated.algorithm import Candidates, algorithms, selections
from railyard.work.federated.messages import LearnedModel, Scheme, curve, curves, messages
from railyard.work.federated.section import PrivacySection
from railyard.work.federated.updates import compressions, secrecies
from railyard.work.local.method import BACKWARD, Synchronous
from railyard.work.training.sync.local import DiLoCo, StreamingDiLoCo, utilization

CUBIC, BBR, QUIC = (transports.get(name) for name in ("cubic", "bbr", "quic-cubic"))


def test_goodput_without_loss():
    assert float(goodput_bps(CUBIC, 20e6, 0.1, 0.0)) == pytest.approx(20e6 * 1448 / 1500)
    assert float(goodput_bps(BBR, 20e6, 0.1, 0.01)) == pytest.approx(20e6 * 1448 / 1500 * 0.98 * 0.99)
    assert float(goodput_bps(QUIC, 20e6, 0.1, 0.0)) == pytest.approx(20e6 * 1165 / 1228)


def test_bits_are_those_that_pass_at_the_goodput():
    total, bits = carried_s(CUBIC, 1448 * 10_000, 20e6, 0.1, 0.0)
    assert float(bits) == pytest.approx(10_000 * 1448 * 8 / 19.306667e6, rel=1e-6)
    assert float(total) == pytest.approx(0.5 + 9_690 * 1448 * 8 / 19.306667e6 + 0.05, rel=1e-6)
    # One window takes its bits and half a round trip; all of a transfer that ends sooner than its bits would is bits.
    total, bits = carried_s(CUBIC, [1448 * 10, 0], 20e6, 0.1, 0.0)
    assert bits == pytest.approx([10 * 1448 * 8 / 19.306667e6, 0.0], rel=1e-6)
    assert total.shape == bits.shape == (2,)


def test_quic_has_no_timeouts():
    # RFC 9002, section 6.2: a probe does not cut the window, so that only the mean window counts; 12.247 packets.
    assert float(goodput_bps(QUIC, 50e6, 0.01, 0.01)) == pytest.approx(150**0.5 / 0.01 * 1165 * 8, rel=1e-6)


def test_columns_are_broadcast():
    found = transfer_s(CUBIC, np.array([[1e6], [2e6]]), [1e6, 2e6, 3e6], 0.1, 0.0)
    assert found.shape == (2, 3)
    assert found[1, 2] == float(transfer_s(CUBIC, 2e6, 3e6, 0.1, 0.0))
    assert transfer_s(CUBIC, np.zeros(0), 1e6, 0.1, 0.0).shape == (0,)


def test_goodput_under_loss():
    # p 0.001, RTT 0.05: CUBIC 19.8 packets, Reno 38.73; timeouts 0.25 * 0.05809 * 0.00100003.
    packets = 1.0 / (0.05 / 38.7298 + 0.25 * 0.0580948 * 0.001000032)
    assert float(goodput_bps(CUBIC, 50e6, 0.05, 0.001)) == pytest.approx(packets * 1448 * 8, rel=1e-4)


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (0, 0.0),
        (1448 * 10, 10 * 1448 * 8 / 19.306667e6 + 0.05),  # one window: its bits and half a round trip
        (1448 * 70, 2 * 0.1 + 40 * 1448 * 8 / 19.306667e6 + 0.05),  # 10, 20, 40 packets
    ],
)
def test_short_transfers(size, seconds):
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0)) == pytest.approx(seconds, rel=1e-6)


def test_long_transfers():
    # The window reaches 161 packets after 5 doublings with 310 packets sent; the rest goes at the line's rate.
    size = 1448 * 10_000
    expected = 0.5 + 9_690 * 1448 * 8 / 19.306667e6 + 0.05
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0)) == pytest.approx(expected, rel=1e-6)
    assert float(transfer_s(CUBIC, size, 20e6, 0.1, 0.0, warm=True)) == pytest.approx(
        10_000 * 1448 * 8 / 19.306667e6 + 0.05, rel=1e-6
    )


def test_a_window_forgets_its_start():
    # 2 losses in 2,000 packets: the window is 161 at the first, so that they go at the line's rate or little below it,
    # where the mean of 38.7 packets would take 5.2 s; measured in namespaces such transfers take 40 to 60 % of that.
    size = 1448 * 2310
    mean_s = 2000 * 1448 * 8 / float(goodput_bps(CUBIC, 20e6, 0.1, 0.001))
    took = float(transfer_s(CUBIC, size, 20e6, 0.1, 0.001))
    assert 0.55 + 1.2 <= took <= 0.55 + 0.5 * mean_s
    # After many losses the start no longer shows.
    long_s = (
        float(transfer_s(CUBIC, 1448 * 1e6, 20e6, 0.1, 0.001))
        / (1e6 * 1448 * 8)
        * float(goodput_bps(CUBIC, 20e6, 0.1, 0.001))
    )
    assert long_s == pytest.approx(1.0, abs=0.02)


paths = st.tuples(st.floats(1e5, 1e10), st.floats(1e-4, 1.0), st.floats(0.0, 0.1), st.integers(1, 10**9))


@settings(deadline=None)
@given(paths, st.sampled_from(sorted(transports)))
def test_nothing_is_faster_than_light_and_line(path, name):
    rate, rtt, loss, size = path
    transport = transports.get(name)
    took = float(transfer_s(transport, size, rate, rtt, loss))
    assert took >= rtt / 2.0 + size * 8.0 / rate * 0.999
    assert float(goodput_bps(transport, rate, rtt, loss)) <= rate


@settings(deadline=None)
@given(paths, st.sampled_from(sorted(transports)))
def test_more_bytes_take_no_less(path, name):
    rate, rtt, loss, size = path
    transport = transports.get(name)
    assert float(transfer_s(transport, 2 * size, rate, rtt, 0.0)) >= float(transfer_s(transport, size, rate, rtt, 0.0))
    assert (
        float(goodput_bps(transport, rate, rtt, loss)) <= float(goodput_bps(transport, 2 * rate, rtt, loss)) * 1.000001
    )


# Bytes and computation of participants, against the figures of papers.

MODEL = LearnedModel(1e6, 6e6)
FEDAVG = algorithms.get("fedavg")()


def sent(algorithm="fedavg", clients=40, **more):
    return messages(MODEL, Scheme(algorithms.get(algorithm)(), **more), clients)


@pytest.mark.parametrize(("users", "numbers", "expansion"), [(2**10, 2**20, 1.73), (2**14, 2**24, 1.98)])
def test_secagg_as_published(users, numbers, expansion):
    # Bonawitz et al. 2017, abstract: 16-bit values, 1.73 and 1.98 times the bytes of data in the clear.
    found = messages(LearnedModel(numbers, 1.0, 16), Scheme(FEDAVG, secrecy=secrecies.get("secagg")()), users)
    total = found.up_bytes + sum(stage.up_bytes + stage.down_bytes for stage in (*found.before, *found.after))
    assert round(total / (2 * numbers), 2) == expansion


def test_secagg_plus_shares_with_neighbours():
    few, all_others = secrecies.get("secagg-plus")(), secrecies.get("secagg")()
    assert few.partners(100_000) == 100
    assert few.partners(40) == math.ceil(20 * math.log10(40)) == 33
    assert secrecies.get("secagg-plus")(neighbours=7).partners(40) == 7
    assert few.partners(5) == all_others.partners(5) == 4
    stages = few.before(100_000)
    assert stages[0].up_bytes == 64
    assert stages[0].down_bytes == 6400
    assert stages[1].up_bytes == stages[1].down_bytes == 6400
    assert few.after(100_000)[0].up_bytes == 101 * 32
    assert all_others.value_bits(1000, 32) == 42
    assert all_others.unmask_bytes(40, 3, 10.0) == (37 + 3 * 39) * 10


@pytest.mark.parametrize(
    ("algorithm", "down", "up", "state"),
    [
        ("fedavg", 4e6, 4e6, 12e6),
        ("fedprox", 4e6, 4e6, 16e6),
        ("scaffold", 8e6, 8e6, 20e6),
        ("fedbuff", 4e6, 4e6, 12e6),
        ("split", 4e5, 4e5, 1.2e6),
    ],
)
def test_models_each_way(algorithm, down, up, state):
    found = sent(algorithm)
    assert (found.down_bytes, found.up_bytes, found.state_bytes) == pytest.approx((down, up, state))


def test_split_leaves_the_rest_to_the_server():
    found = sent("split")
    assert found.crossing_bytes == 50_000
    assert found.flop_per_sample == pytest.approx(6e5)
    assert found.server_flop_per_sample == pytest.approx(5.4e6)


@pytest.mark.parametrize(
    ("name", "values", "size"),
    [
        ("top-k", {"density": 0.01}, (10_000 * 32 + 10_000 * 20) / 8),  # 20 bits address a million numbers
        ("top-k", {"density": 0.5}, (500_000 * 32 + 1_000_000) / 8),  # a bit map is shorter than indices
        ("quantized", {"value_bits": 8}, (1_000_000 * 8 + 977 * 32) / 8),
        ("quantized", {"value_bits": 32}, 4_000_000),
        ("low-rank", {"rank": 4, "width": 512}, 1_000_000 * 2 * 4 / 512 * 4),
    ],
)
def test_compression(name, values, size):
    found = sent(compression=compressions.get(name)(**values))
    assert found.up_bytes == pytest.approx(size)
    assert found.down_bytes == 4e6
    assert found.flop > 0


def test_error_feedback_is_kept():
    assert sent(compression=compressions.get("top-k")()).state_bytes == 16e6
    assert sent(compression=compressions.get("top-k")(error_feedback=False)).state_bytes == 12e6


def test_noise():
    assert sent(privacy=PrivacySection(place="client", extra_bits=4)).up_bytes == pytest.approx(4.5e6)
    assert sent(privacy=PrivacySection(place="client")).flop == pytest.approx(44e6)
    assert sent(privacy=PrivacySection(place="server")).flop == pytest.approx(4e6)
    assert sent(privacy=PrivacySection(place="server")).server_flop_a_round == pytest.approx(40e6)


@pytest.mark.parametrize("registry", [algorithms, compressions, secrecies, selections], ids=lambda one: one.kind)
def test_contract(registry):
    for name, record in registry.items():
        assert record.kind == name
        assert record.source
        assert record().problems() == []


@pytest.mark.parametrize(
    ("record", "values"),
    [
        (algorithms.get("fedprox"), {"least_work": 0.0}),
        (algorithms.get("fedbuff"), {"size": 0}),
        (algorithms.get("split"), {"at_client": 1.0}),
        (algorithms.get("hierarchical"), {"rounds": 0}),
        (compressions.get("top-k"), {"density": 0.0}),
        (compressions.get("low-rank"), {"rank": 1000}),
        (compressions.get("quantized"), {"value_bits": 0}),
        (secrecies.get("secagg"), {"threshold_share": 0.5}),
        (secrecies.get("secagg-plus"), {"neighbours": -1}),
        (selections.get("fastest"), {"candidates": 0.5}),
    ],
)
def test_impossible_values(record, values):
    assert [row[1] for row in record(**values).problems()] == list(values)


def test_selection():
    import numpy as np

    some = Candidates(np.array([5.0, 1.0, 9.0, 3.0]), np.ones(4), np.zeros(4, int), 2, 4.0)
    assert selections.get("random")().choose(some).tolist() == [0, 1]
    assert selections.get("fastest")().choose(some).tolist() == [1, 3]
    assert selections.get("within-deadline")().choose(some).tolist() == [1, 3]


def test_published_rows():
    assert curve("mnist-cnn-iid").rounds == 20
    assert all(row.source and row.rounds > 0 and row.participants > 0 for row in curves().values())
    with pytest.raises(InputError) as raised:
        curve("mnist-cnn-idd")
    assert raised.value.problems[0].hint == "did you mean `mnist-cnn-iid`?"


# Published figures of training over the world's links: INTELLECT-1, DiLoCo's scaling laws, Streaming DiLoCo.

DATA = Path(__file__).parents[3] / "validation" / "data" / "edge"
GRID = np.logspace(-1, 3, 50)
"""Gbit/s that the papers tried: what they publish is the least of these, a step is 20.7 %."""


def rows(name):
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows("intellect1.csv"), ids=lambda row: row["where"])
def test_intellect_1(row):
    # Ten billion parameters over up to three continents (arXiv 2412.01152, table 2): from the published all-reduce.
    used = utilization(DiLoCo(100, 0, 8, 0.0), float(row["all_reduce_s"]), float(row["inner_min"]) * 60.0 / 100.0)
    assert 100 * used == pytest.approx(float(row["compute_utilization"]), abs=0.15)
    assert 43.3 * used == pytest.approx(float(row["mfu"]), rel=0.01)


def method(row):
    steps, parts = int(row["inner_steps"]), max(int(row["layers"]) // 3, 1)
    kinds = {
        "data-parallel": Synchronous(),
        "diloco": DiLoCo(steps, 0, 16, BACKWARD),
        "streaming": StreamingDiLoCo(steps, 0, parts, BACKWARD, 16),
        "streaming overlapped": StreamingDiLoCo(steps, 0, parts, 1.0 + BACKWARD, 16),
        "streaming overlapped 4 bits": StreamingDiLoCo(steps, 0, parts, 1.0 + BACKWARD, 4),
    }
    return kinds[row["method"]]


def test_rates_that_diloco_needs():
    # Table 4 of arXiv 2501.18512 and table 6 of 2503.09799: three rates in four within one step of the papers' grid.
    apart = []
    for row in rows("streaming_diloco.csv"):
        updates, step_s = method(row), float(row["step_s"])
        bits = float(row["parameters"]) * updates.bits
        for goal in (50, 80, 90, 95, 99):
            ours = next(rate for rate in GRID if utilization(updates, bits / (rate * 1e9), step_s) >= goal / 100)
            apart.append(round(float(np.log(ours / float(row[f"cu{goal}"])) / np.log(GRID[1] / GRID[0]))))
    distance = np.abs(apart)
    assert len(apart) == 145
    assert [(distance == 0).sum(), (distance <= 1).sum(), distance.max()] == [19, 106, 4]
