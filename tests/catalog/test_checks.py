"""What must hold between the fields of an entry: each rule alone, broken in an entry that was sound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railyard import catalog
from railyard.catalog.checks import check
from railyard.kit.schema.field import records

KNOWN = catalog.load()
ENTRIES = {
    "accelerator": KNOWN.accelerator("h100-sxm"),
    "server": KNOWN.server("hgx-h100"),
    "nic": KNOWN.nic("bf3-400g"),
    "switch": KNOWN.switch("jericho3-ai-leaf"),
    "cable": KNOWN.cable("aec-400g"),
    "storage": KNOWN.storage("ddn-ai400x2"),
    "model": KNOWN.model("mixtral-8x7b"),
}
POSITIVE = {
    "accelerator": {
        "memory_bytes": "memory", "memory_bps": "memory_bandwidth", "scale_up_domain": "scale_up_domain",
        "tdp_w": "tdp", "gemm_efficiency": "gemm_efficiency", "memory_efficiency": "memory_efficiency",
        "attention_efficiency": "attention_efficiency", "gemm_efficiency_8bit": "gemm_efficiency_8bit",
    },
    "server": {
        "accelerators": "accelerators", "scale_up_domain": "scale_up_domain", "nics": "nics",
        "pcie_bps": "pcie_bandwidth", "numa_nodes": "numa_nodes", "host_memory_bytes": "host_memory",
    },
    "nic": {"rate_bps": "rate", "ports": "ports"},
    "switch": {"capacity_bps": "capacity", "port_rate_bps": "port_rate", "ports": "ports"},
    "cable": {"rate_bps": "rate", "reach_m": "reach", "delay_s_per_m": "delay"},
    "storage": {"read_bps": "read_bandwidth", "write_bps": "write_bandwidth", "capacity_bytes": "capacity"},
    "model": {
        "layers": "layers", "hidden": "hidden", "heads": "heads", "kv_heads": "kv_heads", "head_dim": "head_dim",
        "vocab": "vocab", "max_seq": "max_seq", "moe_every": "moe_every", "sliding_every": "sliding_every",
        "experts_per_token": "experts_per_token", "moe_ffn": "moe_ffn",
    },
}  # fmt: skip


@pytest.mark.parametrize("entry", list(ENTRIES.values()), ids=list(ENTRIES))
def test_what_is_committed_is_sound(entry):
    assert check(entry) == []


@pytest.mark.parametrize(
    ("kind", "attribute", "key"), [(kind, *pair) for kind, pairs in POSITIVE.items() for pair in pairs.items()]
)
def test_what_must_be_more_than_zero(kind, attribute, key):
    """By the range of its record, which the reader checks first, or by a rule, and not by both."""
    entry = ENTRIES[kind]
    ruled = (key, "must be more than zero") in check(replace(entry, **{attribute: 0}))
    limits = records(type(entry))[attribute].bounds
    assert ruled == (limits is None or limits.holds(0))


@pytest.mark.parametrize(
    ("kind", "changes", "finding"),
    [
        ("accelerator", {"flops": {"fp8": 1e15}}, ("flops", "must hold bf16 or fp16")),
        (
            "accelerator",
            {"scale_up_collective_bps": 3.7e12},
            ("scale_up_collective_bandwidth", "must not exceed scale_up_bandwidth"),
        ),
        (
            "accelerator",
            {"scale_up_bps": 0.0, "scale_up_collective_bps": 0.0},
            ("scale_up_bandwidth", "must be more than zero in a scale-up domain of more than one accelerator"),
        ),
        ("server", {"nic_numa": (0, 1)}, ("nic_numa", "must name a memory domain for each of the 8 NICs")),
        ("server", {"numa_nodes": 1}, ("numa_nodes", "is not enough for the memory domains named")),
        (
            "server",
            {"scale_up_domain": 3},
            ("scale_up_domain", "must divide the server's accelerators or be a multiple of them"),
        ),
        ("model", {"kv_heads": 5}, ("kv_heads", "must divide heads (32)")),
        ("model", {"experts_per_token": 9}, ("experts_per_token", "must not exceed experts (8)")),
        ("model", {"moe_every": 2, "ffn": 0}, ("ffn", "must be more than zero where a layer has no experts")),
    ],
)
def test_what_must_hold_between_fields(kind, changes, finding):
    assert finding in check(replace(ENTRIES[kind], **changes))


def test_a_domain_may_be_a_multiple_of_a_server():
    """Racks of 72 by servers of 4: 72 = 18 x 4, and 24 = 3 x 8 of an eight-way server."""
    assert check(replace(ENTRIES["server"], scale_up_domain=24)) == []


def test_ports_of_a_switch_carry_no_more_than_it_switches():
    switch = replace(ENTRIES["switch"], ports=64, max_ports=64, port_rate_bps=8e11, capacity_bps=51.2e12)
    assert check(switch) == []
    assert ("ports", "times port_rate must not exceed capacity") in check(replace(switch, capacity_bps=51.1e12))
    assert ("max_ports", "must be at least ports") in check(replace(switch, max_ports=63))
