"""F13 to F15: six fabrics in the same situations, collisions in a training step, and reduction in the switches."""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

import railyard
from railyard import catalog
from railyard.ask.calibrate.nccl.log import bus_factor
from railyard.ask.calibrate.nccl.machine import LogMachine
from railyard.ask.calibrate.nccl.rows import predict
from railyard.cluster import Cluster, ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine, MultiSite
from railyard.collective import CollectivePolicy
from railyard.measure.result.variants import TrainingVariant
from railyard_validation.fabric.figure import Case, Row, figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from railyard.cluster.topology import TopologySpec

_RANKS, _RACK = 256, 16
_SIZE = 1 << 30
_SEEDS = 6
FABRICS = ("roce-untuned", "roce", "spectrum-x", "uec", "infiniband", "scheduled")
_RACKS = LeafSpine(ports_per_leaf=_RACK)
_SITES = MultiSite(sites=2, distance_m=80_000.0, oversubscription=2.0, inner=LeafSpine())
SITUATIONS: dict[str, tuple[TopologySpec, str]] = {
    "ring": (_RACKS, "all-reduce"),
    "all-to-all": (_RACKS, "all-to-all"),
    "all-to-all, 2:1": (LeafSpine(ports_per_leaf=_RACK, oversubscription=2.0), "all-to-all"),
    "all-to-all, one uplink dead": (_RACKS, "all-to-all"),
    "ring, two sites at 80 km": (_SITES, "all-reduce"),
}
PUBLISHED = {
    ("ring", "roce-untuned"): (60.0, 10.0, "xAI and NVIDIA name neither the pattern nor the number of queue pairs"),
    ("ring", "spectrum-x"): (95.0, 5.0, ""),
    ("ring", "roce"): (
        95.0,
        5.0,
        "Baidu: with 16 to 64 queue pairs or flowlets; 4 here, and a ring leaves a rack through half of its NICs",
    ),
}
"""Share of an ideal crossbar's rate in percent, its tolerance in points, and what to know of it."""


@figure(
    "F13",
    claim="Sprayed Ethernet keeps 95 % of its rate where a flow for each connection keeps 60 %",
    scenario="256 H100 in racks of two servers, leaf-spine, all-reduce by a ring or all-to-all of 1 GiB; share of the "
    "rate on a crossbar that blocks nothing; means of seeds where switches hash",
    source="xAI and NVIDIA (60 and 95 %, vendor), Baidu (70 and up to 95 %); the rest is shown for comparison",
)
def situations() -> Iterator[Row]:
    """Every fabric in every situation."""
    for situation in SITUATIONS:
        for fabric in FABRICS:
            kept = 100 * _ideal_us(situation) / _mean_us(situation, fabric)
            expected, by, note = PUBLISHED.get((situation, fabric), (0.0, 0.0, ""))
            case = Case("F13", f"{situation}: {fabric}", "%", "collectives", note)
            yield case.absolute(expected, kept, by=by) if expected else case.shown(kept)
    gain = _mean_us("ring", "roce-untuned") / _mean_us("ring", "spectrum-x")
    yield Case("F13", "ring: spectrum-x over roce-untuned", "x", "collectives").absolute(1.6, gain, by=0.16)


def _mean_us(situation: str, fabric: str) -> float:
    seeds = range(_SEEDS if fabric.startswith("roce") else 1)
    return float(np.mean([_took_us(situation, fabric, seed) for seed in seeds]))


@lru_cache(maxsize=8)
def _ideal_us(situation: str) -> float:
    topology, kind = SITUATIONS[situation]
    return _alone_us(_built(_RACKS if topology is not _SITES else topology, "ideal"), kind)


@lru_cache(maxsize=128)
def _took_us(situation: str, fabric: str, seed: int) -> float:
    topology, kind = SITUATIONS[situation]
    cluster = _built(topology, fabric, seed)
    if situation.endswith("dead"):
        links = cluster.links
        up = np.flatnonzero(links.tier[: links.physical] == links.tiers.index("leaf-spine"))[0]
        back = np.flatnonzero((links.source == links.target[up]) & (links.target == links.source[up]))[0]
        cluster = cluster.without(np.array([up, back]))
    return _alone_us(cluster, kind)


def _alone_us(cluster: Cluster, kind: str) -> float:
    policy = CollectivePolicy(algorithm={"all-reduce": "ring"})
    return predict(LogMachine(cluster, policy, ()), kind, cluster.ranks, np.array([_SIZE], np.int64))[_SIZE][0]


def _built(topology: TopologySpec, fabric: str, seed: int = 0, ranks: int = _RANKS, *, sharp: bool = False) -> Cluster:
    own = {"sharp": True} if sharp else {}
    return build(ClusterSpec(ranks, "hgx-h100", NetworkSpec(topology, FabricSpec(fabric, own), seed=seed)), _known())


@lru_cache(maxsize=1)
def _known() -> catalog.Catalog:
    return catalog.load()


