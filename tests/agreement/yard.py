"""What the tests of this folder run: machines, single communications as task graphs, and jobs."""

from __future__ import annotations

from functools import cache

import numpy as np

from railyard import catalog, engine
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec, build
from railyard.cluster.topology import LeafSpine
from railyard.collective import CollectivePolicy, lower_collectives
from railyard.graph import CollectiveKind, Communicators, Job, Kind, Label, Stream, TaskGraph
from railyard.graph.task_graph import OBLIGATORY

GIB = 1 << 30
MIB = 1 << 20


@cache
def known():
    return catalog.load()


@cache
def _machine(ranks, fabric, overrides, server, network):
    spec = NetworkSpec(fabric=FabricSpec(fabric, dict(overrides)), **dict(network))
    return build(ClusterSpec(ranks, server, spec), known())


def machine(ranks=64, fabric="ideal", topology=None, server="hgx-h100", *, overrides=(), **spec):
    """A cluster; each is built once."""
    network = {"topology": LeafSpine() if topology is None else topology, **spec}
    own = tuple(sorted(dict(overrides).items()))
    return _machine(ranks, fabric, own, server, tuple(sorted(network.items())))


def word(kind):
    return kind.name.lower().replace("_", "-")


def communicators(*groups, name="dp"):
    return Communicators.of(groups, name)


def graph(ranks, rows, groups=()):
    """A task graph from rows of columns; what a row leaves out has its default, `deps` are its predecessors."""
    release = np.array([row.get("release_ps", 0) for row in rows], np.int64)
    return TaskGraph.of(
        ranks,
        **{name: [row.get(name, default) for row in rows] for name, (default, _) in OBLIGATORY.items()},
        waits=[row.get("deps", ()) for row in rows],
        release_ps=release if release.any() else None,
        labels=[Label("gradient", "communication", "dp")],
        communicators=communicators(*groups),
    )


def collective(kind, size, group=0, **more):
    return {
        "kind": int(Kind.COLLECTIVE),
        "rank": group,
        "collective": int(kind),
        "size_bytes": size,
        "stream": int(Stream.GRADIENT),
        **more,
    }


def transfer(source, target, size, **more):
    stream = int(Stream.FORWARD)
    return {"kind": int(Kind.TRANSFER), "rank": source, "peer": target, "size_bytes": size, "stream": stream, **more}


def forced(kind, algorithm, protocol="simple"):
    return CollectivePolicy(algorithm={word(kind): algorithm}, protocol={word(kind): protocol})


def one(cluster, kind, algorithm, size=GIB, *, ranks=None, name="flow"):
    """The timeline of one collective of a forced algorithm, protocol Simple."""
    members = np.arange(cluster.ranks) if ranks is None else ranks
    what = graph(cluster.ranks, [collective(kind, size)], [members])
    return engine.get(name).simulate([Job(what)], cluster, policy=forced(kind, algorithm))


def transfers(cluster, ends, size=GIB, *, name="flow"):
    """The timeline of transfers that all start at once; `ends` are pairs of ranks."""
    rows = [transfer(int(source), int(target), size) for source, target in ends]
    return engine.get(name).simulate([Job(graph(cluster.ranks, rows))], cluster)


def moving_s(line):
    """Seconds for which bytes flowed, of every task."""
    return (line.end_ps - line.start_ps - line.column("latency_ps")) * 1e-12


def shares(cluster, line, size=GIB, rate_bps=400e9):
    """Rate of each transfer over that of one alone on its NIC, mean over its life."""
    return 8 * size / (rate_bps * cluster.fabric.payload_efficiency) / moving_s(line)


def table(cluster, kind, sizes, ranks, policy=CollectivePolicy()):  # noqa: B008 - frozen
    """What collectives of many sizes on one communicator are lowered to."""
    count = len(sizes)
    request = (
        np.zeros(count, np.int32),
        np.full(count, int(kind), np.uint8),
        np.array(sizes, np.int64),
        np.ones(count, np.int32),
    )
    return lower_collectives(cluster, communicators(ranks), request, policy=policy)


KINDS = tuple(CollectiveKind)
