"""Small jobs, and a referee that plays a task graph by its semantics alone, one task at a time."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from railyard import catalog
from railyard.catalog import Model
from railyard.graph import CollectiveKind, Kind, Stream
from railyard.work.training.compute import StageCollective, StageTimes
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training

DENSE = Model(
    name="small",
    layers=8,
    hidden=64,
    heads=8,
    kv_heads=4,
    head_dim=8,
    ffn=128,
    gated_mlp=True,
    vocab=256,
    tied_embeddings=False,
    max_seq=64,
)
EXPERTS = Model(
    name="small-experts",
    layers=8,
    hidden=64,
    heads=8,
    kv_heads=4,
    head_dim=8,
    ffn=128,
    gated_mlp=True,
    vocab=256,
    tied_embeddings=True,
    max_seq=64,
    experts=16,
    experts_per_token=2,
    moe_ffn=32,
    moe_layer_start=2,
)
SOFTWARE = SoftwareProfile(name="test", gradient_bytes=4, step_ps=0)


@dataclass
class Jobs:
    """Builds jobs and their graphs; the cluster is what the builder asks of one."""

    accelerator: object

    def training(self, model=DENSE, *, seq_len=64, software=SOFTWARE, data=None, checkpoint=None, **layout):
        made = Layout(**{"global_batch": layout.get("dp", 1) * layout.get("micro_batch", 1) * 4} | layout)
        return Training(model=model, layout=made, seq_len=seq_len, software=software, data=data, checkpoint=checkpoint)

    def cluster(self, ranks):
        return SimpleNamespace(
            ranks=ranks,
            accelerator=self.accelerator,
            server=SimpleNamespace(pcie_bps=1e12, nics_per_accelerator=1, host_memory_bytes=2**41, host_cores=0),
            scale_up_domain=8,
            scale_out_latency=1.0,
            scale_up=SimpleNamespace(kind="switched", peers=0),
            nic=SimpleNamespace(rate_bps=4e11),
            spec=SimpleNamespace(back_end=None),
            fabric=SimpleNamespace(payload_efficiency=1.0, congestion_efficiency=1.0),
            servers=-(-ranks // 8),
            ranks_per_server=8,
            storage_servers=None,
            memory_pool=None,
            cubes=None,
            plans={"back_end": SimpleNamespace(usable=np.ones(1))},
            back_end=SimpleNamespace(wiring=SimpleNamespace(circuits=None)),
        )

    def graph(self, training, **options):
        return build(training, self.cluster(training.layout.ranks), **options).validate()


@pytest.fixture(scope="session")
def jobs():
    return Jobs(catalog.load().accelerator("h100-sxm"))


def even(forward=10_000, grad_input=20_000, grad_weight=0, collectives=()):
    """Every virtual stage takes the same time, and parts of it their share of its layers."""

    def times(training, _accelerator, stage):
        whole = training.model.layers // (training.layout.pp * training.layout.vp)
        share = stage.layers / whole
        numbers = (round(time * share) for time in (forward, grad_input, grad_weight))
        return StageTimes(*numbers, 0, 0.0, tuple(collectives))

    return times


def collective(group, phase, size_bytes=1000, count=1, hidden=0.0):
    return StageCollective(CollectiveKind.ALL_GATHER, group, phase, size_bytes, count, hidden)


def members(graph, task):
    if graph.kind[task] == Kind.COLLECTIVE:
        return graph.communicators.members(int(graph.rank[task])).tolist()
    return [int(graph.rank[task])]


def play(graph, time_of=None):
    """Start and end of every task. Fails when a task waits for one that stands behind it.

    `time_of(graph, task)` is how long a communication takes; nothing by default.
    """
    start, end = np.zeros(len(graph), np.int64), np.zeros(len(graph), np.int64)
    free: dict[tuple[int, int], int] = {}
    for task in range(len(graph)):
        waits = graph.dependencies(task)
        assert (waits < task).all(), f"task {task} waits for a later one"
        places = [(rank, int(graph.stream[task])) for rank in members(graph, task)]
        begin = max([free.get(place, 0) for place in places] + end[waits].tolist())
        took = int(graph.duration_ps[task])
        if graph.kind[task] != Kind.COMPUTE and time_of is not None:
            took = time_of(graph, task)
        start[task], end[task] = begin, begin + took
        free.update((place, begin + took) for place in places)
    return start, end


def chosen(graph, **wanted):
    """Tasks whose labels have these attributes."""
    match = [all(getattr(label, key) == value for key, value in wanted.items()) for label in graph.labels]
    return np.flatnonzero(np.array(match)[graph.label])


def computed(graph):
    """Computing time of every rank, in picoseconds."""
    on = (graph.kind == Kind.COMPUTE) & (graph.stream == Stream.COMPUTE)
    return np.bincount(graph.rank[on], graph.duration_ps[on], graph.ranks)


@pytest.fixture(scope="session")
def yard():
    """The helpers above, for tests that cannot import their conftest."""
    return SimpleNamespace(
        even=even, collective=collective, members=members, play=play, chosen=chosen, computed=computed,
        dense=DENSE, experts=EXPERTS, software=SOFTWARE,
    )  # fmt: skip
