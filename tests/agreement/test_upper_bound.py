"""`ideal` is the upper bound: no fabric is faster, for the same algorithms, in one collective or in a whole step."""

from __future__ import annotations

import pytest
from tests.agreement import traffic, yard
from tests.agreement.test_conservation import SHAPES, SIZES
from tests.agreement.test_engines import DENSE, job

from railyard import engine
from railyard.cluster import fabrics
from railyard.cluster.topology import RailOptimized
from railyard.collective import CollectivePolicy
from railyard.graph import CollectiveKind, Job
from railyard.work.training.graphs import build

REAL = [name for name in fabrics.names() if name != "ideal"]
LEAFS = RailOptimized(servers_per_leaf=2)

# Steps may differ by this for another reason: a communication that ends earlier can meet others at a worse moment.
ANOMALY = 1 + 5e-4


@pytest.mark.parametrize("fabric", REAL)
def test_goodput_of_a_nic_is_at_most_the_ideal_one(fabric):
    assert fabrics.get(fabric).payload_efficiency <= fabrics.get("ideal").payload_efficiency


@pytest.mark.parametrize("fabric", REAL)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-b200", "mi300x-8"])
def test_no_fabric_beats_ideal_in_a_collective(fabric, server):
    ideal, real = (yard.machine(64, name, LEAFS, server) for name in ("ideal", fabric))
    for kind in yard.KINDS:
        for where, ranks in SHAPES.items():
            bound = yard.table(ideal, kind, SIZES, list(ranks)).alone_ps
            found = yard.table(real, kind, SIZES, list(ranks)).alone_ps
            assert (found >= bound).all(), (kind, where)


@pytest.mark.parametrize("fabric", REAL)
def test_no_fabric_beats_ideal_with_the_same_algorithm(fabric):
    ideal, real = (yard.machine(64, name, LEAFS, link_rate_bps=100e9) for name in ("ideal", fabric))
    for kind, algorithm in traffic.BETWEEN:
        what = CollectiveKind[kind.upper().replace("-", "_")]
        bound, found = (yard.one(cluster, what, algorithm).makespan_ps for cluster in (ideal, real))
        assert bound <= found, (kind, algorithm)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("fabric", REAL)
def test_no_fabric_beats_ideal_in_a_step(name, fabric):
    model, layout = DENSE[name]
    policy = CollectivePolicy(selector="best")
    what, steps = job(model, **layout), []
    for each in ("ideal", fabric):
        cluster = yard.machine(64, each, LEAFS)
        steps.append(engine.get("flow").simulate([Job(build(what, cluster))], cluster, policy=policy).makespan_ps)
    assert steps[0] <= steps[1] * ANOMALY


@pytest.mark.parametrize("name", ["pipeline", "data", "context"])
@pytest.mark.parametrize("fabric", ["infiniband", "roce"])
def test_a_fabric_makes_no_difference_where_no_nic_is_used(name, fabric):
    """64 GPUs in one scale-up domain of 72: what lies behind their NICs cannot matter."""
    model, layout = DENSE[name]
    steps = []
    for each in ("ideal", fabric):
        cluster = yard.machine(64, each, LEAFS, "gb200-nvl72")
        steps.append(engine.get("flow").simulate([Job(build(job(model, **layout), cluster))], cluster).makespan_ps)
    assert steps[0] == pytest.approx(steps[1], rel=1e-9)
