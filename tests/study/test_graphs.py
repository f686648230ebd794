"""Variants share the graph of a step, and each has the losses of its network, whichever is built first."""

from pathlib import Path

import numpy as np

from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.training.graphs import Graphs, build

FIRST = Path(__file__).parents[2] / "examples" / "first.yaml"


def test_a_shared_graph_has_the_losses_of_each_network():
    job = prepare(load.load(FIRST))[0]
    slower = job.cluster.scaled(nic=0.5, fabric_tiers=0.5)
    for order in ((job.cluster, slower), (slower, job.cluster)):
        graphs = Graphs()
        first, second = (graphs.of(job.training, cluster) for cluster in order)
        assert first.dep_idx is second.dep_idx
        assert not np.array_equal(first.loss, second.loss)
        for cluster, graph in zip(order, (first, second), strict=True):
            assert np.array_equal(graph.loss, build(job.training, cluster).loss)


def test_the_oldest_graph_goes_beyond_so_many_tasks():
    job = prepare(load.load(FIRST))[0]
    size = len(Graphs().of(job.training, job.cluster))
    for tasks, goes in ((int(1.9 * size), True), (int(2.2 * size), False)):
        graphs = Graphs(most=1, tasks=tasks)
        kept = graphs.of(job.training, job.cluster)
        graphs.of(job.training, job.cluster, checkpoint=True)
        assert (graphs.of(job.training, job.cluster).dep_idx is not kept.dep_idx) == goes


def test_all_but_the_last_few_are_forgotten():
    job = prepare(load.load(FIRST))[0]
    graphs = Graphs(most=1)
    kept = graphs.of(job.training, job.cluster)
    last = graphs.of(job.training, job.cluster, checkpoint=True)
    graphs.forget()
    assert graphs.of(job.training, job.cluster, checkpoint=True).dep_idx is last.dep_idx
    assert graphs.of(job.training, job.cluster).dep_idx is not kept.dep_idx
