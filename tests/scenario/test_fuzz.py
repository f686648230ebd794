"""Whatever a user asks for, a run ends with a result or with one of Railyard's own errors, never with a traceback."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from railyard.cluster import fabrics, topologies
from railyard.kit.errors import RailyardError
from railyard.kit.schema import yaml
from railyard.work.scenario import load
from railyard.work.study.study import prepare
from railyard.work.study.study import run as execute

PARALLELISM = "workload.training.parallelism"
TRAINING = "workload.training"
CHOICES = {
    "accelerators": [1, 2, 7, 8, 9, 16, 24, 48, 64, 72, 100, 1000],
    "server": [
        "hgx-h100",
        "dgx-a100",
        "gb200-nvl72",
        "mi300x-8",
        "tpu-v5p-host",
        "a100-pcie-8",
        "rtx-4090-8",
        "gh200-node",
    ],
    "topology": [
        *topologies.names(),
        *({"kind": "leaf-spine", "spines": count} for count in (0, 1, 3, 1000)),
        *({"kind": "leaf-spine", "ports_per_leaf": count} for count in (0, 1, 64, 10**9)),
    ],
    "fabric": [
        *fabrics.names(),
        {"name": "roce", "qps": 0},
        {"name": "roce", "qps": 10**6},
        {"name": "uec", "mtu": "0 B"},
        {"name": "roce", "hop_latency": "1 h"},
        {"name": "roce", "congestion_efficiency": 0},
        {"name": "roce", "load_balancing": "flowlet"},
    ],
    "oversubscription": ["1:1", "3:1", 0, "1:3", 1000, 1e-6],
    "link_rate": ["400 Gb/s", "1 b/s", "0 b/s", "100 Tb/s", "25 Gb/s"],
    "model": ["llama-3.2-1b", "llama-3-8b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b", "llama-3-405b"],
    "global_batch": [1, 2, 3, 16, 17, 64, 10**6],
    "sequence": [1, 127, 2048, 1_000_000],
    "precision": ["bf16", "fp16", "fp8", "fp4"],
    "parallelism": ["auto", {"auto": True, "tp": 2}, {"auto": True, "ep": 4}],
    **{letter: [1, 2, 3, 4, 8, 64] for letter in ("tp", "pp", "dp", "cp", "ep", "vp")},
    "zero": [0, 1, 2, 3, 4],
    "micro_batch": [1, 2, 3, 1000],
    f"{PARALLELISM}.recompute": ["none", "selective", "full"],
    f"{PARALLELISM}.schedule": ["1f1b", "interleaved", "zero-bubble"],
    f"{PARALLELISM}.bucket": ["0 B", "1 B", "25 MB", "1 TB"],
    f"{PARALLELISM}.fsdp_shard": [0, 1, 2, 3, 8],
    f"{TRAINING}.software": ["megatron-2021", "torchtitan-2024", "maxtext"],
    f"{TRAINING}.data": [{}, {"bytes_per_token": 0}, {"prefetch": 0}],
    f"{TRAINING}.checkpoint": [{}, {"interval_steps": 0}, {"interval_steps": 1, "asynchronous": False}],
    "cluster.storage": [
        {"name": "local-nvme", "servers": 2},
        {"name": "nvme-file-server", "servers": 1, "network": "back_end"},
        {"name": "nvme-file-server", "servers": 3, "network": {"topology": "leaf-spine"}},
    ],
    "cluster.placement": ["packed", "scattered"],
    "cluster.background": [[{"load": 0.99}], [{"network": "storage", "load": 0.1}], [{"tier": "spin", "load": 0.1}]],
    "cluster.overrides": [
        {"accelerator": {"memory_bandwidth": "0 b/s"}},
        {"accelerator": {"memory": "1 GB"}},
        {"server": {"accelerators": 4}},
        {"server": {"nics": 3}},
        {"switch": {"ports": 1}},
    ],
    "faults": [
        [{"kind": "late", "rank": 0, "by": "1 s"}],
        [{"kind": "degrade-link", "tier": "nic", "factor": 0.01}],
        [{"kind": "degrade-link", "link": 10**7, "factor": 0.5}],
        [{"kind": "slow-accelerator", "rank": 1, "factor": 0.001}],
    ],
    "jitter": [{"sigma": 0.5}, {"rank_sigma": 1}],
    "engine": ["flow", "analytic"],
    "economics": [{"pue": 1}, {"life": "0 years"}, {"mtbf": "1 s"}, {"restart": "1000 d"}],
    "collectives": [{"selector": "best"}, {"algorithm": {"tp": "nvls"}}, {"protocol": {"dp": "ll"}}, {"pxn": False}],
}
changes = st.dictionaries(st.sampled_from(sorted(CHOICES)), st.integers(0, 10**6), min_size=1, max_size=4).map(
    lambda drawn: {key: CHOICES[key][number % len(CHOICES[key])] for key, number in drawn.items()}
)


def attempt(small, asked, run):
    values = yaml.read(small).plain()
    try:
        run(load.from_values(values, asked))
    except RailyardError as error:
        return str(error)
    return "done"


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=changes)
def test_anything_is_prepared_or_refused(small, asked):
    assert attempt(small, asked, prepare)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=changes)
@example(asked={f"{PARALLELISM}.fsdp_shard": 3})
@example(asked={"cluster.overrides": {"accelerator": {"memory_bandwidth": "0 b/s"}}})
def test_anything_is_run_or_refused(small, asked):
    assert attempt(small, asked, execute)
