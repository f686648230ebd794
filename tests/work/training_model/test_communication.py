"""What a stage sends, and how long closed forms say that it takes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard import catalog
from railyard.graph import CollectiveKind
from railyard.model.machine import LAUNCH_S, Machine, MachineColumns
from railyard.work.training import Training, compute, estimate, profiles
from railyard.work.training.alpha_beta import Group, collective_s, send_s, wire_bytes_s
from railyard.work.training.columns import Columns
from railyard.work.training.spec import Layout, SoftwareProfile
from railyard.work.training.stages import PipelineRanks, virtual_stages
from railyard.work.training.state import CLASSES, traffic


def sent(job, device, *, group, phase, **layout):
    training = job(**layout)
    stage = virtual_stages(training.model, training.layout)[1 if training.layout.pp > 1 else 0]
    times = compute.stage_times(training, device, stage)
    return [c for c in times.collectives if c.group == group and c.phase == phase], stage, training


def test_sequence_parallel_blocks_gather_and_scatter(h100, job):
    found, stage, training = sent(job, h100, group="tp", phase="forward", tp=8, pp=4)
    size = 4096 * training.model.hidden * 2
    assert {(c.kind, c.size_bytes, c.count) for c in found} == {
        (CollectiveKind.ALL_GATHER, size, 2 * stage.layers),
        (CollectiveKind.REDUCE_SCATTER, size, 2 * stage.layers),
    }


def test_without_sequence_parallelism_blocks_all_reduce(h100, job):
    found, stage, training = sent(job, h100, group="tp", phase="forward", tp=8, pp=4, sequence_parallel=False)
    assert [(c.kind, c.size_bytes, c.count) for c in found] == [
        (CollectiveKind.ALL_REDUCE, 4096 * training.model.hidden * 2, 2 * stage.layers)
    ]


def test_one_rank_sends_nothing(h100, job):
    training = job("llama-3-8b")
    stage = virtual_stages(training.model, training.layout)[0]
    assert compute.stage_times(training, h100, stage).collectives == ()


def test_tokens_travel_once_for_each_expert_or_once_for_each_place(h100, job):
    def size(**software):
        found, _, _ = sent(
            job, h100, group="ep", phase="forward", model="deepseek-v3", dp=64, ep=64, pp=16,
            software=SoftwareProfile(name="x", **software),
        )  # fmt: skip
        assert found[0].kind == CollectiveKind.ALL_TO_ALL
        return found[0].size_bytes

    every = 4096 * 8 * 7168 * 2
    assert size(expert_once=False) == every
    # 8 experts anywhere on the 4 servers of 8 ranks that the router allows: 4 (1 - (3/4)^8) are visited on average.
    assert size(expert_once=True) == pytest.approx(every * 4 * (1 - (3 / 4) ** 8) / 8, rel=1e-6)
    # There in 8 bits, back in 16.
    assert size(expert_once=False, dispatch_bytes=1) == pytest.approx(every * 3 / 4, rel=1e-6)


def test_keys_and_values_go_around_the_ring(h100, job):
    found, stage, training = sent(job, h100, group="cp", phase="forward", cp=4, seq_len=32_768, pp=4)
    model = training.model
    assert [(c.kind, c.size_bytes, c.count) for c in found] == [
        (CollectiveKind.ALL_GATHER, 32_768 * 2 * model.kv_heads * model.head_dim * 2, stage.layers)
    ]


def test_pipeline_sends_are_split_over_tensor_parallel_ranks(h100, job):
    assert compute.p2p_bytes(job(tp=8, pp=2), h100) == 4096 * 8192 * 2 // 8
    assert compute.p2p_bytes(job(tp=8, pp=2, sequence_parallel=False), h100) == 4096 * 8192 * 2


def one(value):
    return np.array([float(value)])


def seconds(kind, size, ranks, stride, machine):
    columns = MachineColumns.of([machine])
    return float(collective_s(kind, one(size), Group(one(ranks), one(stride)), columns, one(1.0))[0])


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_inside_a_domain_the_ring_bound_holds(machine, ranks):
    size = 1 << 34
    bound = size * (ranks - 1) / ranks / (machine.scale_up_bps / 8)
    for kind in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_TO_ALL):
        assert seconds(kind, size, ranks, 1, machine) == pytest.approx(bound, rel=1e-3)


def test_outside_a_domain_its_members_nics_carry_the_ring(machine):
    # 64 ranks at stride 4: two of them in each domain of 8, so two NICs a domain.
    size = 1 << 36
    rate = machine.scale_out_bps / 8
    assert seconds(CollectiveKind.REDUCE_SCATTER, size, 64, 4, machine) == pytest.approx(
        size * 63 / 64 / (2 * rate), rel=1e-3
    )
    assert seconds(CollectiveKind.REDUCE_SCATTER, size, 64, 8, machine) == pytest.approx(
        size * 63 / 64 / rate, rel=1e-3
    )


def test_a_group_of_one_takes_no_time(machine):
    assert all(seconds(kind, 1 << 30, 1, 1, machine) == 0.0 for kind in CollectiveKind)


@given(
    kind=st.sampled_from([CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL]),
    size=st.integers(1, 1 << 32),
    ranks=st.sampled_from([2, 4, 8, 16, 64, 512]),
    stride=st.sampled_from([1, 2, 8, 64]),
    factor=st.floats(1.0, 10.0),
)
def test_more_bandwidth_is_never_slower(machine, *, kind, size, ranks, stride, factor):
    import dataclasses

    faster = dataclasses.replace(
        machine, scale_up_bps=machine.scale_up_bps * factor, scale_out_bps=machine.scale_out_bps * factor
    )
    slow, fast = (seconds(kind, size, ranks, stride, m) for m in (machine, faster))
    assert LAUNCH_S <= fast <= slow * (1 + 1e-12)


def test_a_send_crosses_the_network_when_the_neighbour_is_far(machine):
    columns = MachineColumns.of([machine])
    near, far = (float(send_s(one(1 << 30), one(stride), columns)[0]) for stride in (4, 8))
    assert far / near == pytest.approx(machine.scale_up_bps / machine.scale_out_bps, rel=0.01)


def test_a_group_in_a_full_mesh_has_only_the_links_to_its_own_members(machine):
    """Of seven links, a pair uses one, four ranks three, and all eight seven; a switch gives each the whole rate."""
    mesh = dataclasses.replace(machine, nvls=False, scale_up_peers=7)
    switched = dataclasses.replace(machine, nvls=False)
    size = np.array([1e12])
    for ranks in (2, 4, 8):
        group = Group(np.array([float(ranks)]), np.ones(1))
        for kind in (CollectiveKind.ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.ALL_TO_ALL):
            slow, fast = (
                collective_s(kind, size, group, MachineColumns.of([each]), np.ones(1)) for each in (mesh, switched)
            )
            assert slow / fast == pytest.approx(7 / (ranks - 1), rel=1e-3)
    slow, fast = (send_s(size, np.ones(1), MachineColumns.of([each])) for each in (mesh, switched))
    assert slow / fast == pytest.approx(7.0, rel=1e-3)


@pytest.mark.parametrize(
    ("tp", "slower", "most"), [(2, 1, 0.5), (4, 1, 0.75), (8, 1, 0.875), (4, 4, 0.75), (4, 64, 0.6)]
)
def test_a_pipelined_collective_leaves_a_chunk_and_what_outlasts_its_product(h100, job, tp, slower, most):
    """tp chunks, of which one has no product beside it; where a chunk travels longer than it computes, the rest too."""
    device = dataclasses.replace(h100, scale_up_collective_bps=h100.scale_up_collective_bps / slower)
    found, _, _ = sent(
        job, device, group="tp", phase="forward", tp=tp, pp=4, seq_len=8192, overlap_tensor=True,
        software=SoftwareProfile(name="x", tensor_overlap=1.0),
    )  # fmt: skip
    hidden = {c.hidden for c in found if c.kind in (CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER)} - {0.0}
    assert max(hidden) <= most + 1e-9
    if slower == 1:
        assert max(hidden) == pytest.approx(most)


@pytest.fixture
def round_machine(machine):
    """100 GB/s inside domains of 8, 10 GB/s outside."""
    return dataclasses.replace(machine, scale_up_bps=8e11, scale_out_bps=8e10)


@pytest.mark.parametrize(
    ("kind", "ranks", "stride", "size", "microseconds"),
    [
        # 12 ranks at stride 3: 2 in each of 6 domains. 9 us of launch, 2 x (1.5 + 5 x 7), 2.2 MB by two NICs at 80 %.
        (CollectiveKind.ALL_REDUCE, 12, 3, 1.2e6, 9 + 2 * (1.5 + 35) + 2.2e6 / 20e3 / 0.8),
        # 64 domains: a tree has 4 log2(64) + 1 = 25 steps and not 63.
        (CollectiveKind.ALL_REDUCE, 64, 8, 1.28e6, 9 + 2 * 25 * 7 + 2.52e6 / 10e3 / 0.8),
        (CollectiveKind.ALL_GATHER, 12, 3, 1.2e6, 9 + 1.5 + 35 + 1.1e6 / 20e3 / 0.8),
        (CollectiveKind.REDUCE_SCATTER, 64, 8, 1.28e6, 9 + 63 * 7 + 1.26e6 / 10e3 / 0.8),
        # One rank near, ten far: 1 us each and a twelfth of the bytes, by the rank's own NIC.
        (CollectiveKind.ALL_TO_ALL, 12, 3, 1.2e6, 9 + 1.5 + 10 + 1.0e6 / 10e3 / 0.8),
        (CollectiveKind.ALL_TO_ALL, 5, 1, 1.2e6, 9 + 4 * 1.5 + 0.96e6 / 100e3 / 0.8),
        # In-switch reduction is four thirds as fast as a ring; there is none of a gather.
        (CollectiveKind.ALL_REDUCE, 8, 1, 1.2e6, 9 + 2 * 7 * 1.5 + 2.1e6 / 100e3 / (4 / 3) / 0.8),
        (CollectiveKind.ALL_GATHER, 8, 1, 1.2e6, 9 + 7 * 1.5 + 1.05e6 / 100e3 / 0.8),
    ],
)
def test_collectives_by_hand(round_machine, *, kind, ranks, stride, size, microseconds):
    columns = MachineColumns.of([round_machine])
    found = collective_s(kind, one(size), Group(one(ranks), one(stride)), columns, one(0.8))
    assert 1e6 * found[0] == pytest.approx(microseconds, rel=1e-9)


def test_sends_by_hand(round_machine):
    columns = MachineColumns.of([round_machine])
    near, far = (1e6 * send_s(one(1.2e6), one(stride), columns)[0] for stride in (5, 8))
    assert near == pytest.approx(9 + 1.5 + 12)
    assert far == pytest.approx(9 + 7 + 120)


@pytest.mark.parametrize(
    ("ranks", "stride", "exchange", "gbs"),
    [
        (12, 3, False, 0.8 * 20),  # two NICs a domain
        (12, 3, True, 0.8 * 10 * 11 / 10),  # ten of eleven parts leave by the rank's own NIC
        (5, 1, False, 0.8 * 100),
        (5, 1, True, 0.8 * 100),
        (9, 1, True, 0.8 * 10 * 8),  # one of eight parts leaves: the NIC is not yet what is slower
        (20, 8, False, 0.8 * 10),
        (1, 1, False, 0.0),
    ],
)
def test_bytes_on_the_wire_by_hand(round_machine, *, ranks, stride, exchange, gbs):
    columns = MachineColumns.of([round_machine])
    found = wire_bytes_s(Group(one(ranks), one(stride)), columns, one(0.8), exchange=exchange)
    assert found[0] / 1e9 == pytest.approx(gbs, rel=1e-9)


def test_other_traffic_leaves_a_share_of_the_nics(round_machine):
    columns = MachineColumns.of([dataclasses.replace(round_machine, share=0.7)])
    assert columns.out_bytes_s[0] == pytest.approx(7e9)


# Bytes of a step by class of communicators, by hand.

UP, OUT = 3.2e12, 4e11  # bit/s
KNOWN = catalog.load()
DEVICE = KNOWN.accelerator("h100-sxm")


def traffic_sent(model="llama-3-8b", **layout):
    """By class: domains, hop, bytes inside, bytes outside."""
    training = Training(
        model=KNOWN.model(model), layout=Layout(**layout), seq_len=2048, software=profiles.default(DEVICE)
    )
    columns, pipeline = Columns.of([training], [DEVICE]), PipelineRanks.of([training])
    machine = Machine(accelerator=DEVICE, scale_up_bps=UP, scale_up_domain=8, scale_out_bps=OUT)
    found = traffic(columns, pipeline, MachineColumns.of([machine]))
    rows = zip(found.domains[0], found.hop[0], found.inside_s[0] * UP / 8, found.outside_s[0] * OUT / 8, strict=True)
    return dict(zip(CLASSES, rows, strict=True)), columns, pipeline


def test_replicas_sum_all_gradients():
    """96 replicas in 12 servers: a ring moves 2 x 95/96 of the gradients, a twelfth of a server's by each NIC."""
    found, columns, pipeline = traffic_sent(tp=1, dp=96, global_batch=96, zero=0)
    gradients = pipeline.last.dense[0] * columns.software.gradient_bytes[0]
    moved = 2 * 95 / 96 * gradients
    assert found["dp"] == pytest.approx((12, 1, moved, moved / 8))
    assert found["tp"][2:] == found["pp"][2:] == found["ep"][2:] == (0, 0)


