"""The decomposition against steps whose causes are known by construction, and its two laws on random steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.graph import Kind, Label, Stream
from railyard.kit.errors import InputError, RailyardError
from railyard.measure.decompose import Cause, decompose, stages

US = 1_000_000


def seconds_us(found):
    """{(cause, group, phase): microseconds, mean over ranks}."""
    return {(row.cause, row.group, row.phase): pytest.approx(row.seconds * 1e6, abs=1e-6) for row in found.rows}


def test_pure_compute_is_all_compute(yard):
    job = yard(2)
    for rank in (0, 1):
        job.compute(rank, 3 * US)
        job.compute(rank, 1 * US, phase="backward")
    found = decompose(job.play())
    assert found.step_ps == 4 * US
    assert seconds_us(found) == {("compute", "", "forward"): 3, ("compute", "", "backward"): 1}


def test_one_rank_of_ten_thousand_late_by_20_us_costs_0_2_gpu_seconds(yard):
    ranks, late = 10_000, 1234
    job = yard(ranks)
    for rank in range(ranks):
        job.compute(rank, 100 * US + (20 * US if rank == late else 0), phase="backward")
    everyone = job.group("dp", list(range(ranks)))
    job.collective(everyone, 7 * US, phase="gradient", latency_ps=2 * US)
    found = decompose(job.play())
    lost = found.by_rank_ps[:, Cause.STRAGGLER].sum() * 1e-12
    assert lost == pytest.approx(0.2, rel=2e-4)
    assert lost == pytest.approx(9_999 * 20e-6, rel=1e-12)
    assert found.straggler_events == 1
    assert np.argmax(found.waited_for_ps) == late
    assert found.waited_for_ps.sum() == 9_999 * 20 * US
    assert found.seconds(Cause.LATENCY) == pytest.approx(2e-6)
    assert found.seconds(Cause.BANDWIDTH) == pytest.approx(5e-6)


def test_two_stage_pipeline_has_the_bubble_of_the_closed_form(yard):
    """GPipe, p stages, m micro-batches, free transfers: (p - 1) slots of (m + p - 1) are bubble on every stage."""
    stages_, micro_batches, slot = 4, 6, 10 * US
    job = yard(stages_)
    arrived = {}
    for m in range(micro_batches):
        for s in range(stages_):
            waits = [arrived[s, m]] if s else []
            task = job.compute(s, slot, after=waits)
            if s + 1 < stages_:
                arrived[s + 1, m] = job.transfer(s, s + 1, 0, after=[task])
    found = decompose(job.play())
    assert found.step_ps == (micro_batches + stages_ - 1) * slot
    assert (found.by_rank_ps[:, Cause.BUBBLE] == (stages_ - 1) * slot).all()
    assert (found.by_rank_ps[:, Cause.COMPUTE] == micro_batches * slot).all()


def test_pipeline_wait_is_bubble_while_others_compute_and_communication_while_the_transfer_runs(yard):
    job = yard(2)
    sent = job.compute(0, 10 * US)
    moved = job.transfer(0, 1, 4 * US, after=[sent], alone_ps=3 * US, latency_ps=1 * US)
    job.compute(1, 5 * US, after=[moved])
    found = decompose(job.play())
    assert found.by_rank_ps[1].tolist() == [5 * US, US, 2 * US, US, 0, 10 * US, 0, 0, 0, 0, 0]
    # Rank 0 is done after 10 us: 4 us its own transfer, then 5 us while the other stage computes.
    assert found.by_rank_ps[0].tolist() == [10 * US, US, 2 * US, US, 0, 5 * US, 0, 0, 0, 0, 0]
    assert ("bubble", "pp", "forward") in {(row.cause, row.group, row.phase) for row in found.rows}


def test_a_late_member_that_waited_in_the_pipeline_makes_a_bubble_not_a_straggler(yard):
    """Ranks 1 and 2 are one stage; 2 gets its input late from stage 0 (rank 3), so rank 1 waits for a pipeline."""
    job = yard(4)
    job.group("dp", [1, 2])
    job.group("dp", [0, 3])
    first = job.compute(0, 1 * US)
    slow = job.compute(3, 9 * US)
    job.compute(1, 5 * US, after=[job.transfer(0, 1, 0, after=[first])])
    job.compute(2, 5 * US, after=[job.transfer(3, 2, 0, after=[slow])])
    job.collective(0, 2 * US)
    found = decompose(job.play())
    assert stages(job.graph()).tolist() == [0, 1, 1, 0]
    # Rank 1 waits 1 us for its input and 8 us in the collective, because rank 2 got its own input 8 us later.
    assert found.by_rank_ps[1, Cause.BUBBLE] == 1 * US + 8 * US
    assert found.by_rank_ps[1, Cause.STRAGGLER] == 0


def test_a_member_that_the_network_made_late_is_contention_not_a_straggler(yard):
    job = yard(4)
    job.group("dp", [1, 2])
    job.group("dp", [0, 3])
    first, third = job.compute(0, 9 * US), job.compute(3, 9 * US)
    job.compute(1, 5 * US, after=[job.transfer(0, 1, 2 * US, after=[first])])
    job.compute(2, 5 * US, after=[job.transfer(3, 2, 6 * US, after=[third], alone_ps=2 * US)])
    job.collective(0, 2 * US)
    found = decompose(job.play())
    # Rank 1 waits 4 us in the collective while rank 2 computes: 4 us of contention made rank 2 late.
    assert found.by_rank_ps[1, Cause.CONTENTION] == 4 * US
    assert found.by_rank_ps[1, Cause.STRAGGLER] == 0
    assert found.by_rank_ps[1, Cause.BUBBLE] == 9 * US


def test_a_slow_gpu_is_found_behind_the_member_that_it_made_late(yard):
    """Rank 3 computes 4 us too long, its successor in the pipeline is late, a collective waits: rank 3 did it."""
    job = yard(4)
    job.group("dp", [1, 2])
    job.group("dp", [0, 3])
    first, third = job.compute(0, 9 * US), job.compute(3, 13 * US)
    job.compute(1, 5 * US, after=[job.transfer(0, 1, 2 * US, after=[first])])
    job.compute(2, 5 * US, after=[job.transfer(3, 2, 2 * US, after=[third])])
    job.collective(0, 2 * US)
    line = job.play()
    line.graph.duration_ps[third] = 9 * US
    found = decompose(line)
    assert found.by_rank_ps[1, Cause.STRAGGLER] == 4 * US
    assert found.waited_for_ps.tolist() == [0, 0, 0, 4 * US]


def test_a_common_collective_ends_the_search_for_what_made_a_member_late(yard):
    """Contention before a collective in which both took part made both late; only what came after it counts."""
    job = yard(2)
    pair = job.group("tp", [0, 1])
    job.collective(pair, 9 * US, alone_ps=2 * US)
    job.compute(0, 5 * US)
    job.compute(1, 8 * US)
    job.collective(pair, 2 * US)
    found = decompose(job.play())
    assert found.by_rank_ps[0, Cause.STRAGGLER] == 3 * US
    assert found.by_rank_ps[0, Cause.CONTENTION] == 7 * US


def test_hidden_communication_costs_nothing_and_contention_is_charged_before_bandwidth(yard):
    job = yard(2)
    both = job.group("dp", [0, 1])
    ready = [job.compute(rank, 10 * US) for rank in (0, 1)]
    gathered = job.collective(both, 30 * US, stream=Stream.PARAMETER, after=ready, alone_ps=22 * US, latency_ps=2 * US)
    for rank in (0, 1):
        job.compute(rank, 15 * US)
        job.compute(rank, 1 * US, after=[gathered])
    found = decompose(job.play())
    assert found.step_ps == 41 * US
    # 15 of 30 us are exposed: 8 of contention first, then 7 shared 2:20 between latency and bandwidth.
    row = found.by_rank_ps[0]
    assert row[Cause.CONTENTION] == 8 * US
    assert row[Cause.LATENCY] == 7 * US * 2 // 22
    assert row[Cause.LATENCY] + row[Cause.BANDWIDTH] == 7 * US


def test_storage_waits_have_their_own_names(yard):
    job = yard(1)
    read = job.add(Kind.READ, 0, 4 * US, stream=Stream.STORAGE, label=Label("data", "read"))
    done = job.compute(0, 6 * US, after=[read])
    job.add(Kind.WRITE, 0, 3 * US, stream=Stream.STORAGE, after=[done], label=Label("checkpoint", "write"))
    found = decompose(job.play())
    assert seconds_us(found) == {
        ("compute", "", "forward"): 6,
        ("data", "", "data"): 4,
        ("checkpoint", "", "checkpoint"): 3,
    }


def test_across_stages_a_collective_waits_for_the_bubble(yard):
    """The norm of all gradients joins stages that finish at different times: that wait is the pipeline's."""
    job = yard(2)
    world = job.group("world", [0, 1])
    job.compute(0, 10 * US)
    job.transfer(0, 1, 0, after=[0])
    job.compute(1, 4 * US)
    job.collective(world, 1 * US)
    found = decompose(job.play())
    assert found.by_rank_ps[1, Cause.BUBBLE] == 6 * US
    assert found.straggler_events == 0


