"""F4: more queue pairs against hash collisions, and paths pinned to destinations."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from railyard import catalog
from railyard.calibrate.nccl.machine import Setting
from railyard.calibrate.nccl.rows import predict
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine.packet import PacketNetwork, Settings, Traffic, leaf_spine, run
from railyard_validation.fabric.figure import Case, Row, figure
from railyard_validation.fabric.packets import ELEPHANT_BYTES, RATE_BPS, wire_ps

if TYPE_CHECKING:
    from collections.abc import Iterator

_RACK, _RACKS, _UPLINKS = 16, 8, 18
_SEEDS = 12
_SIZE = 1 << 30
_OPENED = (1, 2, 4, 8)


@figure(
    "F4",
    claim="Queue pairs hashed apart (E-ECMP) lift all-reduce by up to 40 %; pinned paths fail on partly used racks",
    scenario="128 H100 in racks of 16 with an uplink to each of 18 spines, RoCE, all-reduce of 1 GiB, mean of 12 hash "
    "seeds; 64 of them drawn at random, each sending 40 MB to the 16th after it over the uplink of its target's place",
    source="Meta (Gangidi et al., SIGCOMM 2024)",
)
def queue_pairs() -> Iterator[Row]:
    """Bandwidth gained by queue pairs, lost by pinning."""
    for algorithm, note in (
        ("tree", ""),
        (
            "ring",
            "all 16 flows of a rack go to one other rack and nothing but the network bounds them; with two spines of"
            " nine links each, as few as would do, they are hashed a second time on the way down: 61 and 68 %",
        ),
    ):
        alone = _bandwidth(algorithm, 1)
        for qps in (4, 16):
            gain = 100 * (_bandwidth(algorithm, qps) / alone - 1)
            case = Case("F4", f"{algorithm}, 1 to {qps} queue pairs", "%", "collectives", note)
            yield case.between("+30 to +45", gain, low=20, high=55, tolerance="+-10 points")
        unknown = "Meta does not publish its number of channels; NCCL's is 2 for the ring and 1 for the tree here"
        for opened in _OPENED:
            gain = 100 * (_bandwidth(algorithm, 16, opened) / _bandwidth(algorithm, 1, opened) - 1)
            name = f"{algorithm}, 1 to 16 queue pairs, {opened} connections to a neighbour"
            yield Case("F4", name.replace("1 connections", "1 connection"), "%", "collectives", unknown).shown(gain)
    whole, part = _pinned(_RACK * _RACKS), _pinned(_RACK * _RACKS // 2)
    lost = Case("F4", "pinned paths, racks half used: loss", "%")
    yield lost.between("over 30", 100 * (1 - part / whole), low=20, tolerance="-10 points")


@lru_cache(maxsize=1)
def _known() -> catalog.Catalog:
    return catalog.load()


def _bandwidth(algorithm: str, qps: int, opened: int | None = None) -> float:
    """All-reduces a second, mean over hash seeds; `opened` connections to a neighbour, None: as the library opens."""
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm}, connections=opened)
    shape = LeafSpine(ports_per_leaf=_RACK, oversubscription=_RACK / _UPLINKS, spines=_UPLINKS)
    found = []
    for seed in range(_SEEDS):
        network = NetworkSpec(shape, FabricSpec("roce", {"qps": qps}), seed=seed)
        cluster = build(ClusterSpec(_RACK * _RACKS, "grand-teton-h100", network), _known())
        setting = Setting(cluster, policy, ())
        found.append(1 / predict(setting, "all-reduce", cluster.ranks, np.array([_SIZE], np.int64))[_SIZE][0])
    return float(np.mean(found))


def pinned(network: PacketNetwork, leaf_hosts: int, uplinks: int) -> PacketNetwork:
    """The same leaf-spine network, but a leaf sends what goes to the s-th host of another over its s-th uplink."""
    routes = network.routes
    first, width, stride = routes.first.copy(), routes.width.copy(), routes.stride.copy()
    choices, end = [routes.choices], len(routes.choices)
    for leaf in range(network.hosts, network.hosts + network.hosts // leaf_hosts):
        for at in range(int(routes.record_ptr[leaf]), int(routes.record_ptr[leaf + 1])):
            if width[at] != uplinks:
                continue
            up = routes.choices[first[at] : first[at] + uplinks]
            places = np.arange(routes.lo[at], routes.hi[at]) % leaf_hosts
            choices.append(up[places % uplinks])
            first[at], width[at], stride[at] = end, 1, 1
            end += len(places)
    own = replace(routes, first=first, width=width, stride=stride, choices=np.concatenate(choices))
    return replace(network, routes=own)


def _pinned(used: int) -> float:
    """Rate of the slowest flow of a job of `used` hosts over that of one alone, mean over drawn places."""
    hosts = _RACK * _RACKS
    network = leaf_spine(hosts, leaf_hosts=_RACK, spines=_UPLINKS, rate_bps=RATE_BPS)
    settings = Settings(load_balancing="ecmp")
    shares = []
    for seed in range(4):
        members = np.sort(np.random.default_rng(seed).permutation(hosts)[:used])
        traffic = Traffic.of(hosts, members, np.roll(members, -_RACK), ELEPHANT_BYTES)
        found = run(pinned(network, _RACK, _UPLINKS), traffic, settings)
        shares.append(wire_ps(ELEPHANT_BYTES, settings) / float(found.end_ps.max()))
    return float(np.mean(shares))
