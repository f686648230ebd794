"""Memory pools: seconds of loads and stores by hand, who shares which link, optimizer state, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.cluster import ClusterSpec, FabricSpec, MemoryPoolSpec, NetworkSpec, bill_of, link_name
from railyard.collective import lower_pool
from railyard.graph import Job, Kind, Label, Stream, TaskGraph
from railyard.model.machine import Machine
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.designs import estimate
from railyard.work.training.memory import memory
from railyard.work.training.offload import Offload

IDEAL = NetworkSpec(fabric=FabricSpec("ideal"))


def machine(ranks=16, front_end=IDEAL, back_end=IDEAL, **pool):
    spec = ClusterSpec(ranks, "hgx-h100", back_end, front_end=front_end, memory_pool=MemoryPoolSpec(**pool))
    return cluster.build(spec, catalog.load())


def graph_of(*asked, ranks=1):
    """Requests of (rank, bytes, kind)."""
    rank, size, kind = (np.array(column) for column in zip(*asked, strict=True))
    return TaskGraph.of(
        ranks,
        kind=kind,
        rank=rank,
        size_bytes=size,
        stream=np.where(kind == Kind.LOAD, Stream.LOAD, Stream.STORE),
        labels=[Label("optimizer", "load state", "memory")],
    )


def seconds(on, *asked, name="flow", jobs=False):
    """When each request of (accelerator, bytes, kind) ends; with `jobs` each is a job of its own."""
    work = [Job(graph_of(*asked, ranks=on.ranks))]
    if jobs:
        work = [Job(graph_of((0, size, kind)), np.array([rank], np.int32)) for rank, size, kind in asked]
    return engine.get(name).simulate(work, on).end_ps * 1e-12


@pytest.mark.parametrize("name", ["flow", "analytic"])
def test_a_request_takes_its_bytes_over_the_slowest_link(name):
    """A box of 60 GB/s out and 30 in; x8 expanders, two a server, of 24 and 12; a host's PCIe link of 63."""
    box, pair = machine(name="cmm-b", units=1), machine(name="cz120-256gb", units=4)
    host = machine(network="host")
    for on, kind, rate, latency_ps in (
        (box, Kind.LOAD, 60e9, 596_000),
        (box, Kind.STORE, 30e9, 596_000),
        (pair, Kind.LOAD, 48e9, 275_000),
        (pair, Kind.STORE, 24e9, 275_000),
        (host, Kind.STORE, on_pcie(host), 100_000),
    ):
        took = seconds(on, (11, 7_300_000_001, kind), name=name)
        assert took[0] == pytest.approx(7_300_000_001 / rate + latency_ps * 1e-12, rel=1e-9)


def on_pcie(on):
    """Bytes a second of an accelerator's PCIe link."""
    return on.server.pcie_bps / 8


def test_two_jobs_share_the_memory_of_a_box():
    """10.4 GB through 60 GB/s; the smaller job has half of it until it has its 3.1 GB."""
    box = machine(name="cmm-b", units=1)
    took = seconds(box, (0, 7_300_000_000, Kind.LOAD), (9, 3_100_000_000, Kind.LOAD), jobs=True)
    assert took == pytest.approx([10.4 / 60, 3.1 / 30], rel=1e-4)
    apart = seconds(box, (0, 7_300_000_000, Kind.LOAD), (9, 3_100_000_000, Kind.STORE), jobs=True)
    assert apart == pytest.approx([7.3 / 60, 3.1 / 30], rel=1e-4), "the two directions do not meet"


def test_ranks_of_a_server_share_its_port():
    """63 GB/s at x16 for eight ranks; the other server's port is another one."""
    switch = machine(name="cxl2-switch-pool", units=1)
    both = seconds(switch, (0, 10**9, Kind.LOAD), (7, 10**9, Kind.LOAD), (8, 10**9, Kind.LOAD))
    assert both == pytest.approx([2 / 63, 2 / 63, 1 / 63], rel=1e-3)