def test_a_delay_is_a_fault_on_its_own_rank_and_a_straggler_elsewhere(yard):
    job = yard(2)
    pair = job.group("dp", [0, 1])
    for rank in (0, 1):
        job.compute(rank, 10 * US)
    job.collective(pair, 2 * US)
    line = job.play()
    line.start_ps[0] += 5 * US
    line.end_ps[0] += 5 * US
    line.start_ps[2] += 5 * US
    line.end_ps[2] += 5 * US
    line.column("blocker")[2] = 0
    found = decompose(line)
    assert found.by_rank_ps[0, Cause.FAULT] == 5 * US
    assert found.by_rank_ps[1, Cause.STRAGGLER] == 5 * US


def test_overlap_on_a_compute_stream_is_refused(yard):
    job = yard(1)
    job.compute(0, 2 * US)
    job.compute(0, 2 * US)
    line = job.play()
    line.start_ps[1] -= 1
    with pytest.raises(InputError, match="compute stream of rank 0"):
        decompose(line)


def test_blockers_in_a_circle_are_refused(yard):
    job = yard(2)
    job.compute(0, 0)
    job.compute(1, 0, stream=Stream.TENSOR)
    job.compute(0, 1 * US)
    line = job.play()
    line.start_ps[:] += US
    line.end_ps[:] += US
    line.column("blocker")[:] = [1, 0, 0]
    line.start_ps[:2] = line.end_ps[:2] = US
    with pytest.raises(RailyardError, match="form a cycle"):
        decompose(line)