def test_sharded_optimizers_scatter_gradients_and_gather_parameters():
    found, columns, pipeline = traffic_sent(tp=2, dp=24, global_batch=24, zero=1)
    moved = 23 / 24 * pipeline.last.dense[0] * (columns.software.gradient_bytes[0] + 2)
    assert found["dp"] == pytest.approx((6, 1, moved, moved / 4))


def test_sharded_parameters_are_gathered_twice_for_every_micro_batch():
    found, columns, pipeline = traffic_sent(tp=1, dp=16, global_batch=48, zero=3, reshard=True)
    moved = 3 * 15 / 16 * pipeline.last.dense[0] * (2 + 2 + columns.software.gradient_bytes[0])
    assert found["dp"][2:] == pytest.approx((moved, moved / 8))


def test_stages_send_activations_ahead_and_gradients_back():
    """Stages 16 ranks apart are two servers apart; 6 micro-batches of 2048 tokens, 4096 numbers of two bytes each."""
    found, columns, _ = traffic_sent(tp=2, pp=3, dp=8, global_batch=48)
    share = 2 if columns.layout.sequence[0] or columns.software.scattered_sends[0] else 1
    assert found["pp"] == pytest.approx((3, 2, 0, 2 * 6 * 2048 * 4096 * 2 / share))


