"""A packet result to draw: completion times from real runs, queues, rates and pauses made up in their likeness."""

from dataclasses import replace

import numpy as np

from railyard.engine.packet import Settings, Traffic, fat_tree, leaf_spine, run
from railyard.graph import Label, Record
from railyard.measure.network import packet_section

G400 = 400 * 10**9
COUNTS = ("new", "retransmitted", "trimmed", "dropped", "marked", "acks", "nacks", "pulls", "timeouts", "hops")


def measured(traffic: Traffic, found: Record, *, group=None, groups=()) -> dict:
    flows = found
    if group is not None:
        flows = replace(found, what=group.astype(np.int32), labels=[Label("", name) for name in groups])
    packets = {kind: found.meta["packets"][kind] for kind in COUNTS}
    left_out = ("bit errors", "the time that hosts and PCIe take")
    return packet_section(flows, packets, constants=found.meta["constants"], left_out=left_out).plain()


def permutation(hosts: int, balancing: str) -> dict:
    order = np.random.default_rng(3).permutation(hosts)
    traffic = Traffic.of(hosts, order, np.roll(order, 1), 2_000_000)
    network = fat_tree(hosts, rate_bps=G400)
    return measured(traffic, run(network, traffic, Settings(load_balancing=balancing)))


def incast() -> dict:
    """An incast of 24 beside flows of others, in two groups, with everything that can be probed."""
    hosts = 64
    senders = np.arange(8, 32)
    source = np.concatenate([senders, np.arange(32, 56)])
    target = np.concatenate([np.full(24, 3), np.roll(np.arange(32, 56), 7)])
    group = np.repeat([0, 1], 24)
    traffic = Traffic.of(hosts, source, target, 1_000_000)
    found = run(leaf_spine(hosts, leaf_hosts=8, spines=8, rate_bps=G400), traffic, Settings())
    probed = {"queues": queues(), "flows": senders_over_time(), "storm": storm(), "reorder": reorder()}
    section = measured(traffic, found, group=group, groups=("incast", "pipeline")) | probed
    section["packets"] |= {"pauses": 812, "cnps": 0}
    return section


def reorder() -> dict:
    return {"depth_p50": 3, "depth_p99": 41, "depth_max": 67}


def queues(rows: int = 40, samples: int = 160) -> dict:
    rng = np.random.default_rng(1)
    time = np.linspace(0, 520, samples)
    names = [("leaf0->h3", "nic")] + [
        (f"spine{i % 8}->leaf{i // 8}" if i % 2 else f"leaf{i // 8}->spine{i % 8}", "leaf-spine")
        for i in range(rows - 1)
    ]
    found = []
    for number, (link, tier) in enumerate(names):
        rise, fall = 8 + 2 * number, 500 - 9 * number
        swell = np.clip((time - rise) / 20, 0, 1) * np.clip((fall - time) / 30, 0, 1)
        depth = 1_660_000 * 0.93**number * swell * rng.uniform(0.75, 1.0, samples)
        busy = np.clip(swell * rng.uniform(0.8, 1.05, samples), 0, 1)
        paused = np.where(swell > 0.9, rng.uniform(0, 0.5 * 0.9**number, samples), 0.0)
        found.append(
            {
                "link": link,
                "tier": tier,
                "depth_bytes": depth.astype(int).tolist(),
                "utilization": busy.round(4).tolist(),
                "marks": (depth / 40_000).astype(int).tolist(),
                "paused_share": paused.round(4).tolist(),
            }
        )
    return {"time_us": time.round(3).tolist(), "rows": found}


def senders_over_time(rows: int = 10, samples: int = 120) -> dict:
    rng = np.random.default_rng(2)
    time = np.linspace(0, 520, samples)
    found = []
    for number in range(rows):
        fair = 400 / 24
        rate = fair + (400 - fair) * np.exp(-time / (18 + 3 * number)) * rng.uniform(0.7, 1.1, samples)
        window = 600 * np.exp(-time / (30 + 4 * number)) + 12 + rng.normal(0, 1.5, samples)
        found.append(
            {"flow": f"h{8 + number}->h3", "rate_gbps": rate.round(2).tolist(), "window_kb": window.round(1).tolist()}
        )
    return {"time_us": time.round(3).tolist(), "rows": found}


def storm() -> dict:
    links = [
        {"link": f"spine{i % 8}->leaf{i // 8}", "paused_us": 210 * 0.86**i, "pauses": max(1, 90 - 6 * i),
         "origin": "h3" if i % 4 else "h9"}
        for i in range(14)
    ]  # fmt: skip
    victims = [
        {"flow": f"h{32 + i}->h{40 + i}", "fct_us": 44.1 * (1 + 2.2 * 0.7**i), "alone_us": 44.1,
         "slowdown": 1 + 2.2 * 0.7**i, "stopped_by": "h3"}
        for i in range(8)
    ]  # fmt: skip
    total = sum(link["paused_us"] for link in links)
    return {
        "paused_us_total": total,
        "pauses": sum(link["pauses"] for link in links),
        "longest_us": 38.2,
        "links": links,
        "victims": victims,
    }


def result() -> dict:
    """A result of several fabrics, packets only."""
    named = {
        "uec": permutation(128, "mixed"),
        "adaptive": permutation(128, "adaptive"),
        "ecmp": permutation(128, "ecmp"),
        "incast": incast(),
    }
    return {
        "format": "railyard/result-1",
        "name": "permutation of 128 hosts, 2 MB",
        "scenario": {"traffic": "perm_128n_128c_2MB.cm", "fabric": "uec"},
        "provenance": {
            "version": "0.1.0", "engine": "packet", "seed": 0, "digest": "0" * 32, "created": "2026-11-21T10:00:00",
            "sources": [], "left_out": ["bit errors"], "defaults": [],
        },
        "variants": [
            {"name": name, "settings": {"fabric": name}, "packet": section} for name, section in named.items()
        ],
    }  # fmt: skip
