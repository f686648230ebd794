"""What a referee with a simple network makes of the graphs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard import catalog, cluster, engine
from railyard.graph import CollectiveKind, Job, Kind, Stream
from railyard.model.machine import Machine
from railyard.work.training.compute import StageTimes
from railyard.work.training.designs import estimate
from railyard.work.training.graphs import build
from railyard.work.training.spec import DataLoading, Layout, SoftwareProfile, Training


def passes_end(yard, graph, end):
    return int(end[yard.chosen(graph, op="compute")].max())


@pytest.mark.parametrize(("pp", "micro_batches"), [(2, 4), (4, 8), (8, 8)])
def test_1f1b_idles_p_minus_1_over_m(jobs, yard, pp, micro_batches):
    training = jobs.training(yard.dense, pp=pp, tp=2, dp=2, global_batch=2 * micro_batches)
    graph = jobs.graph(training, times_of=yard.even(10_000, 20_000))
    _, end = yard.play(graph)
    busy = 30_000 * micro_batches
    assert passes_end(yard, graph, end) / busy - 1 == pytest.approx((pp - 1) / micro_batches)


@pytest.mark.parametrize(("pp", "vp", "micro_batches"), [(2, 4, 4), (4, 2, 8), (2, 2, 6)])
def test_interleaving_divides_the_idle_time(jobs, yard, pp, vp, micro_batches):
    training = jobs.training(yard.dense, pp=pp, vp=vp, schedule="interleaved", dp=2, global_batch=2 * micro_batches)
    graph = jobs.graph(training, times_of=yard.even(10_000, 20_000))
    _, end = yard.play(graph)
    busy = 30_000 * vp * micro_batches
    assert passes_end(yard, graph, end) / busy - 1 == pytest.approx((pp - 1) / (vp * micro_batches))


def test_zero_bubble_idles_less(jobs, yard):
    times = yard.even(10_000, 12_000, 8_000)
    ends = {}
    for schedule in ("1f1b", "zero-bubble"):
        graph = jobs.graph(jobs.training(yard.dense, pp=4, schedule=schedule, global_batch=8), times_of=times)
        ends[schedule] = passes_end(yard, graph, yard.play(graph)[1])
    assert ends["1f1b"] - 8 * 30_000 == 3 * 30_000
    assert ends["zero-bubble"] - 8 * 30_000 == 3 * (10_000 + 12_000 - 8_000)


def test_uneven_stages_end_when_the_longest_lets_them(jobs, yard):
    model = dataclasses.replace(yard.dense, layers=7)
    training = jobs.training(model, pp=4, global_batch=4)
    graph = jobs.graph(training)
    _, end = yard.play(graph)
    busiest = yard.computed(graph).max()
    assert passes_end(yard, graph, end) >= busiest - graph.duration_ps[yard.chosen(graph, op="update")].max()


def transfers_take(delay_ps):
    return lambda graph, task: delay_ps if graph.kind[task] == Kind.TRANSFER else 0


def test_sends_lengthen_fill_drain_and_every_turn_of_1f1b(jobs, yard):
    """Neighbours wait for each other in turn: each micro-batch meets two sends, filling and draining p - 1 each way."""
    pp, m, delay = 4, 12, 1_000
    graph = jobs.graph(jobs.training(yard.dense, pp=pp, global_batch=m), times_of=yard.even(10_000, 20_000))
    _, end = yard.play(graph, transfers_take(delay))
    ideal = 30_000 * (m + pp - 1)
    extra = passes_end(yard, graph, end) - ideal
    assert 2 * (pp - 1) * delay <= extra <= 2 * (m + pp - 1) * delay


def test_open_collectives_add_and_hidden_ones_hide(jobs, yard):
    def one(hidden):
        rows = [yard.collective("tp", phase, 1000, 4, hidden) for phase in ("forward", "backward")]
        graph = jobs.graph(jobs.training(yard.dense, tp=2, global_batch=2), times_of=yard.even(collectives=rows))
        slowed = lambda g, t: int(g.size_bytes[t] * g.count[t]) if g.labels[g.label[t]].group == "tp" else 0  # noqa: E731
        return passes_end(yard, graph, yard.play(graph, slowed)[1])

    compute, sent = 2 * 30_000, 4_000
    last = sent  # what follows the last computation is no part of the passes' end
    assert one(0.0) == compute + 4 * sent - last
    assert one(1.0) == compute
    assert one(0.5) == pytest.approx(compute + (4 * sent - last) / 2, abs=4)


def test_what_does_not_fit_under_computation_shows(jobs, yard):
    rows = [yard.collective("cp", "forward", 25_000, 1, 1.0)]
    training = jobs.training(yard.dense, cp=2, global_batch=1, zero=0, overlap_gradient=False)
    graph = jobs.graph(training, times_of=yard.even(10_000, 20_000, 0, rows))
    slowed = lambda g, t: int(g.size_bytes[t]) if g.labels[g.label[t]].group == "cp" else 0  # noqa: E731
    _, end = yard.play(graph, slowed)
    # The forward pass of 10,000 waits for the exchange beside it; backward follows.
    assert passes_end(yard, graph, end) == 25_000 + 20_000


def fsdp(jobs, yard, **layout):
    return jobs.graph(
        jobs.training(yard.dense, dp=2, zero=3, global_batch=2, **layout), times_of=yard.even(80_000, 160_000)
    )


@pytest.mark.parametrize("gather", [4_000, 10_000])
def test_fsdp_hides_all_gathers_but_the_first(jobs, yard, gather):
    graph = fsdp(jobs, yard)
    parameter = set(yard.chosen(graph, phase="parameter").tolist())
    _, end = yard.play(graph, lambda g, t: gather if t in parameter else 0)
    # Eight layers of 10,000 forward and 20,000 backward: a gather of one layer fits under the layer before.
    assert passes_end(yard, graph, end) == 240_000 + gather


def test_fsdp_gathers_one_layer_ahead(jobs, yard):
    graph = fsdp(jobs, yard)
    start, end = yard.play(graph, lambda g, t: 1_000)
    for gather in yard.chosen(graph, phase="parameter"):
        begun = start[yard.chosen(graph, phase="parameter")] <= start[gather]
        ended = (graph.kind == Kind.COMPUTE) & (graph.rank == 0) & (end <= start[gather])
        assert begun.sum() <= ended.sum() + 2


def test_fsdp_gathers_that_are_not_overlapped_add(jobs, yard):
    graph = fsdp(jobs, yard, overlap_parameter=False, overlap_gradient=False)
    parameter = set(yard.chosen(graph, phase="parameter").tolist())
    _, end = yard.play(graph, lambda g, t: 3_000 if t in parameter else 0)
    assert passes_end(yard, graph, end) == 240_000 + 16 * 3_000


def overlapping(training, share):
    return dataclasses.replace(training, software=dataclasses.replace(training.software, gradient_overlap=share))


@pytest.mark.parametrize(("share", "open_"), [(1.0, 1), (0.9, 1), (0.5, 4), (0.3, 6), (0.0, 8)])
def test_gradients_are_reduced_while_backward_runs(jobs, yard, share, open_):
    """One reduction for each of 8 layers, each as long as half a layer's backward: what software leaves open is behind.

    The middle of layer k of 8 stands behind (k - 1/2) / 8 of the bytes, and one layer is open in any case.
    """
    training = overlapping(jobs.training(yard.dense, dp=2, zero=1, global_batch=2), share)
    graph = jobs.graph(training, times_of=yard.even(80_000, 160_000))
    reductions = set(yard.chosen(graph, phase="gradient", group="dp").tolist())
    _, end = yard.play(graph, lambda g, t: 10_000 if t in reductions else 0)
    norm = int(end[yard.chosen(graph, op="gradient norm")].max())
    assert norm == 240_000 + open_ * 10_000


def test_gradients_of_a_pipeline_wait_for_its_last_micro_batch(jobs, yard):
    training = jobs.training(yard.dense, pp=2, dp=2, zero=1, global_batch=8)
    graph = jobs.graph(training)
    start, end = yard.play(graph)
    last = yard.chosen(graph, phase="backward", micro_batch=3)
    for task in yard.chosen(graph, phase="gradient", group="dp"):
        stage = graph.labels[graph.label[task]].layer
        mine = [t for t in last if graph.labels[graph.label[t]].layer == stage]
        assert start[task] >= end[mine].min()


@pytest.mark.parametrize(("share", "first_ends"), [(1.0, 25_000), (0.5, 70_000), (0.3, 100_000), (0.0, 130_000)])
def test_overlapped_gathers_let_the_first_pass_wait_layer_by_layer(jobs, yard, share, first_ends):
    """The first layer waits for its own gather of 15,000, and for what software leaves open: of 8 none, 4, 6, all."""
    training = overlapping(jobs.training(yard.dense, dp=2, zero=1, global_batch=4), share)
    graph = jobs.graph(training, times_of=yard.even(80_000, 160_000))
    gathers = set(yard.chosen(graph, phase="parameter").tolist())
    _, end = yard.play(graph, lambda g, t: 15_000 if t in gathers else 0)
    # Gathers are slower than layers of 10,000: the last layer ends one layer behind the last gather, or the layers
    # follow the first.
    first = yard.chosen(graph, phase="forward", micro_batch=0)
    assert end[first].min() == first_ends
    assert end[first].max() == max(8 * 15_000 + 10_000, first_ends + 7 * 10_000)


def launching(yard, forward, backward):
    """Computations of 10,000 and 20,000 a stage, launched by a host that takes so long."""
    exchange = (yard.collective("tp", "forward"),)

    def times(training, _accelerator, stage):
        share = stage.layers / (training.model.layers // (training.layout.pp * training.layout.vp))
        ahead, back, host_ahead, host_back = (round(one * share) for one in (10_000, 20_000, forward, backward))
        return StageTimes(ahead, back, 0, 0, 0.0, exchange, host_ahead, host_back)

    return times


@pytest.mark.parametrize(("host", "pass_s"), [(9_000, 17_000), (13_000, 17_000), (17_000, 17_000), (23_000, 23_000)])
def test_a_host_launches_beside_what_it_has_launched(jobs, yard, host, pass_s):
    """A forward pass of 10,000 with a collective of 7,000 takes what the slower of accelerator and host takes."""
    training = jobs.training(yard.dense, tp=2, global_batch=4)
    graph = jobs.graph(training, times_of=launching(yard, host, 20_000))
    exchanges = set(yard.chosen(graph, group="tp", phase="forward").tolist())
    _, end = yard.play(graph, lambda g, t: 7_000 if t in exchanges else 0)
    assert passes_end(yard, graph, end) == 4 * (pass_s + 20_000)
    # Where the accelerator is the slower one the graph has no task for the host.
    assert bool(len(yard.chosen(graph, phase="host"))) == (host > 10_000)


@pytest.mark.parametrize(("prefetch", "waits"), [(0, True), (2, False)])
def test_reads_hold_up_the_first_pass_or_the_end_of_the_step(jobs, yard, prefetch, waits):
    data = DataLoading(bytes_per_token=4.0, prefetch=prefetch)
    training = jobs.training(yard.dense, tp=2, pp=2, dp=2, cp=2, data=data, global_batch=8)
    graph = jobs.graph(training, times_of=yard.even())
    reads = np.flatnonzero(graph.kind == Kind.READ)
    # One rank of each tensor-parallel group of the first stage reads its replica's share of the samples.
    assert graph.rank[reads].tolist() == [0, 2, 4, 6]
    assert graph.size_bytes[reads].tolist() == [4 * 64 // 2 * 4] * 4
    assert (graph.stream[reads] == Stream.STORAGE).all()

    def makespan(read_ps):
        start, end = yard.play(graph, lambda g, t: read_ps if g.kind[t] == Kind.READ else 0)
        return int(end.max()), int(start[yard.chosen(graph, phase="forward")].min())

    free, _ = makespan(0)
    assert makespan(10) == ((free + 10, 10) if waits else (free, 0))
    slow = 10 * free
    assert makespan(slow) == ((free + slow, slow) if waits else (slow, 0))


def test_every_rank_may_read(jobs, yard):
    data = DataLoading(every_rank=True)
    graph = jobs.graph(jobs.training(yard.dense, tp=2, dp=2, data=data))
    assert graph.rank[graph.kind == Kind.READ].tolist() == [0, 1, 2, 3]


def test_times_can_be_replaced_by_measured_ones(jobs, yard):
    def measured(_training, _accelerator, stage):
        return StageTimes(1_000 * stage.layers, 2_000 * stage.layers, 500 * stage.layers, 0, 0.0, ())

    graph = jobs.graph(jobs.training(yard.dense, pp=2, global_batch=3), times_of=measured)
    assert (graph.duration_ps[yard.chosen(graph, phase="forward")] == 4_000).all()
    assert (graph.duration_ps[yard.chosen(graph, phase="backward")] == 10_000).all()


def test_sizes_follow_nccl_tests(jobs, yard):
    """A gather's size is the whole result, a scatter's the whole input: equal over any number of ranks."""
    sizes = set()
    for dp in (2, 4):
        graph = jobs.graph(jobs.training(yard.dense, dp=dp, zero=1, overlap_parameter=False))
        gathers = yard.chosen(graph, phase="parameter")
        assert (graph.collective[gathers] == CollectiveKind.ALL_GATHER).all()
        sizes.add(int(graph.size_bytes[gathers].sum()))
    assert len(sizes) == 1


# The graph on the flow engine against the closed form of a step: two ways to the same time, made apart.

LAYOUTS = {
    "tensor and data": ("llama-3-8b", {"tp": 2, "dp": 32, "global_batch": 128}),
    "fsdp": ("llama-3-8b", {"dp": 64, "zero": 3, "global_batch": 128}),
    "pipeline": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "global_batch": 64}),
    "interleaved": (
        "llama-3-70b",
        {"tp": 8, "pp": 4, "dp": 2, "vp": 5, "schedule": "interleaved", "global_batch": 64},
    ),
    "zero-bubble": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "schedule": "zero-bubble", "global_batch": 64}),
    "context": ("llama-3-70b", {"tp": 8, "pp": 2, "dp": 2, "cp": 2, "global_batch": 32}),
    "experts": ("mixtral-8x7b", {"tp": 2, "pp": 4, "dp": 8, "ep": 8, "global_batch": 256}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_graph_and_closed_form_agree(name):
    known = catalog.load()
    model, layout = LAYOUTS[name]
    machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), known)
    software = SoftwareProfile(name="test")
    job = Training(model=known.model(model), layout=Layout(**layout), seq_len=8192, software=software)
    timeline = engine.get("flow").simulate([Job(build(job, machine))], machine)
    expected = float(estimate([job], [Machine.of(machine)]).step_s[0])
    assert timeline.makespan_ps * 1e-12 == pytest.approx(expected, rel=0.05)
