"""Requests of a serving run: counts that add up, distributions, rows in three orders."""

import numpy as np
import polars as pl
import pytest

from railyard.face import api

from .test_views import opened

SERVED = """\
name: served
cluster: {accelerators: 16, server: hgx-h100, back_end: {topology: leaf-spine, fabric: roce}}
workload:
  serving:
    model: llama-3-8b
    requests: {synthetic: {rate: 24, count: 160, input: 2000, output: 60}}
    pools: {prefill: {replicas: 1, tp: 1}, decode: {replicas: 1, tp: 1}}
    slo: {ttft: 1 s, tpot: 50 ms}
"""


@pytest.fixture
def run(client, settings):
    (settings.folder / "served.yaml").write_text(SERVED)
    return api.run(settings.folder / "served.yaml", out=settings.folder / "runs")


def test_requests_over_time_and_one_by_one(client, run):
    base = f"/api/v1/runs/{run.folder.name}/requests"
    table = pl.read_parquet(run.folder / "requests.parquet").filter(pl.col("status") == 0)
    head, found = opened(client.get(base).content)
    assert head["requests"] == len(table)
    waits, reads, answers = found["count"].reshape(3, -1)
    assert waits[-1] == reads[-1] == answers[-1] == 0
    # Little: the mean number in the system is the arrivals' rate times the mean stay.
    mean = (waits + reads + answers).mean()
    assert mean == pytest.approx(table["e2e_s"].sum() / head["end_s"], rel=0.05)
    for name in ("ttft", "tpot", "e2e"):
        assert (np.diff(found[name]) >= 0).all()
        values = table[f"{name}_s"].drop_nans().drop_nulls()
        assert found[name][100] == pytest.approx(values.median(), rel=1e-5)
    about, rows = opened(client.get(f"{base}/rows?order=ttft&count=5").content)
    assert about["count"] == 5
    assert rows["ttft_s"] == pytest.approx(np.sort(table["ttft_s"].to_numpy())[::-1][:5], rel=1e-5)
    parts = sum(rows[name] for name in ("queue_s", "compute_s", "collectives_s", "transfer_s"))
    assert parts == pytest.approx(rows["ttft_s"], rel=1e-4)
    _, second = opened(client.get(f"{base}/rows?first=3&count=2").content)
    assert second["row"].tolist() == [3, 4]
    assert client.get(f"{base}/rows?order=tpot").status_code == 422
    assert client.get(f"{base}?variant=3").status_code == 404
