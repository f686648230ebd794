"""Bytes and counts of collectives and transfers against their closed forms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from railyard.graph import CollectiveKind, Kind, Stream


def total(graph, tasks):
    """Bytes over all invocations of those tasks."""
    return int((graph.size_bytes[tasks] * graph.count[tasks]).sum())


def of_kind(graph, tasks, kind):
    return tasks[graph.collective[tasks] == kind]


def parameters_of_rank(training):
    """Parameters of one rank, over all stages, dense and expert: the catalogue's own count, split over tp and ep."""
    from railyard.work.training.compute import stage_parameters
    from railyard.work.training.stages import virtual_stages

    held = [stage_parameters(training, stage) for stage in virtual_stages(training.model, training.layout)]
    return sum(part.dense for part in held), sum(part.expert for part in held)


@pytest.mark.parametrize("tp", [2, 4])
def test_sequence_parallel_layers_gather_and_scatter_twice_each_way(jobs, yard, tp):
    """Korthikanti et al., section 4.2.2: g and g-bar, around attention and MLP, forward and backward."""
    training = jobs.training(yard.dense, tp=tp, pp=2, vp=2, schedule="interleaved", global_batch=4)
    graph = jobs.graph(training)
    activation = 64 * yard.dense.hidden * 2  # tokens x hidden x 16 bits
    stages, batches = 2, training.layout.micro_batches
    for phase in ("forward", "backward"):
        tasks = yard.chosen(graph, phase=phase, group="tp")
        layers = yard.dense.layers * batches
        gathers = total(graph, of_kind(graph, tasks, CollectiveKind.ALL_GATHER))
        scatters = total(graph, of_kind(graph, tasks, CollectiveKind.REDUCE_SCATTER))
        ends = batches  # the embedding scatters forward and gathers backward, the head the other way round
        inputs_again = 2 * layers if phase == "backward" else 0
        assert gathers == pytest.approx((2 * layers + inputs_again + ends) * activation, rel=1e-3)
        assert scatters == pytest.approx((2 * layers + ends) * activation, rel=1e-3)
    assert (np.diff(graph.communicators.ptr)[[g == "tp" for g in graph.communicators.group]] == tp).all()
    assert graph.communicators.group.count("tp") == stages


def test_without_sequence_parallelism_two_all_reduces_each_way(jobs, yard):
    training = jobs.training(yard.dense, tp=4, sequence_parallel=False, global_batch=2)
    graph = jobs.graph(training)
    activation = 64 * yard.dense.hidden * 2
    for phase in ("forward", "backward"):
        tasks = of_kind(graph, yard.chosen(graph, phase=phase, group="tp"), CollectiveKind.ALL_REDUCE)
        # The embedding is summed forward, the gradient of the head's input backward.
        assert total(graph, tasks) == pytest.approx((2 * yard.dense.layers + 1) * 2 * activation, rel=1e-3)


def test_overlapped_tensor_traffic_keeps_its_bytes(jobs, yard):
    shape = {"tp": 4, "pp": 2, "global_batch": 4}
    open_graph = jobs.graph(jobs.training(yard.dense, **shape))
    software = dataclasses.replace(yard.software, tensor_overlap=0.7)
    hidden_graph = jobs.graph(jobs.training(yard.dense, software=software, overlap_tensor=True, **shape))
    for phase in ("forward", "backward"):
        before, after = (yard.chosen(g, phase=phase, group="tp") for g in (open_graph, hidden_graph))
        assert total(hidden_graph, after) == pytest.approx(total(open_graph, before), rel=1e-3)
    forward = yard.chosen(hidden_graph, phase="forward", group="tp")
    beside = forward[hidden_graph.stream[forward] == Stream.TENSOR]
    layers = total(hidden_graph, forward) - 4 * 2 * 64 * yard.dense.hidden * 2  # but not the ends of the model
    # Products of 64 features are over before a chunk has arrived: less hides than the software could.
    assert 0 < total(hidden_graph, beside) < 0.7 * layers


