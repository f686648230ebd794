"""Scenarios on the packet engine: what the result holds, and what is refused."""

from __future__ import annotations

import pytest

from railyard.work.scenario import load
from railyard.work.study.study import run as execute

SMALL = {
    "name": "small",
    "cluster": {
        "accelerators": 16,
        "server": "hgx-h100",
        "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": 8}, "fabric": "uec"},
    },
    "workload": {
        "training": {
            "model": "llama-3-8b",
            "global_batch": 16,
            "sequence": 1024,
            "parallelism": {"tp": 8, "zero": 0, "micro_batch": 1},
        }
    },
    "packet": {"budget_hops": "300 k"},
}


def variant(**changes):
    return execute(load.from_values(SMALL, changes), engine="packet").result.plain()


def test_the_result_holds_flows_tails_and_queues():
    result = variant()
    packet = result["variants"][0]["packet"]
    assert result["provenance"]["engine"] == "packet"
    assert packet["flows_finished"] == packet["flows_total"] > 0
    assert packet["fct_us"]["min"] <= packet["fct_us"]["p99"] <= packet["fct_us"]["max"]
    assert [row["group"] for row in packet["tails"]][:1] == ["all"]
    assert len(packet["queues"]["rows"]) > 0
    assert any("slice" in said for said in packet["left_out"])
    rows = packet["queues"]["rows"]
    assert all(len(row["depth_bytes"]) == len(packet["queues"]["time_us"]) for row in rows)


def test_step_time_is_that_of_the_flow_engine_where_nothing_collides():
    packet, flow = (
        execute(load.from_values(SMALL, {"cluster.back_end.fabric": "ideal"}), engine=name).result.plain()
        for name in ("packet", "flow")
    )
    seconds = [result["variants"][0]["step"]["seconds"] for result in (packet, flow)]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.01)


def test_settings_reach_the_engine():
    plain, small = variant(), variant(**{"packet.set": {"window_packets": "8"}})
    assert small["provenance"]["digest"] != plain["provenance"]["digest"]


def test_queue_pairs_of_a_hashed_fabric_run_encrypted_or_not():
    roce = {"cluster.back_end.fabric": {"name": "roce", "qps": 3}}
    clear, hidden = (
        execute(load.from_values(SMALL, {**roce, "cluster.back_end.encryption": name}), engine="packet").result.plain()
        for name in ("none", "psp")
    )
    seconds = [found["variants"][0]["step"]["seconds"] for found in (clear, hidden)]
    assert seconds[1] > seconds[0]
