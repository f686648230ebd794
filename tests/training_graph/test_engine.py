"""The graph on the flow engine against the closed form of a step: two ways to the same time, made apart."""

from __future__ import annotations

import pytest

from railyard import catalog, cluster, engine
from railyard.graph import Job
from railyard.model.machine import Machine
from railyard.work.training.designs import estimate
from railyard.work.training.graphs import build
from railyard.work.training.spec import Layout, SoftwareProfile, Training

LAYOUTS = {
    "tensor and data": ("llama-3-8b", {"tp": 2, "dp": 32, "global_batch": 128}),
    "fsdp": ("llama-3-8b", {"dp": 64, "zero": 3, "global_batch": 128}),
    "pipeline": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "global_batch": 64}),
    "interleaved": (
        "llama-3-70b",
        {"tp": 8, "pp": 4, "dp": 2, "vp": 5, "schedule": "interleaved", "global_batch": 64},
    ),
    "zero-bubble": ("llama-3-70b", {"tp": 8, "pp": 4, "dp": 2, "schedule": "zero-bubble", "global_batch": 64}),
    "context": ("llama-3-70b", {"tp": 8, "pp": 2, "dp": 2, "cp": 2, "global_batch": 32}),
    "experts": ("mixtral-8x7b", {"tp": 2, "pp": 4, "dp": 8, "ep": 8, "global_batch": 256}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_graph_and_closed_form_agree(name):
    known = catalog.load()
    model, layout = LAYOUTS[name]
    machine = cluster.build(cluster.ClusterSpec(accelerators=64, server="hgx-h100"), known)
    software = SoftwareProfile(name="test")
    job = Training(model=known.model(model), layout=Layout(**layout), seq_len=8192, software=software)
    timeline = engine.get("flow").simulate([Job(build(job, machine))], machine)
    expected = float(estimate([job], [Machine.of(machine)]).step_s[0])
    assert timeline.makespan_ps * 1e-12 == pytest.approx(expected, rel=0.05)
