"""The packet section of a result against what numpy says of the same flows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.graph import Label, Record
from railyard.measure.network import POINTS, distribution, packet_section

TIMES = st.lists(st.integers(1, 10**9), min_size=1, max_size=400)


def flows(fct_ps, *, group=None, groups=()):
    fct = np.asarray(fct_ps, np.int64)
    number = np.arange(len(fct), dtype=np.int32)
    return Record(
        rows="flows",
        who=number,
        what=np.zeros(len(fct), np.int32) if group is None else group.astype(np.int32),
        start_ps=np.zeros(len(fct), np.int64),
        end_ps=fct,
        size_bytes=np.full(len(fct), 1000),
        labels=[Label("", name) for name in groups],
        optional={"target": number + np.int32(1)},
    )


@given(TIMES)
def test_percentiles_are_those_of_the_nearest_rank(times):
    found = packet_section(flows(times), {"new": 5}).plain()["fct_us"]
    for key, percent in (("p50", 50), ("p99", 99), ("p999", 99.9)):
        assert found[key] == pytest.approx(np.percentile(times, percent, method="inverted_cdf") / 1e6)
    assert found["min"] == min(times) / 1e6
    assert found["max"] == max(times) / 1e6


@given(TIMES)
def test_the_distribution_holds_true_points_only(times):
    points = distribution(np.asarray(times, float))
    assert len(points) <= POINTS
    assert points[-1] == (max(times), 1.0)
    assert list(points) == sorted(points)
    ordered = np.sort(times)
    for time, share in points:
        assert ordered[round(share * len(times)) - 1] == time


def test_the_slowest_of_many_have_their_own_points():
    points = distribution(np.arange(1.0, 100_001.0))
    assert [time for time, _ in points[-4:]] == [99_997, 99_998, 99_999, 100_000]


def test_groups_and_their_slowest_are_named():
    found = packet_section(flows([5, 9, 7, 1], group=np.array([0, 0, 1, 1]), groups=("a", "b")), {}).plain()
    rows = {row["group"]: row for row in found["tails"]}
    assert set(rows) == {"all", "a", "b"}
    assert rows["b"]["slowest"] == "h2->h3"
    assert rows["all"]["slowest"] == rows["a"]["slowest"] == "h1->h2"


def test_flows_that_never_finished_count_as_flows_only():
    part = flows([5, -1, 7])
    found = packet_section(part, {"new": 3}).plain()
    assert (found["flows_total"], found["flows_finished"]) == (3, 2)
    assert found["tails"][0]["flows"] == 2
    none = packet_section(flows([-1]), {"new": 3}).plain()
    assert none["tails"] == []
    assert none["fct_us"]["max"] is None
    assert none["last_finish_us"] is None
