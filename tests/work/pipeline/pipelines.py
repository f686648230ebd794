"""Small pipelines for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.work.pipeline.measuring import measure, shown
from railyard.work.scenario import load
from railyard.work.study.study import prepare

if TYPE_CHECKING:
    from railyard.measure.serving.latencies import Served
    from railyard.work.pipeline.model_stage import PipelineJob

ASKED: dict[str, Any] = {
    "rate": 2,
    "input": {"mean": 600, "p99": 2500},
    "output": {"mean": 80, "p99": 300},
    "count": 300,
}
CLUSTER: dict[str, Any] = {"accelerators": 64, "server": "hgx-h100"}
SMALL: dict[str, Any] = {"kind": "model", "model": "llama-3.2-1b", "pools": {"both": {"replicas": 1}}}
LARGE: dict[str, Any] = {"kind": "model", "model": "llama-3-8b", "pools": {"both": {"replicas": 2}}}
AT_ONCE: dict[str, Any] = {"latency": "0 s"}


def search(seconds: float, **further: Any) -> dict[str, Any]:
    """A search that takes one query at a time and that long: a server of deterministic service."""
    rate = 576e9 * 0.8
    return {
        "kind": "retrieve",
        "server": "cpu-epyc-9755",
        "index": "flat",
        "vectors": round(seconds * rate / 1000),
        "vector_size": "1000 B",
        "batch": 1,
        "overhead": "0 s",
        "top": 1,
        "passage": "0 B",
        **further,
    }


def scenario(stages: dict[str, Any], asked: dict[str, Any] | None = None, **further: Any) -> dict[str, Any]:
    """A scenario of these stages."""
    pipeline = {"requests": {"synthetic": asked or ASKED}, "stages": stages, "between": AT_ONCE, **further}
    return {"cluster": CLUSTER, "workload": {"pipeline": pipeline}}


def job(stages: dict[str, Any], asked: dict[str, Any] | None = None, **further: Any) -> PipelineJob:
    """The same, ready to run."""
    return prepare(load.from_values(scenario(stages, asked, **further)))[0]


def run(stages: dict[str, Any], asked: dict[str, Any] | None = None, **further: Any) -> Served:
    """What the user sees of it."""
    ready = job(stages, asked, **further)
    return shown(ready.variant.draft.scenario.pipeline, ready.run(ready.requests)).served


def measured(stages: dict[str, Any], asked: dict[str, Any] | None = None, **further: Any) -> dict[str, Any]:
    """The result's variant."""
    ready = job(stages, asked, **further)
    return measure(ready, ready.run(ready.requests)).variant.plain()