@figure(
    "F14",
    claim="A training job of 512 accelerators whose paths are hashed stays about 30 % below linear scaling",
    scenario="GPT 22B on H800 with Megatron-LM of 2023 and NCCL 2.20: tensor 8, one micro-batch of 4 sequences a"
    " replica, distributed optimizer; leaf-spine, RoCE with one queue pair; throughput of 64 replicas against 32 times"
    " that of 2",
    source="Alibaba C4 (HPCA 2025)",
)
def below_linear_scaling() -> Iterator[Row]:
    """What 512 accelerators lose against linear scaling, and how that depends on what C4 leaves open."""
    for words, changes in _OPEN.items():
        for placement in ("packed", "scattered"):
            case = Case("F14", f"{words}servers {placement}", "%", "flow", _C4)
            yield case.shown(_below_linear(placement, changes))


_C4 = (
    "C4 names the model, Megatron and tensor 8. It leaves open batch, optimizer, order of servers and queue pairs, and"
    " the answer depends on them: 30 % neither confirms nor refutes the model. The first rows have the batch of"
    " Korthikanti et al. (2022). Assumed: NCCL 2.20, which has no PAT, the distributed optimizer, two tiers and one NIC"
    " an accelerator, where C4 has three tiers and two bonded ports"
)


_OPEN: dict[str, dict[str, Any]] = {
    "": {},
    "4 queue pairs (`roce`), ": {"cluster.back_end.fabric": "roce"},
    "ideal network, ": {"cluster.back_end.fabric": "ideal"},
    "gradients all-reduced, ": {"workload.training.parallelism.zero": 0},
    "1 sequence a replica, ": {"sequences": 1, "workload.training.parallelism.micro_batch": 1},
    "16 sequences a replica in 4 micro-batches, ": {"sequences": 16},
    "1 sequence, a bucket a layer, ": {
        "sequences": 1,
        "workload.training.parallelism.micro_batch": 1,
        "workload.training.parallelism.bucket": "100 MB",
    },
    "1 sequence, a bucket a layer, NCCL 2.30 (PAT), ": {
        "sequences": 1,
        "workload.training.parallelism.micro_batch": 1,
        "workload.training.parallelism.bucket": "100 MB",
        "collectives.version": "2.30",
    },
}
"""What C4 leaves open, and what is changed for it; `sequences`: of a replica."""


def _below_linear(placement: str, changes: Mapping[str, Any]) -> float:
    """Percent by which 64 replicas stay below 32 times the throughput of 2."""
    small, large = (_step_s(replicas, placement, changes) for replicas in (2, 64))
    return 100 * (1 - small / large)


def _step_s(replicas: int, placement: str, changes: Mapping[str, Any]) -> float:
    scenario: dict[str, Any] = {
        "name": "collisions",
        "cluster": {
            "accelerators": 8 * replicas,
            "server": "hgx-h800",
            "placement": placement,
            "back_end": {"topology": {"kind": "leaf-spine", "ports_per_leaf": _RACK}, "fabric": "roce-untuned"},
        },
        "collectives": {"version": "2.20"},
        "workload": {
            "training": {
                "model": "gpt-22b",
                "global_batch": replicas * changes.get("sequences", 4),
                "sequence": 2048,
                "software": "megatron-2023",
                "parallelism": {"tp": 8, "micro_batch": 4, "zero": 1},
            }
        },
    }
    for key, value in changes.items():
        if key != "sequences":
            *path, last = key.split(".")
            reduce(getitem, path, scenario)[last] = value
    (variant,) = railyard.run(scenario, out=None).result.variants
    assert isinstance(variant, TrainingVariant)
    return float(variant.step.seconds)


@figure(
    "F15",
    claim="Reduction in the network's switches makes a large all-reduce 1.3 to 1.8 times as fast, and no more at scale",
    scenario="H100 in servers of eight on InfiniBand, all-reduce, with SHARP and without it",
    source="published log of 96 H100 (CoreWeave); NVIDIA/nccl issue 1219; twice at most, where NICs bind (ISC 2020)",
)
def in_network() -> Iterator[Row]:
    """Bandwidth with reduction in the switches, and what it gains by size and ranks."""
    case = Case("F15", "NVLS and SHARP, 32 ranks, 8 GiB", "GB/s", "collectives", "the issue names no size")
    yield case.relative(480.0, _busbw(32, 8 << 30, sharp=True), by=0.10)
    for ranks in (64, 256, 512):
        for size, words in ((14 << 20, "14 MiB"), (128 << 20, "128 MiB"), (1 << 30, "1 GiB")):
            gain = _busbw(ranks, size, sharp=True) / _busbw(ranks, size, sharp=False)
            if size >= 1 << 30:
                case = Case("F15", f"{ranks} ranks, {words}: gain", "x", "collectives")
                yield case.between("1.3 to 1.8", gain, low=1.17, high=1.98, tolerance="+-10 %")
            else:
                yield Case("F15", f"{ranks} ranks, {words}: gain", "x", "collectives", _SMALL).shown(gain)


_SMALL = (
    "nothing published below 512 MiB: the tree of switches is as deep for 512 ranks as for 64, that of servers is not"
)


def _busbw(ranks: int, size: int, *, sharp: bool) -> float:
    cluster = _built(LeafSpine(), "infiniband", ranks=ranks, sharp=sharp)
    took = predict(LogMachine(cluster, CollectivePolicy(), ()), "all-reduce", ranks, np.array([size], np.int64))[size][
        0
    ]
    return size * bus_factor("all-reduce", ranks) / 1e3 / took
