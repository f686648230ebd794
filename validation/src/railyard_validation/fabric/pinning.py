"""F4: more queue pairs against hash collisions, and paths pinned to destinations."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy
from railyard.engine.packet import PacketNetwork, Settings, Traffic, leaf_spine, run
from railyard.graph import Job
from railyard_validation.fabric.figure import Case, Row, figure
from railyard_validation.fabric.packets import ELEPHANT_BYTES, RATE_BPS, all_reduces, wire_ps

if TYPE_CHECKING:
    from collections.abc import Iterator

_RACK, _RACKS, _UPLINKS, _SERVER = 16, 8, 18, 8
_RANKS = _RACK * _RACKS
_SEEDS, _LESS_SEEDS = 12, 4
_SIZE, _LESS = 1 << 30, 256 << 20
_OPENED = (1, 2, 4, 8)
_WHY = (
    "Meta names neither channels, algorithm, spines nor places. Here NCCL opens 2 connections to a neighbour of a ring"
    " and 1 of a tree. The gain depends on how many flows are hashed onto 18 uplinks: a ring in the order of racks"
    " brings 16 of half a NIC's rate. It depends on the size too: what a ring waits for its slowest edge hides its"
    " latencies, and at 256 MiB these are most of its time. The rows without a verdict vary both"
)


@figure(
    "F4",
    claim="Separately hashed queue pairs (E-ECMP) lift all-reduce by up to 40 %; pinned paths fail on half-used racks",
    scenario="128 H100 in racks of 16 with an uplink to each of 18 spines, RoCE, all-reduce of 1 GiB, mean of 12 hash "
    "seeds (of 256 MiB, in flow and in packets, 4); 64 of them drawn at random, each sending 40 MB to the 16th after "
    "it over the uplink of its target's place",
    source="Meta (Gangidi et al., SIGCOMM 2024)",
)
def queue_pairs() -> Iterator[Row]:
    """Bandwidth gained by queue pairs, lost by pinning."""
    for algorithm in ("tree", "ring"):
        for qps in (4, 16):
            case = Case("F4", f"{algorithm}, 1 to {qps} queue pairs", "%", "flow", _WHY)
            yield case.between("+30 to +45", _gain(algorithm, qps), low=20, high=55, tolerance="+-10 points")
        for name in ("flow", "packet"):
            case = Case("F4", f"{algorithm}, 1 to 4 queue pairs, 256 MiB", "%", name, _WHY)
            yield case.shown(_gain(algorithm, 4, name=name, seeds=_LESS_SEEDS, size=_LESS))
        varied: dict[str, dict[str, Any]] = {
            **{f"{opened} connection{'s' * (opened > 1)} to a neighbour": {"opened": opened} for opened in _OPENED},
            "servers in any order": {"scattered": True},
            "2 spines, 9 links each": {"spines": 2},
        }
        for words, more in varied.items():
            case = Case("F4", f"{algorithm}, 1 to 16 queue pairs, {words}", "%", "flow", _WHY)
            yield case.shown(_gain(algorithm, 16, **more))
    whole, part = _pinned(_RANKS), _pinned(_RANKS // 2)
    lost = Case("F4", "pinned paths, racks half used: loss", "%")
    yield lost.between("over 30", 100 * (1 - part / whole), low=20, tolerance="-10 points")


@lru_cache(maxsize=1)
def _known() -> catalog.Catalog:
    return catalog.load()


def _gain(algorithm: str, qps: int, **more: Any) -> float:
    """What all-reduces gain over one queue pair, %."""
    return 100 * (_bandwidth(algorithm, qps, **more) / _bandwidth(algorithm, 1, **more) - 1)


@cache
def _bandwidth(
    algorithm: str,
    qps: int,
    *,
    name: str = "flow",
    size: int = _SIZE,
    seeds: int = _SEEDS,
    opened: int | None = None,
    scattered: bool = False,
    spines: int = _UPLINKS,
) -> float:
    """All-reduces a second, mean over hash seeds.

    Args:
        algorithm: Of the collective.
        qps: Queue pairs a connection.
        name: Of the engine.
        size: Bytes of the all-reduce.
        seeds: How many.
        opened: Connections to a neighbour; None: as the library opens.
        scattered: Whether servers come in any order and not rack by rack.
        spines: That share a rack's uplinks.
    """
    policy = CollectivePolicy(algorithm={"all-reduce": algorithm}, connections=opened)
    shape = LeafSpine(ports_per_leaf=_RACK, oversubscription=_RACK / _UPLINKS, spines=spines)
    graph = all_reduces(_RANKS, [np.arange(_RANKS)], size)
    found = []
    for seed in range(seeds):
        network = NetworkSpec(shape, FabricSpec("roce", {"qps": qps}), seed=seed)
        cluster = build(ClusterSpec(_RANKS, "grand-teton-h100", network), _known())
        order = (
            np.random.default_rng(seed).permutation(_RANKS // _SERVER) if scattered else np.arange(_RANKS // _SERVER)
        )
        where = (order[:, None] * _SERVER + np.arange(_SERVER)).ravel().astype(np.int32)
        found.append(1e12 / engine.get(name).simulate([Job(graph, where)], cluster, policy=policy).makespan_ps)
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
    hosts = _RANKS
    network = leaf_spine(hosts, leaf_hosts=_RACK, spines=_UPLINKS, rate_bps=RATE_BPS)
    settings = Settings(load_balancing="ecmp")
    shares = []
    for seed in range(4):
        members = np.sort(np.random.default_rng(seed).permutation(hosts)[:used])
        traffic = Traffic.of(hosts, members, np.roll(members, -_RACK), ELEPHANT_BYTES)
        found = run(pinned(network, _RACK, _UPLINKS), traffic, settings)
        shares.append(wire_ps(ELEPHANT_BYTES, settings) / float(found.end_ps.max()))
    return float(np.mean(shares))
