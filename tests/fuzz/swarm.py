"""Random networks, fabrics, faults and flows on the packet and flow engines: `python -m tests.fuzz.swarm --seconds 60`.

Everything of a case is drawn from its seed. What must hold for every case is checked: bytes are conserved, nothing is
faster than physics, one thread finds what two find, and repeats are what they would be. A case that fails prints its
seed and the command that plays it again. `make swarm SECONDS=60 SEED=7` runs it on a core whose invariants end the
process (`RAILYARD_INVARIANT`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
from tests.engine.hand import Entity, Graph, Links, lowered

from railyard import engine
from railyard.cluster.fabric import fabrics
from railyard.engine.packet import AT_RECEIVER, LinkFault, Settings, Traffic, crossbar, fat_tree, leaf_spine, run
from railyard.engine.packet.faults import both_ways
from railyard.kit.errors import SimulationError

if TYPE_CHECKING:
    from railyard.engine.packet import PacketNetwork
    from railyard.graph import Record

US = 1_000_000
PS_PER_S = 1e12
KNOWN = {field.name for field in fields(Settings)}

FABRICS = (
    "ideal", "infiniband", "infiniband-static", "lab", "roce", "roce-untuned", "scheduled", "spectrum-x", "uec",
)  # fmt: skip
"""The fabrics of the package: those of installed packages would make another case of a seed."""


def play(seed: int) -> str:
    """Plays and checks the case of a seed; what it was, in words.

    Raises:
        AssertionError: Something does not hold that must.
    """
    draw = random.Random(seed)
    return packets(draw) if draw.random() < 0.7 else fluids(draw)


def packets(draw: random.Random) -> str:
    """A case of the packet engine."""
    network = drawn_network(draw)
    traffic = drawn_traffic(draw, network.hosts)
    name = draw.choice(FABRICS)
    settings = drawn_settings(draw, name, network)
    words = (
        f"{len(traffic)} flows on {network.hosts} hosts, {network.links} links, {name}, {len(settings.faults)} faults"
    )
    try:
        found = run(network, traffic, settings)
    except SimulationError:  # a deadlock, or faults that let nothing through: said, and not a wrong result
        return f"{words}, stalled"
    check_packets(network, traffic, settings, found)
    again = run(network, traffic, settings, threads=2)
    assert again.meta["digest"] == found.meta["digest"], "two threads find something else than one"
    check_repeats(network, repeated(draw, traffic), replace(settings, faults=()))
    return words


def drawn_network(draw: random.Random) -> PacketNetwork:
    """A crossbar, a leaf-spine or a fat tree of up to 54 hosts, of one rate."""
    rate_bps, latency_ps = draw.choice([25, 100, 400, 800]) * 10**9, draw.randint(1, 2 * US)
    kind = draw.choice(["crossbar", "leaf-spine", "leaf-spine", "fat-tree"])
    if kind == "crossbar":
        return crossbar(draw.randint(2, 12), rate_bps=rate_bps, latency_ps=latency_ps)
    if kind == "fat-tree":
        return fat_tree(draw.choice([16, 54]), rate_bps=rate_bps, latency_ps=latency_ps)
    leaf_hosts = draw.randint(1, 6)
    return leaf_spine(
        leaf_hosts * draw.randint(2, 4),
        leaf_hosts=leaf_hosts,
        spines=draw.randint(1, 4),
        rate_bps=rate_bps,
        latency_ps=latency_ps,
        cables=draw.randint(1, 2),
    )


def drawn_traffic(draw: random.Random, hosts: int) -> Traffic:
    """Up to 40 flows between any two hosts; a third of the times all go to one host."""
    count, sink = draw.randint(1, 40), draw.randrange(hosts) if draw.random() < 1 / 3 else None
    pairs = []
    for _ in range(count):
        target = draw.randrange(hosts) if sink is None else sink
        pairs.append((draw.choice([host for host in range(hosts) if host != target]), target))
    source, target = np.array(pairs).T
    size = [draw.choice([1, 64, 4096, draw.randint(1, 400_000)]) for _ in range(count)]
    return Traffic.of(hosts, source, target, size, start_ps=[draw.randint(0, 20 * US) for _ in range(count)])


def repeated(draw: random.Random, traffic: Traffic) -> Traffic:
    """Up to eight of the flows between the first hosts, and the same between others, at once or later.

    The ends of some set free work at their receivers.
    """
    half = max(traffic.hosts // 2, 2)
    flows = [draw.randrange(len(traffic)) for _ in range(draw.randint(1, 4))] * draw.randint(1, 2)
    source, target, size = (column[flows] for column in (traffic.source, traffic.target, traffic.size_bytes))
    source, target = source % half, target % half
    target = np.where(source == target, (target + 1) % half, target)
    start = traffic.start_ps[flows] * draw.choice([0, 1])
    copies, later_ps = draw.randint(1, 4), draw.choice([0, 0, 90 * US])
    shift = np.arange(copies)[:, None] * half
    ends = [((end + shift) % traffic.hosts).ravel() for end in (source, target)]
    starts = (start + np.arange(copies)[:, None] // 2 * later_ps).ravel()
    before = np.array(sorted(draw.sample(range(len(starts)), draw.randint(1, len(starts)))))
    work = ends[1][before]
    whole = Traffic.of(
        traffic.hosts,
        np.concatenate([ends[0], work]),
        np.concatenate([ends[1], work]),
        np.concatenate([np.tile(size, copies), np.zeros_like(before)]),
        start_ps=np.concatenate([starts, np.zeros_like(before)]),
    )
    return whole.after(len(starts) + np.arange(len(before)), before, at=draw.choice([0, AT_RECEIVER]))


def check_repeats(network: PacketNetwork, traffic: Traffic, settings: Settings) -> None:
    """A run that does not simulate again what repeats itself finds what one does that simulates all."""
    try:
        whole = run(network, traffic, settings, repeats=False)
    except SimulationError:  # a deadlock
        return
    found = run(network, traffic, settings)
    assert found.meta["digest"] == whole.meta["digest"], "what repeats itself is not what it would be"


def drawn_settings(draw: random.Random, name: str, network: PacketNetwork) -> Settings:
    """The constants of a fabric, with a seed and up to three faults of links, of which routes learn soon or late."""
    known = {key: value for key, value in fabrics.get(name).packets.constants.items() if key in KNOWN}
    faults: list[LinkFault] = []
    for _ in range(draw.choice([0, 0, 1, 2, 3])):
        at_ps, link = draw.randint(0, 40 * US), draw.randrange(network.links)
        ways = both_ways(network, int(network.link_source[link]), int(network.link_target[link])).tolist()
        if draw.random() < 1 / 3:
            faults += [LinkFault(at_ps, way, "errors", draw.choice([1e-9, 1e-7])) for way in ways]
            continue
        factor = draw.choice([0.0, 0.1, 0.5])
        faults += [LinkFault(at_ps, way, "rate", factor) for way in ways]
        faults += [LinkFault(at_ps + draw.randint(1, 60) * US, way, "rate", 1.0) for way in ways]
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_ps))
    chosen = replace(Settings(**known), seed=draw.getrandbits(32), faults=ordered, end_ps=10**11)
    reroute_ps, retry = draw.choice([0, US // 3, 2 * US, chosen.reroute_ps]), draw.random() < 1 / 3
    return replace(chosen, reroute_ps=reroute_ps, link_retry=chosen.link_retry or retry)


def check_packets(network: PacketNetwork, traffic: Traffic, settings: Settings, found: Record) -> None:
    """Bytes arrive once, packets are sent, dropped, lost or arrive, and no flow beats its links."""
    counts = found.meta["packets"]
    payload = settings.mtu_bytes - settings.header_bytes
    ended = found.end_ps >= 0
    least = -(-traffic.size_bytes // payload)
    assert counts["new"] >= least[ended].sum(), "flows ended whose packets were never sent"
    assert counts["new"] <= least.sum(), "more new packets than there are"
    assert settings.faults or ended.all(), "a flow without end on a network without faults"
    assert settings.faults or counts["lost"] == 0, "packets lost on links without errors"
    assert settings.switching != "pfc" or settings.faults or counts["dropped"] == 0, "a lossless switch dropped"
    into = np.zeros(network.nodes)
    np.add.at(into, network.link_target, found.table("links")["bytes"])
    arrived = np.bincount(traffic.target[ended], traffic.size_bytes[ended], network.nodes)
    assert (into[: network.hosts] >= arrived[: network.hosts]).all(), "hosts got bytes that no link carried"
    rate_bps = network.rate_bps.astype(float)
    if settings.switching == "scheduled":  # switches send cells faster to one another than the network says
        inner = (network.link_source >= network.hosts) & (network.link_target >= network.hosts)
        rate_bps = np.where(inner, rate_bps * settings.scheduled_fabric_speedup, rate_bps)
    most = rate_bps * found.meta["now_ps"] / PS_PER_S / 8
    assert (found.table("links")["bytes"] <= most + settings.mtu_bytes).all(), "a link carried more than its rate"
    took_ps = (found.end_ps - found.start_ps)[ended]
    alone_ps = 8 * traffic.size_bytes / float(network.rate_bps.max()) * PS_PER_S + 2 * int(network.latency_ps.min())
    assert (found.start_ps[ended] >= traffic.start_ps[ended]).all(), "a flow began before its start"
    assert (took_ps >= alone_ps[ended]).all(), "a flow is faster than its links"


def fluids(draw: random.Random) -> str:
    """A case of the flow engine: transfers over few links, so that most of them share."""
    capacity = [draw.choice([1e9, 5e8, 3.3e9]) for _ in range(6)]
    rows = [
        Entity(
            {link: draw.choice([1.0, 0.5, 1.75]) for link in draw.sample(range(6), draw.randint(1, 3))},
            volume=draw.choice([1e3, 12_345.0, 4e4]),
            latency=draw.choice([0, 1_000, 777_777]),
            cap=draw.choice([np.inf, 3e8]),
            weight=draw.choice([1.0, 2.0, 0.3]),
        )
        for _ in range(draw.randint(1, 8))
    ]
    graph = Graph(5)
    for number in range(draw.randint(1, 60)):
        waits = draw.sample(range(number), min(number, draw.randint(0, 2)))
        rank = draw.randrange(5)
        graph.transfer(rank, (rank + 1) % 5, draw.randrange(len(rows)), *waits)
    columns, low = lowered(graph, rows)
    flow = engine.get("flow")
    found = flow.run(columns, low, Links(capacity))
    assert (found.end_ps == flow.run(columns, low, Links(capacity)).end_ps).all(), "a second run finds something else"
    check_fluids(rows, capacity, low.entity, found)
    return f"{len(graph.rows)} transfers over {len(capacity)} links, flow"


def check_fluids(rows: list[Entity], capacity: list[float], entity: np.ndarray, found: Record) -> None:
    """Links carry the bytes that were to be carried, and no transfer beats its narrowest link."""
    wire = np.zeros(len(capacity))
    for number, task in zip(entity, range(len(entity)), strict=True):
        row = rows[number]
        for link, share in row.links.items():
            wire[link] += share * row.volume
        rate = min([row.cap, *(capacity[link] / share for link, share in row.links.items())])
        took = found.end_ps[task] - found.start_ps[task]
        assert took >= row.latency + 8e12 * row.volume / rate - 1e-2, "a transfer is faster than its links"
    assert np.allclose(found.table("links")["bytes"], wire), "links carried other bytes than were sent"
    least_ps = 8e12 * wire / np.array(capacity)
    assert found.makespan_ps >= least_ps.max() - 1, "the run is shorter than its fullest link"


def main() -> int:
    """Plays cases until the time is over, or one only; 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long cases are played")
    parser.add_argument("--seed", type=int, help="of the first case; a new one each time without it")
    parser.add_argument("--case", type=int, help="play this case alone")
    asked = parser.parse_args()
    if asked.case is not None:
        sys.stdout.write(f"{play(asked.case)}\n")
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    end, played = time.monotonic() + asked.seconds, 0
    while time.monotonic() < end:
        sys.stderr.write(f"\r{seed + played}")
        sys.stderr.flush()
        try:
            play(seed + played)
        except Exception as error:
            again = f"python -m tests.fuzz.swarm --case {seed + played}"
            sys.stderr.write(f"\nfails: {type(error).__name__}: {error}\nplay it again: {again}\n")
            return 1
        played += 1
    sys.stderr.write(f"\r{played} cases from seed {seed} hold\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
