"""Interruptions and common noise that engines draw: by the seed, and as the law says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from railyard.engine import Jitter, Stall
from railyard.engine.fluid import drawn, swung
from railyard.graph import Job, Merged
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.graphs import Graphs
from railyard.work.training.jitter import Interruption, JitterLaw


@pytest.fixture(scope="module")
def bench():
    job = prepare(
        load.from_values(
            {
                "name": "stalls",
                "cluster": {
                    "accelerators": 32,
                    "server": "hgx-h100",
                    "back_end": {"topology": "rail-optimized", "fabric": "ideal"},
                },
                "workload": {
                    "training": {
                        "model": "llama-3.2-1b",
                        "global_batch": 128,
                        "sequence": 2048,
                        "parallelism": {"tp": 1, "zero": 1, "micro_batch": 1},
                    }
                },
            }
        )
    )[0]
    return job, Graphs().of(job.training, job.cluster)


def steps_s(bench, jitter, seeds):
    job, graph = bench
    return np.array(
        [job.engine.simulate([Job(graph)], job.cluster, seed=seed, jitter=jitter).makespan_ps * 1e-12 for seed in seeds]
    )


def test_the_same_seed_gives_the_same_step(bench) -> None:
    jitter = Jitter(step_sigma=0.01, stalls=(Stall(0.5, 0.01),))
    one, same, other = steps_s(bench, jitter, [3, 3, 4])
    assert one == same != other


def test_common_noise_moves_all_ranks_together(bench) -> None:
    """It widens the steps and leaves nobody waiting: the mean stays."""
    plain = steps_s(bench, Jitter(), [0])[0]
    found = steps_s(bench, Jitter(step_sigma=0.02), range(200))
    assert found.mean() == pytest.approx(plain, rel=0.01)
    assert 0.01 < found.std() / plain < 0.025


def test_interruptions_are_as_many_as_the_rate_says(bench) -> None:
    _, graph = bench
    busy_s = graph.duration_ps[graph.kind == 0].sum() * 1e-12 / graph.ranks
    counts = [len(drawn(Merged.of(graph), Jitter(stalls=(Stall(2.0, 0.01),)), seed)) for seed in range(300)]
    assert np.mean(counts) == pytest.approx(2.0 * graph.ranks * busy_s, rel=0.05)
    assert drawn(Merged.of(graph), Jitter(), 0) == ()
    assert swung(Merged.of(graph), Jitter(), 0) is graph


def test_a_data_parallel_step_waits_for_the_longest_interruption(bench) -> None:
    """Rare ones: the engine's steps have the quantiles of the law, which says that each reaches the step."""
    _, graph = bench
    rate, mean_s = 1.0, 0.05
    plain = steps_s(bench, Jitter(), [0])[0]
    busy_s = float(np.bincount(graph.rank[graph.kind == 0], graph.duration_ps[graph.kind == 0]).max()) * 1e-12
    found = steps_s(bench, Jitter(stalls=(Stall(rate, mean_s),)), range(300)) - plain
    law = JitterLaw("", 0.0, (Interruption(rate, mean_s),), "")
    for share in (0.5, 0.9):
        wanted = law.delay_s(share, graph.ranks, busy_s, 1)
        assert float(np.quantile(found, share)) == pytest.approx(wanted, rel=0.3, abs=2e-3)
    assert math.isclose(found.min(), 0.0, abs_tol=plain)
