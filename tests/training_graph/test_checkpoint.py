"""Checkpoints: what is written when, and what waits for it."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.graph import Kind, Stream
from railyard.work.training.spec import Checkpoint


@pytest.fixture
def shape():
    return {"tp": 2, "pp": 2, "dp": 2}


def written(graph):
    return int(graph.size_bytes[graph.kind == Kind.WRITE].sum())


def state_bytes(jobs, yard, shape):
    """Fourteen bytes a parameter; norms and the router, which every tp rank holds, are counted as often."""
    from railyard.work.training.compute import stage_parameters
    from railyard.work.training.stages import virtual_stages

    training = jobs.training(yard.dense, **shape)
    held = [stage_parameters(training, stage) for stage in virtual_stages(yard.dense, training.layout)]
    return 14 * sum(part.dense for part in held) * shape["tp"]


def test_a_synchronous_checkpoint_ends_the_step(jobs, yard, shape):
    saved = Checkpoint(asynchronous=False)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    plain, with_it = jobs.graph(training), jobs.graph(training, checkpoint=True)
    assert written(plain) == 0
    assert written(with_it) == pytest.approx(state_bytes(jobs, yard, shape), rel=1e-3)
    assert np.bincount(with_it.rank[with_it.kind == Kind.WRITE], minlength=8).tolist() == [1] * 8
    slow = lambda g, t: 10**9 if g.kind[t] == Kind.WRITE else 0  # noqa: E731
    _, plain_end = yard.play(plain, slow)
    start, end = yard.play(with_it, slow)
    assert end.max() == plain_end.max() + 10**9
    waits = yard.chosen(with_it, phase="checkpoint", op="wait")
    assert (start[waits] >= 10**9).all()
    assert len(waits) == 8


def test_an_asynchronous_checkpoint_stalls_for_the_copy_alone(jobs, yard, shape):
    saved = Checkpoint(asynchronous=True, interval_steps=100)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    plain, with_it = jobs.graph(training), jobs.graph(training, checkpoint=True)
    # Every step carries a hundredth of the write, from its start.
    assert written(plain) == written(with_it) == pytest.approx(state_bytes(jobs, yard, shape) / 100, rel=1e-2)
    start, plain_end = yard.play(plain)
    assert (start[plain.kind == Kind.WRITE] == 0).all()
    copies = yard.chosen(with_it, op="copy to host")
    assert len(copies) == 8
    assert (with_it.stream[copies] == Stream.COMPUTE).all()
    share = state_bytes(jobs, yard, shape) / 8
    assert with_it.duration_ps[copies].mean() == pytest.approx(share * 8 / 1e12 * 1e12, rel=1e-2)
    _, end = yard.play(with_it)
    assert plain_end.max() < end.max() <= plain_end.max() + with_it.duration_ps[copies].max()


def test_what_is_gathered_is_copied_behind_the_gather(jobs, yard, shape):
    """Two replicas: the first has all of the state of its two, once it is gathered behind the whole step."""
    saved = Checkpoint(asynchronous=True, gathered=True, interval_steps=100)
    training = jobs.training(yard.dense, checkpoint=saved, **shape)
    graph = jobs.graph(training, checkpoint=True)
    start, end = yard.play(graph, lambda g, t: 10**9 if g.kind[t] == Kind.COLLECTIVE else 0)
    (gathers, copies) = (yard.chosen(graph, op=op) for op in ("gather state", "copy to host"))
    assert len(copies) == 4
    # Stage by stage: a stage of a pipeline ends before the next one.
    assert (np.sort(start[copies]) == np.repeat(np.sort(end[gathers]), len(copies) // len(gathers))).all()
    optimizer = yard.chosen(graph, phase="optimizer")
    assert start[gathers].min() >= end[optimizer].min()


def test_a_paced_write_holds_up_a_step_that_is_shorter(jobs, yard, shape):
    training = jobs.training(yard.dense, checkpoint=Checkpoint(interval_steps=2), **shape)
    graph = jobs.graph(training)
    _, end = yard.play(graph, lambda g, t: 10**12 if g.kind[t] == Kind.WRITE else 0)
    assert end.max() == 10**12
    assert (end[yard.chosen(graph, op="wait")] == 10**12).all()


def test_without_a_checkpoint_nothing_is_written(jobs, yard, shape):
    assert written(jobs.graph(jobs.training(yard.dense, **shape), checkpoint=True)) == 0
