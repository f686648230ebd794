"""Replicas on a cluster: the pool that does not say how many has what is left."""

from __future__ import annotations

from railyard.work.scenario import load
from railyard.work.study.study import prepare


def pools(accelerators=40, **written):
    requests = {"synthetic": {"rate": 1, "input": 100, "output": 10, "count": 5}}
    values = {
        "name": "placed",
        "cluster": {"accelerators": accelerators, "server": "hgx-h100"},
        "workload": {"serving": {"model": "llama-3-8b", "requests": requests, "pools": written}},
    }
    (job,) = prepare(load.from_values(values))
    return job.pools


def test_one_pool_takes_what_is_left():
    """40 accelerators less one replica of 8 are eight replicas of 4, whichever of the two is written first."""
    prefill, decode = pools(prefill={"replicas": 1, "tp": 8}, decode={"tp": 4})
    assert prefill.ranks.tolist() == [list(range(8))]
    assert decode.ranks.tolist() == [list(range(first, first + 4)) for first in range(8, 40, 4)]
    prefill, decode = pools(prefill={"tp": 4}, decode={"replicas": 3, "tp": 8})
    assert (len(prefill.ranks), len(decode.ranks)) == (4, 3)
