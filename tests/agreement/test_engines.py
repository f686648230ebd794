"""`analytic` against `flow` where nothing contends, and both against the closed form of a whole step."""

from __future__ import annotations

import numpy as np
import pytest
from tests.agreement import traffic, yard

from railyard import engine
from railyard.cluster.topology import LeafSpine, RailOptimized
from railyard.graph import CollectiveKind, Job
from railyard.model.machine import Machine
from railyard.work.training.designs import estimate
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training


def both(what, cluster, **more):
    return [engine.get(name).simulate([Job(what)], cluster, **more) for name in ("flow", "analytic")]


@pytest.mark.parametrize("size", [4096, yard.MIB, yard.GIB])
@pytest.mark.parametrize(("kind", "algorithm"), traffic.BETWEEN)
@pytest.mark.parametrize("fabric", ["ideal", "roce", "scheduled"])
def test_a_single_collective_is_alone_on_both(kind, algorithm, size, fabric):
    cluster = yard.machine(64, fabric, RailOptimized())
    kind = CollectiveKind[kind.upper().replace("-", "_")]
    flow, analytic = (yard.one(cluster, kind, algorithm, size, name=name) for name in ("flow", "analytic"))
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=1e-6)
    assert flow.makespan_ps == pytest.approx(flow.column("alone_ps")[0], rel=1e-6)


@pytest.mark.parametrize("size", [100, 10_000, yard.MIB, yard.GIB])
@pytest.mark.parametrize("target", [1, 7, 8, 9, 63])
def test_a_single_transfer_is_alone_on_both(target, size):
    cluster = yard.machine(64, "roce", LeafSpine(ports_per_leaf=8))
    flow, analytic = (yard.transfers(cluster, [(0, target)], size, name=name) for name in ("flow", "analytic"))
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=1e-6)
    rate_bps = 450e9 * 8 if target < 8 else 400e9
    assert flow.makespan_ps * 1e-12 >= 8 * size / rate_bps


def test_transfers_that_share_nothing_do_not_notice_one_another():
    cluster = yard.machine(64, "ideal")
    ends = [(rank, (rank + 8) % 64) for rank in range(64)]
    flow, analytic = (yard.transfers(cluster, ends, name=name) for name in ("flow", "analytic"))
    assert np.allclose(flow.end_ps, analytic.end_ps, rtol=1e-6)


DENSE = {
    "data": ("llama-3-8b", {"tp": 2, "dp": 32, "global_batch": 128}),
    "fsdp": ("llama-3-8b", {"dp": 64, "zero": 3, "global_batch": 128}),
    "pipeline": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "global_batch": 64}),
    "interleaved": (
        "llama-3-70b",
        {"tp": 8, "pp": 4, "dp": 2, "vp": 5, "schedule": "interleaved", "global_batch": 64},
    ),
    "zero-bubble": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "schedule": "zero-bubble", "global_batch": 64}),
    "context": ("llama-3-70b", {"tp": 8, "pp": 2, "dp": 2, "cp": 2, "global_batch": 32}),
}


def job(model, **layout):
    return Training(
        model=yard.known().model(model), layout=Layout(**layout), seq_len=8192, software=SoftwareProfile(name="test")
    )


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-a100", "mi300x-8"])
def test_dense_steps_on_ideal_agree_within_3_percent(name, server):
    model, layout = DENSE[name]
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    flow, analytic = both(build(job(model, **layout), cluster), cluster)
    # A communication that ends earlier can meet another at a worse moment.
    assert analytic.makespan_ps <= flow.makespan_ps * (1 + 5e-4)
    assert flow.makespan_ps == pytest.approx(analytic.makespan_ps, rel=0.03)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("server", ["hgx-h100", "hgx-a100"])
def test_dense_steps_follow_the_closed_form(name, server):
    model, layout = DENSE[name]
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    found = engine.get("flow").simulate([Job(build(job(model, **layout), cluster))], cluster).makespan_ps * 1e-12
    expected = float(estimate([job(model, **layout)], [Machine.of(cluster)]).step_s[0])
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("server", ["mi300x-8", "gaudi3-8"])
def test_tensor_parallelism_of_two_on_a_mesh_follows_the_closed_form(server):
    cluster = yard.machine(64, "ideal", RailOptimized(), server)
    what = job("llama-3-8b", tp=2, dp=32, global_batch=128)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    expected = float(estimate([what], [Machine.of(cluster)]).step_s[0])
    assert found == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("ctas", [0, 20, 50])
@pytest.mark.parametrize("name", ["data", "fsdp", "interleaved"])
def test_what_collectives_take_from_computation_is_the_same_in_both(name, ctas):
    """Reductions over slow NICs run under most of a pass; the more compute units they hold, the longer the step."""
    model, layout = DENSE[name]
    software = SoftwareProfile(name="test", data_ctas=ctas)
    what = job(model, **layout).replace(software=software)
    cluster = yard.machine(64, "ideal", RailOptimized(), link_rate_bps=2e11)
    free = what.replace(software=SoftwareProfile(name="test", data_ctas=0))
    graphs = [build(each, cluster) for each in (what, free)]
    found, base = (engine.get("flow").simulate([Job(graph)], cluster).makespan_ps * 1e-12 for graph in graphs)
    expected, nothing = (float(step) for step in estimate([what, free], [Machine.of(cluster)] * 2).step_s)
    # The closed form hides half of a step's reductions (`gradient_overlap`), the graph whatever fits under a pass.
    assert found == pytest.approx(expected, rel=0.08 if name == "data" else 0.05)
    # Each stage of a pipeline loses what the closed form counts once.
    assert 0.3 * (expected - nothing) <= found - base <= expected - nothing + 0.03 * base


@pytest.mark.parametrize("shard", [8, 16])
@pytest.mark.parametrize("batch", [64, 256])
def test_hybrid_sharding_follows_the_closed_form(shard, batch):
    """Shards inside a server or over two, their sums over the others behind each scatter, one micro-batch or four."""
    cluster = yard.machine(64, "ideal", RailOptimized())
    what = job("llama-3-8b", dp=64, zero=3, fsdp_shard=shard, global_batch=batch)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    assert found == pytest.approx(float(estimate([what], [Machine.of(cluster)]).step_s[0]), rel=0.03)


def test_dualpipe_follows_the_closed_form():
    cluster = yard.machine(512, "ideal", RailOptimized(), "hgx-h800")
    what = job(
        "deepseek-v3", pp=16, dp=32, ep=32, global_batch=32 * 60, schedule="dualpipe", overlap_expert=True
    ).replace(seq_len=4096)
    found = engine.get("flow").simulate([Job(build(what, cluster))], cluster).makespan_ps * 1e-12
    assert found == pytest.approx(float(estimate([what], [Machine.of(cluster)]).step_s[0]), rel=0.05)
