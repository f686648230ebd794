"""Scenarios whose plans are tested."""

from __future__ import annotations

from railyard.ask.deploy.cabling import plan_of
from railyard.work.scenario import load
from railyard.work.study import compose


def draft(accelerators=128, topology="leaf-spine", fabric="infiniband", parts=None, tp=1, **more):
    back_end = {"topology": {"kind": topology} | (parts or {}), "fabric": fabric}
    training = {
        "model": "llama-3-8b",
        "tokens": "1 B",
        "global_batch": accelerators,
        "sequence": 4096,
        "parallelism": {"tp": tp, "zero": 1, "micro_batch": 1, "recompute": "full"},
    }
    cluster = {"accelerators": accelerators, "server": "hgx-h100", "back_end": back_end} | more
    return load.from_values({"name": "planned", "cluster": cluster, "workload": {"training": training}})


def planned(one):
    return plan_of(compose.cluster_of(one, compose.catalog_of(one)))
