"""Jobs of tenants: placed on their tenant's accelerators, with its class; others on what nobody has."""

from __future__ import annotations

import numpy as np

from railyard.work.scenario import load
from railyard.work.study.study import prepare

TENANTS = [
    {"name": "blue", "servers": "1-2", "traffic_class": 3},
    {"name": "green", "servers": "0"},
]


def placed(*jobs, tenants=TENANTS):
    step = {"model": "llama-3.2-1b", "global_batch": 16, "sequence": 2048, "parallelism": {"tp": 1, "micro_batch": 1}}
    cluster = {"accelerators": 32, "server": "hgx-h100"}
    if tenants:
        cluster["tenancy"] = {"by": "evpn", "tenants": tenants}
    work = [
        {"name": f"job{number}", "accelerators": count, "training": step} | ({"tenant": name} if name else {})
        for number, (count, name) in enumerate(jobs)
    ]
    draft = load.from_values({"name": "shared", "cluster": cluster, "workload": {"jobs": work}})
    return [(np.unique(one.placement // 8)).tolist() for one in prepare(draft)[0].tenants]


def test_jobs_are_where_their_tenants_are():
    assert placed((16, "blue"), (8, "green"), (8, None)) == [[1, 2], [0], [3]]