def test_experts_exchange_tokens_twice_each_way(jobs, yard):
    software = dataclasses.replace(yard.software, expert_once=False)
    training = jobs.training(yard.experts, software=software, dp=4, ep=4, global_batch=8)
    graph = jobs.graph(training)
    moe_layers, batches = yard.experts.moe_layers, training.layout.micro_batches
    sent = 64 * yard.experts.experts_per_token * yard.experts.hidden * 2
    for phase in ("forward", "backward"):
        tasks = yard.chosen(graph, phase=phase, group="ep")
        assert (graph.collective[tasks] == CollectiveKind.ALL_TO_ALL).all()
        assert (graph.stream[tasks] == Stream.COMPUTE).all()
        assert total(graph, tasks) == 2 * moe_layers * batches * sent
    assert not yard.chosen(graph, group="edp").size  # every expert is held once


def test_context_ranks_gather_keys_and_values(jobs, yard):
    training = jobs.training(yard.dense, cp=2, global_batch=2)
    graph = jobs.graph(training)
    keys_and_values = 64 * 2 * yard.dense.kv_heads * yard.dense.head_dim * 2
    layers = yard.dense.layers * training.layout.micro_batches
    forward = yard.chosen(graph, phase="forward", group="cp")
    assert total(graph, forward) == pytest.approx(layers * keys_and_values, rel=1e-3)
    backward = yard.chosen(graph, phase="backward", group="cp")
    assert total(graph, backward) == pytest.approx(2 * layers * keys_and_values, rel=1e-3)


def test_context_collectives_that_partly_hide_pay_their_latency_once(jobs, yard):
    """A tenth of them is open and nine tenths hide; no pass is cut into single layers, which need one of each."""
    training = jobs.training(yard.dense, cp=2, global_batch=2, overlap_gradient=False, overlap_parameter=False)
    graph = jobs.graph(training)
    layers = yard.dense.layers * training.layout.micro_batches
    forward, backward = (yard.chosen(graph, phase=phase, group="cp") for phase in ("forward", "backward"))
    assert set(graph.stream[forward].tolist()) == {Stream.COMPUTE, Stream.CONTEXT}
    assert graph.count[forward].sum() == layers
    assert graph.count[backward].sum() == 2 * layers


