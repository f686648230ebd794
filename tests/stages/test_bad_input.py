"""What cannot be run is refused before anything runs, with its place in the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from railyard import catalog
from railyard.kit.errors import InputError
from railyard.work.scenario import load
from railyard.work.serving.reuse import Index, search_s
from railyard.work.study.study import prepare

from .pipelines import LARGE, measured, scenario, search

_FILE = """\
name: p
cluster: {accelerators: 8, server: hgx-h100}
workload:
  pipeline:
    requests: {synthetic: {rate: 1, input: 100, output: 10}}
    stages:
      answer:
        kind: model
        model: llama-3-70b
        pools:
          both: {replicas: 1, tp: 1}
"""


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        ({"a": {**search(0.1), "after": ["b"]}}, "`a` names `b`, which is no stage before it"),
        ({"a": {**search(0.1), "quorum": 2}}, "cannot be a quorum of 2"),
        ({"a": {**search(0.1), "vectors": "10 G"}}, "the index takes"),
        ({"a": {**search(0.1), "server": "l40s-8", "vectors": 1000, "index": "hnsw"}}, "is walked by the cores"),
        ({"a": {**LARGE, "pools": {"both": {}}}}, "how many replicas"),
        ({"a": {**LARGE, "pools": {"both": {"replicas": 65}}}}, "ports of the network"),
        ({"a": {**LARGE, "pools": {"both": {"replicas": 1, "network": {}}}}}, "the network of the pipeline"),
        ({"a": {"kind": "tool", "delay": "1 s", "p99": "20 s"}}, "no log-normal law"),
        (
            {"embed": {"kind": "emed", "model": "bge-m3", "server": "l40s-8"}},
            "no kind of stage `emed`",
        ),
        ({"a": {"kind": "embed", "model": "bge-m4", "server": "l40s-8"}}, "bge-m3"),
        ({"a": {"kind": "embed", "model": "bge-m3", "server": "l40s"}}, "l40s"),
        ({"a": {"kind": "embed", "model": "bge-m3", "server": "l40s-8", "tokens": 20_000}}, "must fit into the model"),
    ],
)
def test_faults_are_named(stages: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        prepare(load.from_values(scenario(stages)))


def test_an_overload_is_said_with_its_stage() -> None:
    asked = {"rate": 60, "input": 100, "output": 1, "count": 30_000}
    found = measured({"fast": search(0.001), "slow": search(0.1)}, asked)
    assert found["serving"]["outcome"] == "overload"
    assert any("stage `slow`" in warning for warning in found["warnings"])
    assert found["serving"]["requests"]["unfinished"] > 0


def test_queries_of_a_batch_share_lists() -> None:
    device = catalog.load().accelerator("epyc-9755")
    index = Index("ivf", 10**8, 1024, 96, probed=0.01)
    one, many = search_s(index, device, np.array([1, 10_000]))
    scanned = 10**8 * 96 / (device.memory_bps / 8 * device.memory_efficiency)
    assert one == pytest.approx(0.01 * scanned, rel=1e-6)
    assert many >= scanned  # all lists, and each query's own share of the cores
    flat = search_s(Index("flat", 10**8, 1024, 96), device, np.array([1]))[0]
    assert flat == pytest.approx(scanned, rel=1e-6)