def test_tokens_travel_to_experts_and_back():
    """Groups of 16 with 8 in a server: of what a rank sends, 7/16 stay inside and 8/16 leave."""
    found, _, _ = traffic_sent("deepseek-v3", tp=1, ep=16, dp=16, global_batch=16)
    inside, outside = found["ep"][2:]
    assert found["ep"][:2] == (2, 1)
    assert inside / outside == pytest.approx(7 / 8)


# Gathers and scatters of sharded parameters that nothing hides, by hand.

PARAMETERS = 8_030_261_248
"""Of Llama 3 8B, in 32 layers: 250.95 million each."""

# One layer over 6 ranks of a switched domain of 300 GB/s: launch and 5 steps, and 5/6 of the bytes.
START_S = 9e-6 + 5 * 1.5e-6
GATHER_S = START_S + 2 * PARAMETERS / 32 * 5 / 6 / 300e9  # 16 bits a parameter: 1.411 ms
SCATTER_S = START_S + 4 * PARAMETERS / 32 * 5 / 6 / 300e9  # 32 bits a gradient: 2.805 ms


def row(h100, job, *, overlap, tokens=3000, **layout):
    """Five micro-batches of one sequence on each of 6 ranks."""
    software = SoftwareProfile(name="test", shard_overlap=overlap, communication_sms=0.0)
    training = job("llama-3-8b", seq_len=tokens, software=software, dp=6, zero=3, global_batch=30, **layout)
    machine = Machine(accelerator=h100, scale_up_bps=2.4e12, scale_up_domain=8, scale_out_bps=4e11)
    return estimate([training], [machine]).row(0)