def test_loads_and_stores_of_host_memory_share_it():
    """614.4 GB/s for both directions together: 16 streams at 38.4, below the 63 of PCIe."""
    host = machine(network="host")
    took = seconds(host, *[(rank, 10**9, kind) for rank in range(8) for kind in (Kind.LOAD, Kind.STORE)])
    assert took == pytest.approx([16 / 614.4] * 16, rel=1e-3)


def test_memory_of_other_hosts_comes_over_the_network():
    """Four hosts with two ports of 50 GB/s each; a rank has one NIC of 50 GB/s, less headers."""
    hosts = machine(name="rdma-memory-host", units=4, network="back_end")
    table = lower_pool(hosts, np.array([3]), np.array([False]), np.array([10**9]))
    links, share = table.row(0)
    on_device = dict(zip(links.tolist(), share.tolist(), strict=True))
    assert [on_device[link] for link in hosts.memory_pool.load_link.tolist()] == [0.25] * 4
    goodput = 50e9 * hosts.back_end.fabric.payload_efficiency
    assert seconds(hosts, (3, 10**9, Kind.LOAD))[0] == pytest.approx(10**9 / goodput, rel=1e-3)
    all_ranks = seconds(hosts, *[(rank, 10**9, Kind.LOAD) for rank in range(16)])
    assert all_ranks.max() == pytest.approx(16e9 / (8 * goodput), rel=1e-3), "16 NICs ask 8 ports"


def test_packets_agree_with_flows_on_a_pool_over_the_network():
    roce = NetworkSpec(fabric=FabricSpec("infiniband"))
    hosts = machine(name="rdma-memory-host", units=2, network="back_end", back_end=roce, front_end=None)
    asked = [(rank, 4_100_000, Kind.STORE) for rank in (0, 5)]
    assert seconds(hosts, *asked, name="packet") == pytest.approx(seconds(hosts, *asked), rel=0.05)


def test_packets_leave_cxl_to_flows():
    box = machine(name="cmm-b", units=1)
    asked = [(rank, 10**9, Kind.LOAD) for rank in (0, 9)]
    assert seconds(box, *asked, name="packet") == pytest.approx([2 / 60, 2 / 60], rel=1e-3)


def test_units_links_and_bill():
    box = machine(24, name="cmm-b", units=1)
    row = bill_of(box).of("memory-pool")[0]
    assert (row.count, row.total_usd.typical, row.total_w.typical) == (1, 16 * 10_000, 450)
    assert link_name(box, int(box.memory_pool.load_link[0])) == "memory pool 0 -> memory pool 0 switch"
    assert link_name(box, int(box.memory_pool.port_store[2, 0])) == "rank 16 -> memory pool 0 switch"
    assert not bill_of(machine(network="host")).of("memory-pool"), "the hosts' own memory is part of the servers"


def test_an_update_in_parts_by_hand():
    """Loads of 3, updates of 1, stores of 2, five parts: the fourth load waits for the first store, which ends at 3."""
    assert Offload(parts=5).update_s(3.0, 1.0, 2.0, 100.0) == 10.0
    assert Offload(parts=5, overlap=False).update_s(3.0, 1.0, 2.0, 100.0) == 30.0
    assert Offload(parts=2).update_s(3.0, 1.0, 2.0, 100.0) == 2.0


def test_buffers_that_do_not_change_in_time_hold_the_update_up():
    """From 4 before on: stored at -2, 0, 2, loaded at 1, 4, 7, 10, 13; the last update ends at 14."""
    assert Offload(parts=5).update_s(3.0, 1.0, 2.0, 4.0) == 14.0


