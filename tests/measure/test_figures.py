"""Utilization, lockstep, distribution and tracks: small figures with known answers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.graph import Record, Stream
from railyard.graph.columns import CORE
from railyard.kit.errors import InputError
from railyard.measure import bottleneck
from railyard.measure.decompose import decompose, lockstep, stages
from railyard.measure.job import Checkpointing, Reliability, best_interval_s, expected_wall_s, job_time
from railyard.measure.network import network_use, packet_section
from railyard.measure.picture import sample_ranks, tracks
from railyard.measure.utilization import StepWork, utilization
from railyard.work.training.step_runs import StepTimes

US = 1_000_000


def test_mfu_of_a_published_run(yard):
    """GPT-3 175B on 1,024 A100: 140 TFLOP/s a GPU are 44.9 % of 312 (Narayanan et al., arXiv 2104.04473, table 1)."""
    job = yard(1024)
    for rank in range(1024):
        job.compute(rank, 10**12)
    found = utilization(decompose(job.play()), StepWork(1e6, 140e12 * 1024, 150e12 * 1024, 312e12))
    assert found.mfu == pytest.approx(0.449, abs=0.0005)
    assert found.hfu > found.mfu
    assert found.gpu == 1.0
    assert found.tokens_per_s == pytest.approx(1e6)
    assert found.tokens_per_s_per_gpu == pytest.approx(1e6 / 1024)


def test_utilization_by_rank(yard):
    job = yard(3)
    for rank, took in enumerate((10, 5, 0)):
        job.compute(rank, took * US)
    found = utilization(decompose(job.play()), StepWork(1, 0, 0, 0))
    assert found.per_rank.tolist() == [1.0, 0.5, 0.0]
    assert found.gpu == pytest.approx(0.5)
    assert found.mfu is None
    assert found.section().plain()["ranks"] == {"min": 0.0, "p50": 0.5, "max": 1.0}
    assert found.section(reported_ranks=2).plain()["per_rank"] == [1.0, 0.0]


def test_lockstep_names_the_rank_that_all_waited_for(yard):
    job = yard(4)
    everyone = job.group("dp", [0, 1, 2, 3])
    for late in (1, 3):
        for rank in range(4):
            job.compute(rank, (12 if rank == late else 10) * US)
        job.collective(everyone, US)
    found = lockstep(decompose(job.play()))
    assert found.events == 2
    assert found.gpu_seconds_lost_to_stragglers == pytest.approx(2 * 3 * 2e-6)
    assert sorted((one.rank, one.gpu_seconds) for one in found.worst_ranks) == [
        (1, pytest.approx(6e-6)),
        (3, pytest.approx(6e-6)),
    ]


def test_step_times_of_a_hundred_seeds():
    found = StepTimes(tuple(float(number) for number in range(100, 0, -1))).section().plain()
    assert (found["p50_s"], found["p95_s"], found["p99_s"]) == (50.0, 95.0, 99.0)
    assert found["seconds"] == 50.5


def test_tracks_show_what_ran_and_join_what_looks_alike(yard):
    job = yard(2)
    pair = job.group("dp", [0, 1])
    job.compute(0, 2 * US)
    job.compute(0, 3 * US)
    job.compute(0, 4 * US, phase="backward")
    job.compute(1, 20 * US)
    job.collective(pair, 5 * US, phase="gradient", stream=Stream.GRADIENT, after=[2])
    found = tracks(job.play(), [0]).plain()
    compute, gradient = found["tracks"]
    assert (compute["rank"], compute["stream"], gradient["stream"]) == (0, "compute", "gradient")
    assert compute["tasks"] == [[0.0, 5.0, 0], [5.0, 4.0, 1]]
    assert gradient["tasks"] == [[9.0, 5.0, 2]]
    assert found["labels"][2] == {"phase": "gradient", "op": "all_reduce", "group": "dp"}


def test_too_many_tasks_leave_the_longest(yard):
    job = yard(1)
    for index in range(40):
        job.compute(0, (index % 7 + 1) * US, phase="forward" if index % 2 else "backward")
    found = tracks(job.play(), [0], most_tasks=10).plain()
    drawn = found["tracks"][0]["tasks"]
    assert len(drawn) == 10
    assert min(task[1] for task in drawn) >= 6.0
    assert drawn == sorted(drawn)


def test_sampled_ranks_span_the_pipeline_and_hold_the_extremes(yard):
    job = yard(8)
    for first in (0, 2, 4, 6):
        job.group("dp", [first, first + 1])
        if first:
            job.transfer(first - 2, first, 1)
            job.transfer(first - 1, first + 1, 1)
    stage = stages(job.graph())
    busy = np.array([0.5, 0.4, 0.5, 0.9, 0.5, 0.5, 0.5, 0.1])
    assert stage.tolist() == [0, 0, 2, 2, 4, 4, 6, 6]
    assert sample_ranks(stage, busy) == [0, 2, 3, 4, 6, 7]


# From a step to a job: Daly's published optima, a simulation of failures, and what large runs reported.

MINUTE = 60.0
HOUR = 3600.0


@pytest.mark.parametrize(("mtbf_s", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_the_best_interval_is_the_one_that_daly_prints(mtbf_s, minutes):
    """Figures 3 to 5 of Daly (2006): stall 5 min, restart 10 min."""
    assert best_interval_s(5 * MINUTE, mtbf_s) / MINUTE == pytest.approx(minutes, rel=0.01)


@given(stall=st.floats(1, 600), mtbf=st.floats(3 * HOUR, 500 * HOUR))
def test_no_other_interval_is_much_better(stall, mtbf):
    best = best_interval_s(stall, mtbf)
    wall = expected_wall_s(1e6, interval_s=best, stall_s=stall, mtbf_s=mtbf, restart_s=300)
    for factor in (0.3, 0.7, 0.9, 1.1, 1.4, 3.0):
        other = expected_wall_s(1e6, interval_s=best * factor, stall_s=stall, mtbf_s=mtbf, restart_s=300)
        assert wall <= other * (1 + 1e-4)


def test_the_expectation_is_what_a_simulation_of_failures_finds():
    """Segments of work and checkpoint are repeated until no failure hits them; restarts can fail too."""
    mtbf, restart, stall, interval, segments = 3000.0, 200.0, 60.0, 800.0, 20_000
    draw = random.Random(5)
    wall = 0.0
    for _ in range(segments):
        need = interval + stall
        while (failure := draw.expovariate(1 / mtbf)) < need:
            wall += failure
            need = interval + stall + restart
        wall += need
    found = expected_wall_s(segments * interval, interval_s=interval, stall_s=stall, mtbf_s=mtbf, restart_s=restart)
    # Daly charges a restart with every attempt after a failure, as this simulation does, up to the first attempt's own.
    assert found == pytest.approx(wall, rel=0.02)


def test_llama_3_was_interrupted_every_three_hours_and_kept_over_90_percent():
    """54 days on 16,384 H100: 419 unexpected interruptions, one in 3.09 h, effective training time above 90 %."""
    job = job_time(
        tokens=15.6e12,
        tokens_per_step=16e6,
        step_s=4.9,
        accelerators=16_384,
        checkpointing=Checkpointing(stall_s=10.0, interval_s=600.0),
        restart_s=Reliability().restart_s.low,
    )
    assert job.mtbf_s / HOUR == pytest.approx(3.09, abs=0.01)
    assert 0.9 < job.goodput < 0.97
    assert job.interruptions / (job.seconds / (86_400 * 54)) == pytest.approx(419, rel=0.01)


def test_meta_failure_rates_give_its_mean_times_to_failure():
    """RSC-1, 6.50 failures per 1,000 days of an 8-GPU node: 16,384 GPUs fail every 1.8 h, as the paper projects."""
    usual = Reliability()
    assert usual.mtbf_h.low / 16_384 == pytest.approx(1.80, abs=0.01)


def test_the_parts_of_the_job_add_up():
    job = job_time(
        tokens=1e12,
        tokens_per_step=4e6,
        step_s=2.0,
        accelerators=1024,
        checkpointing=Checkpointing(stall_s=30.0, interval_s=1800.0),
    )
    work_s = job.steps * 2.0
    assert job.steps == 250_000
    assert work_s + job.checkpoint_s + job.restart_s == pytest.approx(job.seconds)
    assert job.goodput == pytest.approx(work_s / job.seconds)
    assert job.checkpoint_s == pytest.approx(work_s / 1800 * 30)


def test_nothing_fails_on_a_perfect_cluster():
    job = job_time(tokens=1e9, tokens_per_step=1e6, step_s=1.0, accelerators=8, mtbf_h=1e15)
    assert job.goodput == pytest.approx(1.0)
    assert job.seconds == pytest.approx(1000.0)


@given(accelerators=st.integers(1, 10**5), stall=st.floats(0, 100))
def test_more_accelerators_fail_more_often(accelerators, stall):
    def goodput(count):
        saves = Checkpointing(stall_s=stall, interval_s=600.0)
        return job_time(tokens=1e13, tokens_per_step=1e6, step_s=1.0, accelerators=count, checkpointing=saves).goodput

    assert goodput(accelerators) >= goodput(accelerators + 1000) - 1e-12
    assert math.isfinite(goodput(accelerators))


# Every measure of a record either works with what a measured cluster has or says exactly what is missing.

MISSING = [
    (decompose, "column blocker, column alone_ps, column latency_ps, task graph"),
    (lambda record: network_use(record, None, None), "table links, task graph"),
    (lambda record: bottleneck.resources(None, record), "table links, task graph"),
    (lambda record: packet_section(record, {}), "column target"),
    (lambda record: tracks(record, [0]), "task graph"),
]


@pytest.mark.parametrize(("measure", "missing"), MISSING)
def test_a_bare_record_lacks(measure, missing):
    bare = Record(rows="tasks", **{name: np.zeros(2, column.dtype) for name, column in CORE.items()})
    with pytest.raises(InputError, match="of a measured cluster") as caught:
        measure(bare)
    assert str(caught.value).splitlines()[0].endswith(f"does not have: {missing}")
    assert "column end_ps, column size_bytes" in str(caught.value)


def test_a_decomposition_needs_no_more_than_it_says(yard):
    job = yard(1)
    job.compute(0, 7)
    line = job.play()
    kept = {name: line.column(name) for name in ("blocker", "alone_ps", "latency_ps")}
    assert decompose(Record.of_tasks(line.graph, line.start_ps, line.end_ps, optional=kept)).step_ps == 7