def test_with_nothing_above_them_all_layers_are_exposed(h100, job):
    """Five times 32 layers: 0.226 s of gathers, 0.449 s of scatters."""
    found = row(h100, job, overlap=0.0, reshard=False)
    assert found["parameter_s"] == pytest.approx(5 * 32 * GATHER_S, rel=1e-9)
    assert found["gradient_s"] == pytest.approx(5 * 32 * SCATTER_S, rel=1e-9)


def test_parameters_that_were_dropped_are_gathered_twice(h100, job):
    found = row(h100, job, overlap=0.0, reshard=True)
    assert found["parameter_s"] == pytest.approx(2 * 5 * 32 * GATHER_S, rel=1e-9)
    assert found["gradient_s"] == pytest.approx(5 * 32 * SCATTER_S, rel=1e-9)


def test_under_long_passes_the_first_gather_and_the_last_scatter_are_left(h100, job):
    """Once a step, of the first layer and the embedding: 743 of the 8,030 million parameters, two tables of 525."""
    found = row(h100, job, overlap=1.0, tokens=24_000, reshard=False)
    table = 128_256 * 4096
    first = (PARAMETERS - 2 * table) / 32 + table
    assert found["parameter_s"] == pytest.approx(START_S + 2 * first * 5 / 6 / 300e9, rel=1e-4)
    assert found["gradient_s"] == pytest.approx(START_S + 4 * first * 5 / 6 / 300e9, rel=1e-4)
