"""Utilization, lockstep, distribution and tracks: small figures with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.graph import Stream
from railyard.measure.decompose import decompose, stages
from railyard.measure.lockstep import lockstep
from railyard.measure.picture import sample_ranks, tracks
from railyard.measure.utilization import StepWork, utilization
from railyard.work.training.mean_step import StepTimes

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
    assert found.gpu_seconds_lost == pytest.approx(2 * 3 * 2e-6)
    assert sorted(found.worst) == [(1, pytest.approx(6e-6)), (3, pytest.approx(6e-6))]


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