@st.composite
def random_steps(draw, make):
    ranks = draw(st.integers(1, 5))
    job = make(ranks)
    for _ in range(draw(st.integers(0, 3))):
        members = draw(st.lists(st.integers(0, ranks - 1), min_size=1, max_size=ranks, unique=True))
        job.group(draw(st.sampled_from(["tp", "dp", "world"])), members)
    for index in range(draw(st.integers(1, 25))):
        after = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else []
        stream = draw(st.sampled_from([Stream.COMPUTE, Stream.COMPUTE, Stream.GRADIENT, Stream.FORWARD]))
        took = draw(st.integers(0, 50))
        kind = draw(st.sampled_from(list(Kind)))
        if kind == Kind.COLLECTIVE and not job.groups:
            kind = Kind.COMPUTE
        alone = draw(st.integers(0, took)) if took else 0
        where = draw(st.integers(0, (len(job.groups) if kind == Kind.COLLECTIVE else ranks) - 1))
        group = job.groups[where][0] if kind == Kind.COLLECTIVE else ("pp" if kind == Kind.TRANSFER else "")
        job.add(
            kind,
            where,
            took,
            peer=draw(st.integers(0, ranks - 1)) if kind == Kind.TRANSFER else -1,
            stream=stream,
            after=after,
            alone_ps=alone,
            latency_ps=draw(st.integers(0, alone)) if alone else 0,
            label=Label(draw(st.sampled_from(["forward", "backward", "data", "checkpoint"])), "x", group),
        )
    return job


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_ranks_causes_add_up_to_the_step(yard, data):
    line = data.draw(random_steps(yard)).play()
    found = decompose(line)
    assert (found.by_rank_ps.sum(axis=1) == line.makespan_ps).all()
    assert (found.by_rank_ps >= 0).all()
    assert sum(row.seconds for row in found.rows) == pytest.approx(line.makespan_ps * 1e-12, rel=1e-9)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_compute_is_what_the_compute_stream_ran(yard, data):
    """The busy time, summed the slow way, is the booked compute (data and checkpoint kernels have their own names)."""
    line = data.draw(random_steps(yard)).play()
    graph = line.graph
    busy = np.zeros(graph.ranks, np.int64)
    for task in range(len(graph)):
        phase = graph.labels[graph.label[task]].phase
        local = graph.kind[task] == Kind.COMPUTE and graph.stream[task] == Stream.COMPUTE
        if local and phase not in ("data", "checkpoint"):
            busy[graph.rank[task]] += line.end_ps[task] - line.start_ps[task]
    assert (decompose(line).by_rank_ps[:, Cause.COMPUTE] == busy).all()


