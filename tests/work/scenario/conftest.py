"""A scenario that is small enough to run in a test."""

from __future__ import annotations

import pytest

SMALL = """\
name: small
cluster:
  accelerators: 16
  server: hgx-h100
  back_end: {topology: rail-optimized, fabric: roce}
workload:
  training:
    model: llama-3.2-1b
    tokens: 1 T
    global_batch: 16
    sequence: 2048
    parallelism: {tp: 2, zero: 1}
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path
