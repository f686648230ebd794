"""Small jobs on clusters with storage, and their steps on the flow engine."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from railyard import catalog, cluster, engine
from railyard.catalog import Model
from railyard.cluster import FabricSpec, NetworkSpec
from railyard.graph import Job
from railyard.work.training.compute import StageTimes
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training

SMALL = Model(
    name="small", layers=8, hidden=64, heads=8, kv_heads=4, head_dim=8, ffn=128, gated_mlp=True, vocab=256,
    tied_embeddings=False, max_seq=64,
)  # fmt: skip
SOFTWARE = SoftwareProfile(name="test", gradient_bytes=4, step_ps=0)


def training(data=None, checkpoint=None, *, model=SMALL, seq_len=64, **layout):
    made = Layout(**{"global_batch": layout.get("dp", 1) * 4, "zero": 0} | layout)
    return Training(model=model, layout=made, seq_len=seq_len, software=SOFTWARE, data=data, checkpoint=checkpoint)


def machine(ranks, storage="nvme-file-server", servers=2, network="front_end", **changed):
    """A cluster whose storage node has some values changed; crossbars keep networks out of the way."""
    ideal = NetworkSpec(fabric=FabricSpec("ideal"))
    return cluster.build(
        cluster.ClusterSpec(
            ranks, "hgx-h100", ideal, front_end=ideal, storage=cluster.StorageSpec(storage, servers, network)
        ),
        _catalog(storage, changed),
    )


def _catalog(storage, changed):
    known = catalog.load()
    if not changed:
        return known
    entry = replace(known.storage(storage), **changed)
    return SimpleNamespace(
        **{name: getattr(known, name) for name in dir(known) if not name.startswith("__") and name != "storage"},
        storage=lambda name: entry if name == storage else known.storage(name),
    )


def compute(seconds):
    """Every forward pass of a stage takes a third of its share of `seconds`, every backward pass the rest."""

    def times(job, _accelerator, stage):
        share = stage.layers / job.model.layers / job.layout.micro_batches * seconds * 1e12
        return StageTimes(round(share / 3), round(share * 2 / 3), 0, 0, 0.0, ())

    return times


def step(job, on, *, compute_s=None, checkpoint=False):
    graph = build(job, on, times_of=None if compute_s is None else compute(compute_s), checkpoint=checkpoint).validate()
    return graph, engine.get("flow").simulate([Job(graph)], on)


@pytest.fixture(scope="session")
def yard():
    return SimpleNamespace(training=training, machine=machine, step=step, compute=compute, small=SMALL)