def test_overlapping_computations_count_once_and_gaps_go_to_what_was_waited_for(yard):
    """Rank 0 computes [0, 7] and [3, 5] at once, then [12, 20] after a transfer to itself's peer and back."""
    job = yard(2)
    first = job.compute(0, 7 * US, stream=Stream.FREE)
    job.compute(0, 2 * US, stream=Stream.FREE, release_ps=3 * US)
    there = job.transfer(0, 1, 3 * US, group="p2p", stream=Stream.FREE, after=[first], latency_ps=1 * US)
    back = job.transfer(1, 0, 2 * US, group="p2p", stream=Stream.FREE, after=[there], latency_ps=1 * US)
    job.compute(0, 8 * US, stream=Stream.FREE, after=[back])
    job.compute(1, 4 * US, stream=Stream.FREE, release_ps=9 * US)
    found = decompose(job.play())
    assert found.step_ps == 20 * US
    by_rank = found.by_rank_ps / US
    assert by_rank[0, Cause.COMPUTE] == 15
    assert by_rank[0, Cause.LATENCY] == 2
    assert by_rank[0, Cause.BANDWIDTH] == 3
    assert by_rank[1, Cause.COMPUTE] == 4
    assert by_rank[1, Cause.RELEASE] == 9
    assert by_rank.sum(axis=1).tolist() == [20, 20]


def test_work_on_the_host_is_waited_for_and_is_no_computation(yard):
    job = yard(1)
    launch = job.compute(0, 3 * US, phase="host", stream=Stream.FREE)
    job.compute(0, 5 * US, phase="trace", stream=Stream.FREE, after=[launch])
    found = decompose(job.play())
    assert seconds_us(found) == {("compute", "", "trace"): 5, ("dependency", "", "host"): 3}


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_rank_of_overlapping_work_adds_up_to_the_run(yard, data):
    ranks = data.draw(st.integers(1, 4))
    job = yard(ranks)
    for number in range(data.draw(st.integers(1, 14))):
        after = data.draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        rank, took = data.draw(st.integers(0, ranks - 1)), data.draw(st.integers(0, 9)) * US
        more = {
            "stream": Stream.FREE,
            "after": after,
            "release_ps": data.draw(st.sampled_from([0, 0, 5 * US, 31 * US])),
        }
        if ranks > 1 and data.draw(st.booleans()):
            job.transfer(rank, (rank + 1) % ranks, took, group="p2p", **more)
        else:
            job.compute(rank, took, phase=data.draw(st.sampled_from(["trace", "host"])), **more)
    record = job.play()
    found = decompose(record)
    assert (found.by_rank_ps.sum(axis=1) == found.step_ps).all()
    for rank in range(ranks):
        busy = set()
        for task in np.flatnonzero(record.graph.on_accelerator & (record.graph.rank == rank)):
            busy |= set(range(record.start_ps[task] // US, record.end_ps[task] // US))
        assert found.by_rank_ps[rank, Cause.COMPUTE] == len(busy) * US