def job(offload="optimizer", pool=None, global_batch=32, **changed):
    """A training job, ready to run."""
    layout = {"tp": 8, "dp": 2, "zero": 1, "micro_batch": 1} | changed
    section = {"model": "llama-3-8b", "global_batch": global_batch, "sequence": 2048, "parallelism": layout}
    machine = {"accelerators": 16, "server": "hgx-h100", "back_end": {"fabric": "ideal"}}
    pool = {"memory_pool": {"name": "cmm-b"}} if pool is None else pool
    training = section | ({} if offload is None else {"offload": offload})
    (found,) = prepare(load.from_values({"cluster": machine | pool, "workload": {"training": training}}))
    return found


def step_s(found):
    graph = found.graphs.of(found.training, found.cluster)
    return engine.get("flow").simulate([Job(graph)], found.cluster).makespan_ps * 1e-12


def test_the_step_is_longer_by_what_nothing_hides():
    """Four of seven parts are stored behind the step at 30 GB/s, then the last is loaded at 60 and updated."""
    away, here = job({"parts": 7}, global_batch=128), job(None, global_batch=128)
    state = 12 * stored_parameters(away)
    graph, host_s = here.graphs.of(here.training, here.cluster), here.training.software.step_ps * 1e-12
    update_s = next(
        float(graph.duration_ps[task]) * 1e-12
        for task in range(len(graph))
        if graph.labels[graph.label[task]].op == "update"
    )
    expected_s = (4 * state / 30e9 + state / 60e9 + 2 * update_s) / 7 - update_s
    assert step_s(away) - step_s(here) == pytest.approx(expected_s, rel=1e-4)
    turns = job({"parts": 7, "overlap": False}, global_batch=128)
    assert step_s(turns) - step_s(here) == pytest.approx(state / 30e9 + state / 60e9 - host_s, rel=1e-4)


def stored_parameters(found):
    """All parameters; the two norms of 32 layers and the last one are on each of 8 tensor ranks."""
    return found.training.model.parameters() + 7 * (2 * 32 + 1) * 4096


@pytest.mark.parametrize("pool", [{"name": "cmm-b"}, {"network": "host"}, {"name": "cz120-256gb", "units": 2}])
@pytest.mark.parametrize("overlap", [True, False])
def test_the_closed_form_agrees_with_the_engine(pool, overlap):
    away, here = job({"overlap": overlap}, {"memory_pool": pool}), job(None)

    def closed_s(one):
        return float(estimate([one.training], [Machine.of(one.cluster)]).step_s[0])

    flow_s = step_s(away) - step_s(here)
    # What both directions share makes the end of the stores less regular than the closed form has it.
    assert closed_s(away) - closed_s(here) == pytest.approx(flow_s, rel=0.1 if pool == {"network": "host"} else 0.02)


def test_memory_of_the_accelerator_is_relieved():
    device = job().cluster.accelerator
    whole, away = (memory(job(offload).training, device).rows[0] for offload in (None, {"parts": 7}))
    assert away.optimizer_bytes == pytest.approx(whole.optimizer_bytes * 3 / 7, abs=1)
    turns = memory(job({"parts": 7, "overlap": False}).training, device).rows[0]
    assert turns.optimizer_bytes == pytest.approx(whole.optimizer_bytes / 7, abs=1)
    assert away.parameters_bytes == whole.parameters_bytes


def test_under_zero_3_the_master_parameters_stay():
    """4 of 12 bytes are the parameters themselves; of the 8 others, 3 of 8 parts stay."""
    device = job().cluster.accelerator
    whole, away = (
        memory(job(offload, zero=3, tp=1, dp=16).training, device).rows[0] for offload in (None, "optimizer")
    )
    assert away.optimizer_bytes == pytest.approx(whole.optimizer_bytes * (4 + 8 * 3 / 8) / 12, abs=2)


def test_every_byte_goes_there_and_back():
    away = job()
    graph = away.graphs.of(away.training, away.cluster)
    for kind in (Kind.LOAD, Kind.STORE):
        moved = int(graph.size_bytes[graph.kind == kind].sum())
        assert moved == pytest.approx(12 * stored_parameters(away), rel=1e-7)
