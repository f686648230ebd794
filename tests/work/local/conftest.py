"""Small jobs on one machine, and what one step of them takes by both ways of telling."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from railyard import catalog, engine
from railyard.graph import Job
from railyard.work.scenario import load
from railyard.work.study import compose
from railyard.work.training import Layout, Machine, Training, build, estimate, profiles
from railyard.work.training.parallel.finish import meeting_steps
from railyard.work.training.sync import Communication

KNOWN = catalog.load()
H100 = KNOWN.accelerator("h100-sxm")


def cluster(accelerators, rate):
    values = {
        "name": "yard",
        "cluster": {
            "accelerators": accelerators,
            "server": "hgx-h100",
            "back_end": {"topology": "rail-optimized", "fabric": "ideal", "link_rate": rate},
        },
        "workload": {"training": {"model": "llama-3-8b", "global_batch": 1, "sequence": 8}},
    }
    return compose.cluster_of(load.from_values(values), KNOWN)


def job(zero=1, *, model="llama-3-8b", ranks=32, tp=1, pp=1, ep=1, **asked):
    layout = Layout(tp=tp, pp=pp, ep=ep, dp=ranks // tp // pp, zero=zero, global_batch=2 * ranks, recompute="full")
    return Training(
        model=KNOWN.model(model),
        layout=layout,
        seq_len=8192,
        software=profiles.default(H100),
        communication=Communication(**asked) if asked else None,
    )


def closed_s(training, machine):
    row = estimate([training], [Machine.of(machine)]).row(0)
    return row["step_s"] - row["jitter_s"]


STEPS = {}


def graph_s(training, machine):
    """The mean step on the flow engine: steps with and without a meeting of workers, by their shares."""
    key = (str(training), id(machine))
    if key not in STEPS:
        STEPS[key] = _graph_s(training, machine)
    return STEPS[key]


def _graph_s(training, machine):
    def run(*, meeting):
        return (
            engine.get("flow").simulate([Job(build(training, machine, meeting=meeting))], machine).makespan_ps * 1e-12
        )

    share, plain = meeting_steps(training), run(meeting=False)
    return plain + share * (run(meeting=True) - plain) if share else plain


@pytest.fixture(scope="session")
def yard():
    fast, slow = cluster(32, "400 Gb/s"), cluster(32, "50 Gb/s")
    return SimpleNamespace(job=job, closed_s=closed_s, graph_s=graph_s, fast=fast, slow=slow, h100=H100, known=KNOWN)
