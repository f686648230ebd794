"""Jobs drawn of several kinds."""

import numpy as np
import pytest

from railyard.work.operate.prepare import prepare
from railyard.work.scenario.load import from_values
from railyard.work.scenario.variants import expand

LEAFS = {"topology": {"kind": "leaf-spine", "ports_per_leaf": 32}}
CLUSTER = {"accelerators": 256, "server": "hgx-h100", "back_end": LEAFS}
KINDS = [
    {"share": 3, "sizes": {"1": 1.0}, "median": "10 min", "p90": "1 h", "tenant": "lab"},
    {"sizes": {"32": 1.0}, "within": "leaf", "priority": 5, "tenant": "train", "least_accelerators": 16},
    {"share": 0.5, "sizes": {"64": 0.5, "128": 0.5}, "segment": 4, "segment_within": "leaf", "work": "language"},
    {"share": 0.5, "sizes": {"64": 1.0}, "replica_accelerators": 16, "load": 0.7, "prefers": "leaf"},
]


def jobs(kinds=KINDS, seed=0, **section):
    drawn = {"count": 2000, "load": 0.9, "sizes": {"8": 1.0}, "tenants": 2, "kinds": kinds, **section}
    work = {"operate": {"jobs": {"synthetic": drawn}, "placement": "kueue"}}
    return prepare(expand(from_values({"name": "x", "seed": seed, "cluster": CLUSTER, "workload": work}))[0]).jobs


def test_each_kind_has_what_it_says():
    found = jobs()
    size = found.accelerators
    tenant = np.array(found.tenants)[found.tenant]
    asks = np.array([found.asks[number] for number in found.ask], object)
    small, medium, serving = size == 1, size == 32, found.replica > 0
    sliced = ~small & ~medium & ~serving
    share = np.array([one.mean() for one in (small, medium, sliced, serving)])
    assert share == pytest.approx([0.6, 0.2, 0.1, 0.1], abs=0.03)
    assert set(tenant[small]) == {"lab"}
    assert set(tenant[medium]) == {"train"}
    assert set(tenant[sliced]) == {"tenant-0", "tenant-1"}
    assert {(one.within, one.prefers, one.segment, one.segment_within) for one in asks[sliced]} == {("", "", 4, "leaf")}
    assert {one.within for one in asks[medium]} == {"leaf"}
    assert {one.prefers for one in asks[serving]} == {"leaf"}
    assert set(found.priority[medium]) == {5}
    assert set(found.least_nodes[medium]) == {2}
    assert (found.least_nodes[~medium] == found.nodes[~medium]).all()
    assert set(found.replica[serving]) == {2}
    assert set(found.load_ppm[serving]) == {700_000}
    assert {found.classes[one] for one in found.work[sliced]} == {"language"}
    assert np.median(found.work_us[small]) == pytest.approx(600e6, rel=0.15)
    assert np.median(found.work_us[medium]) == pytest.approx(1800e6, rel=0.25)
    asked = float((found.accelerators * found.work_us).sum())
    assert asked / 256 / found.submit_us[-1] == pytest.approx(0.9, rel=1e-3)


def test_one_kind_is_what_jobs_without_kinds_are():
    plain, named = jobs([]), jobs([{"sizes": {"8": 1.0}}])
    for name in ("submit_us", "work_us", "nodes", "tenant"):
        assert np.array_equal(getattr(plain, name), getattr(named, name))
    assert not np.array_equal(plain.work_us, jobs([], seed=1).work_us)