def test_full_recomputation_sends_forward_traffic_again(jobs, yard):
    graph = jobs.graph(jobs.training(yard.dense, tp=2, pp=2, recompute="full"))
    forward, again = (yard.chosen(graph, phase=phase, group="tp") for phase in ("forward", "recompute"))
    assert total(graph, again) == total(graph, forward)
    assert yard.chosen(graph, phase="recompute", op="compute").size


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zero-bubble"])
@pytest.mark.parametrize("sequence_parallel", [True, False])
def test_every_boundary_sends_every_micro_batch_both_ways(jobs, yard, schedule, sequence_parallel):
    vp = 2 if schedule == "interleaved" else 1
    shape = {"tp": 2, "pp": 4, "dp": 2, "vp": vp, "schedule": schedule, "sequence_parallel": sequence_parallel}
    training = jobs.training(yard.dense, global_batch=16, **shape)
    graph = jobs.graph(training)
    layout = training.layout
    for stream in (Stream.FORWARD, Stream.BACKWARD):
        sent = np.flatnonzero((graph.kind == Kind.TRANSFER) & (graph.stream == stream))
        assert len(sent) == (layout.pp * vp - 1) * layout.micro_batches * layout.tp * layout.dp
        activation = 64 * yard.dense.hidden * 2
        assert (graph.size_bytes[sent] == (activation // 2 if sequence_parallel else activation)).all()


@pytest.mark.parametrize("bucket_bytes", [0, 20_000, 10**9])
@pytest.mark.parametrize("zero", [0, 1, 2])
@pytest.mark.parametrize("overlapped", [True, False])
def test_gradients_are_reduced_and_parameters_gathered_once_a_step(jobs, yard, zero, bucket_bytes, overlapped):
    training = jobs.training(
        yard.dense, tp=2, pp=2, dp=4, cp=2, zero=zero, bucket_bytes=bucket_bytes,
        overlap_gradient=overlapped, overlap_parameter=overlapped,
    )  # fmt: skip
    graph = jobs.graph(training)
    dense, _ = parameters_of_rank(training)
    reductions = yard.chosen(graph, phase="gradient", group="dp")
    wanted = CollectiveKind.REDUCE_SCATTER if zero else CollectiveKind.ALL_REDUCE
    assert (graph.collective[reductions] == wanted).all()
    tp = training.layout.tp
    assert total(graph, reductions) == pytest.approx(4 * dense * tp, rel=1e-3)
    gathers = yard.chosen(graph, phase="parameter")
    assert total(graph, gathers) == pytest.approx((2 * dense * tp) if zero else 0, rel=1e-3)
    beside = {Stream.GRADIENT, Stream.PARAMETER} if overlapped else {Stream.COMPUTE}
    assert set(graph.stream[reductions].tolist()) | set(graph.stream[gathers].tolist()) <= beside
    if bucket_bytes == 20_000:  # a layer on a rank has 18,496 parameters of 4 B
        assert graph.size_bytes[reductions].max() < 2 * bucket_bytes
        assert (graph.count[reductions] >= 3).all()
    elif bucket_bytes:
        assert len(reductions) == training.layout.pp * training.layout.tp


def of_stage(graph, tasks, training, stage):
    """Those of one pipeline stage, by the ranks of their communicators."""
    layout = training.layout
    inner = layout.tp * layout.cp * layout.dp
    return [task for task in tasks if graph.communicators.members(int(graph.rank[task]))[0] // inner == stage]


def test_software_sizes_buckets_and_cuts_only_the_first_stage(jobs, yard):
    """Megatron-Core: `max(40000000, 1000000 * dp_size)` parameters, and no buckets on later stages; here 2,000 x 8."""
    software = dataclasses.replace(
        yard.software, bucket_parameters=10_000, bucket_parameters_per_rank=2_000, first_stage_buckets=True
    )
    layout = {"tp": 2, "pp": 2, "dp": 4, "cp": 2, "zero": 1}
    training = jobs.training(yard.dense, **layout).replace(software=software)
    plain = jobs.training(yard.dense, **layout)
    graph, by_layer = jobs.graph(training), jobs.graph(plain)
    for phase in ("gradient", "parameter"):
        tasks = yard.chosen(graph, phase=phase, group="dp")
        each = 2 if phase == "parameter" else software.gradient_bytes
        bucket = 16_000 * each
        first, second = (of_stage(graph, tasks, training, stage) for stage in (0, 1))
        old = [of_stage(by_layer, yard.chosen(by_layer, phase=phase, group="dp"), plain, stage) for stage in (0, 1)]
        assert total(graph, first) == pytest.approx(total(by_layer, old[0]), rel=1e-3)
        assert total(graph, second) == pytest.approx(total(by_layer, old[1]), rel=1e-3)
        assert len(second) == layout["tp"]  # one for each tensor-parallel rank
        assert (graph.count[second] == 1).all()
        # A layer has 18,496 parameters on a rank, the first 26,688 with the embedding: each is a bucket.
        assert len(first) / layout["tp"] == graph.count[first].sum() / layout["tp"] == 4
        assert bucket <= graph.size_bytes[first].min()


def test_small_layers_share_a_bucket(jobs, yard):
    """A bucket of two layers is reduced behind the earlier of them, which backward reaches last."""
    layers = yard.dense.layers
    plain = jobs.graph(jobs.training(yard.dense, dp=4, zero=1))
    reductions = yard.chosen(plain, phase="gradient", group="dp")
    assert len(reductions) == layers
    middle = int(np.median(plain.size_bytes[reductions]))
    graph = jobs.graph(jobs.training(yard.dense, dp=4, zero=1, bucket_bytes=2 * middle))
    assert len(yard.chosen(graph, phase="gradient", group="dp")) <= layers // 2 + 1
    assert total(graph, yard.chosen(graph, phase="gradient", group="dp")) == total(plain, reductions)


def test_zero_2_without_a_pipeline_scatters_behind_every_micro_batch(jobs, yard):
    training = jobs.training(yard.dense, dp=4, zero=2, global_batch=12)
    graph = jobs.graph(training)
    dense, _ = parameters_of_rank(training)
    reductions = yard.chosen(graph, phase="gradient", group="dp")
    assert total(graph, reductions) == pytest.approx(3 * 4 * dense, rel=1e-3)


@pytest.mark.parametrize(("reshard", "gathers_each"), [(True, 2), (False, 1)])
def test_fsdp_gathers_for_every_pass(jobs, yard, reshard, gathers_each):
    training = jobs.training(yard.dense, dp=4, zero=3, reshard=reshard, global_batch=12)
    graph = jobs.graph(training)
    dense, _ = parameters_of_rank(training)
    gathers = yard.chosen(graph, phase="parameter")
    assert total(graph, gathers) == pytest.approx(3 * gathers_each * 2 * dense, rel=1e-3)
    assert len(gathers) == 3 * gathers_each * yard.dense.layers
    reductions = yard.chosen(graph, phase="gradient", group="dp")
    assert total(graph, reductions) == pytest.approx(3 * 4 * dense, rel=1e-3)


def test_hybrid_shards_sum_over_replicas_behind_each_scatter(jobs, yard):
    training = jobs.training(yard.dense, dp=8, zero=3, fsdp_shard=4, global_batch=16)
    graph = jobs.graph(training)
    dense, _ = parameters_of_rank(training)
    inner = yard.chosen(graph, phase="gradient", group="fsdp")
    assert total(graph, inner) == pytest.approx(2 * 2 * 4 * dense, rel=1e-3)  # two groups, two micro-batches
    outer = yard.chosen(graph, phase="gradient", group="dp")
    assert (graph.collective[outer] == CollectiveKind.ALL_REDUCE).all()
    assert total(graph, outer) == pytest.approx(2 * 4 * (4 * dense / 4), rel=1e-2)  # four shards, two micro-batches


def test_expert_gradients_go_over_expert_replicas(jobs, yard):
    training = jobs.training(yard.experts, dp=8, ep=4, zero=1)
    graph = jobs.graph(training)
    dense, expert = parameters_of_rank(training)
    assert total(graph, yard.chosen(graph, phase="gradient", group="edp")) == pytest.approx(4 * 4 * expert, rel=1e-3)
    over_all = yard.chosen(graph, phase="gradient", op="reduce dense")
    assert total(graph, over_all) == pytest.approx(4 * dense, rel=1e-3)


def test_a_shared_embedding_is_summed_over_the_ends_of_the_pipeline(jobs, yard):
    graph = jobs.graph(jobs.training(yard.experts, tp=2, pp=4, dp=2, ep=2))
    tasks = yard.chosen(graph, op="reduce shared embedding")
    assert len(tasks) == 4
    assert (graph.size_bytes[tasks] == 4 * yard.experts.vocab * yard.experts.hidden // 2).all()
    assert [yard.members(graph, task) for task in tasks] == [[j, 12 + j] for j in range(4)]
    assert not yard.chosen(jobs.graph(jobs.training(yard.dense, pp=4)), op="reduce shared embedding").size


def test_every_rank_joins_the_gradient_norm(jobs, yard):
    graph = jobs.graph(jobs.training(yard.dense, tp=2, pp=2, dp=2))
    (task,) = yard.chosen(graph, op="gradient norm")
    assert yard.members(graph, task) == list(range(8))
    start, end = yard.play(graph, lambda g, t: 5_000)
    update = yard.chosen(graph, op="update")
    reductions = yard.chosen(graph, phase="gradient", group="dp")
    assert start[task] >= end[reductions].max()
    assert (start[update] >= end[task]).all()


def test_counts_of_a_large_step(jobs, yard):
    """Llama 3 405B's shape on 2,048 ranks: tasks by kind against their closed forms."""
    from railyard import catalog

    model = catalog.load().model("llama-3-405b")
    layout = {"tp": 8, "pp": 16, "dp": 16, "vp": 8, "schedule": "interleaved", "global_batch": 256}
    training = jobs.training(model, seq_len=8192, **layout)
    graph = jobs.graph(training)
    ranks, virtual, batches = 2048, 128, training.layout.micro_batches
    assert batches == 16
    passes = yard.chosen(graph, op="compute")
    assert len(passes) == 2 * batches * virtual * (8 * 16)
    assert (graph.kind == Kind.COMPUTE).sum() == len(passes) + ranks  # and the optimizer
    assert (graph.kind == Kind.TRANSFER).sum() == 2 * batches * (virtual - 1) * (8 * 16)
    # Forward: gathers and scatters in the open; backward also beside. 126 of the 128 stages hold a layer, of the others
    # the embedding scatters forward and gathers backward, the head gathers forward and scatters open and beside.
    per_batch = 126 * (2 + 4) + 2 + 3
    assert (
        len(yard.chosen(graph, group="tp", op="all-gather")) + len(yard.chosen(graph, group="tp", op="reduce-scatter"))
        == batches * 16 * per_batch
    )
