"""Scripted traces: streams and waiting by hand, cases that depend on their seed alone, and how answers are judged."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from railyard_validation.traces import cases
from railyard_validation.traces.cases import Truth, Wrong
from railyard_validation.traces.job import Communication, Job, Kernel
from railyard_validation.traces.judge import compared, report
from railyard_validation.traces.play import AHEAD_US, LAUNCH_US, SKEW_US, Conduct, Play

QUIET = Conduct(noise=0.0, outliers=0.0, network_noise=0.0)


def job(**changed) -> Job:
    """Eight data-parallel ranks of two hosts, two layers, three steps."""
    values = {"ranks": 8, "per_host": 4, "tensor": 1, "pipeline": 1, "expert": 1, "sharded": False}
    return Job(**{**values, "layers": 2, "micro_batches": 1, "steps": 3, "scale": 1.0, **changed})


def play(what: Job, conduct: Conduct = QUIET):
    return Play(what, conduct, np.random.default_rng(1)).events()


def test_computations_follow_one_another_and_collectives_end_together():
    events, _ = play(job())
    computed = [one for one in events[3] if isinstance(one.what, Kernel)]
    assert all(later.start >= one.end for one, later in pairwise(computed))
    ends = [[one.end for one in rank if isinstance(one.what, Communication)] for rank in events]
    assert np.ptp(np.array(ends), axis=0).max() <= SKEW_US


def test_a_step_takes_its_kernels_and_what_is_exposed_of_its_communications():
    """Kernels 12 + 90 + 880 + ... us; the last gradients and the norm's all-reduce cannot hide."""
    one = job(steps=1)
    computed = sum(what.us for what in one.step(0) if isinstance(what, Kernel))
    _, starts = play(one)
    exposed = starts[0, -1] - computed
    gradients, norm = 420, 45
    launches = 2 * (LAUNCH_US + AHEAD_US)
    assert exposed == pytest.approx(gradients + norm, abs=2 * launches + 2 * SKEW_US)


def test_a_slow_rank_makes_the_others_wait_inside_their_collectives():
    slow = Conduct(
        kernel=lambda rank, _step, _what: 1.2 if rank == 5 else 1.0, noise=0.0, outliers=0.0, network_noise=0.0
    )
    events, _ = play(job(), slow)
    waited = [sum(one.end - one.start for one in rank if isinstance(one.what, Communication)) for rank in events]
    assert int(np.argmin(waited)) == 5
    assert min(waited[:5]) > 1.5 * waited[5]


@pytest.mark.parametrize(
    "shape", [{"tensor": 4}, {"pipeline": 4, "micro_batches": 4}, {"expert": 4}, {"sharded": True}]
)
def test_every_layout_runs_to_its_end(shape):
    events, starts = play(job(ranks=16, **shape))
    assert all(np.isfinite(one.end) for rank in events for one in rank)
    assert len({len(rank) for rank in events}) <= 3
    assert (np.diff(starts, axis=1) > 0).all()


def test_groups_by_hand():
    """Two stages of eight: tensor groups of two, data groups of four, pairs eight apart."""
    what = job(ranks=16, tensor=2, pipeline=2)
    assert what.tensor_group(5) == (4, 5)
    assert what.data_group(5) == (1, 3, 5, 7)
    assert what.data_group(13) == (9, 11, 13, 15)
    assert (5, 13) in what.groups()["pp"]
    experts = job(ranks=16, expert=4)
    assert experts.expert_group(6) == (4, 5, 6, 7)
    assert experts.replica_group(6) == (2, 6, 10, 14)


def test_a_case_depends_on_its_seed_alone(tmp_path):
    files = []
    for place in ("a", "b"):
        cases.drawn("intermittent accelerator", np.random.default_rng([7, 3]), tmp_path / place)
        files.append({one.name: one.read_bytes() for one in (tmp_path / place).iterdir()})
    assert files[0] == files[1]


def test_what_is_true_is_not_written(tmp_path):
    """Files hold kernels and what a profiler knows, and no word of what was drawn."""
    truth = cases.drawn("two faults", np.random.default_rng([7, 4]), tmp_path)
    assert truth.evidence
    for file in tmp_path.iterdir():
        assert set(json.loads(_text(file))) <= {
            "schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "traceEvents",
        }  # fmt: skip


def _text(file):
    import gzip

    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()


def row(part, kind, confidence=0.9, steps=(1,)):
    return {"part": part, "kind": kind, "confidence": confidence, "pattern": "intermittent", "slow_steps": list(steps)}


def truth(*wrong, evidence="enough", missing=()):
    return Truth("toy", wrong, missing, evidence, (), "")


def answer(*rows, unknown=False, missing=()):
    return {"verdict": list(rows), "unknown": unknown, "missing_ranks": list(missing)}


def test_answers_are_judged_by_part_and_kind():
    slow = Wrong(("rank 5",), (), ("accelerator",), "intermittent", (1,))
    assert compared(0, truth(slow), answer(row("rank 5", "accelerator"))).right == (True,)
    other = compared(0, truth(slow), answer(row("rank 5", "sequences")))
    assert (other.right, other.found) == ((False,), (None,))
    server = Wrong(("server 0",), ("rank 0", "rank 1"), ("host",), "constant", (1,))
    assert compared(0, truth(server), answer(row("rank 0", "host"))).found == (None,)
    assert compared(0, truth(server), answer(row("rank 0", "host"), row("rank 1", "host"))).found[0]


def test_figures_over_cases():
    slow = Wrong(("rank 5",), (), ("accelerator",), "intermittent", (1,))
    found = report(
        [
            compared(0, truth(slow), answer(row("rank 5", "accelerator", 0.6))),
            compared(1, truth(slow), answer(unknown=True)),
            compared(2, truth(), answer(row("rank 2", "host", 0.6))),
            compared(3, truth(slow, evidence="short", missing=(1,)), answer(unknown=True, missing=(1,))),
            compared(4, truth(slow, evidence="short"), answer()),
        ]
    )
    assert found["precision"] == (1, 2)
    assert found["recall"] == (1, 2)
    assert found["unknown_where_evidence_suffices"] == (1, 3)
    assert found["named_where_nothing_is_wrong"] == (1, 1)
    assert found["honest_where_evidence_is_short"] == (1, 2)
    assert found["missing_ranks"] == (5, 5)
    assert found["slow_steps"] == (1, 1)
    assert found["reliability"] == [{"from": 0.5, "to": 0.7, "stated": pytest.approx(0.6), "right": 1, "rows": 2}]
