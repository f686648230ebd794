"""Reads an InfiniBand fabric from `ibnetdiscover` as a tree of hosts.

The graph is not a tree. A scheduler's leaf is the set of hosts that share most of their leaf switches (the rails of one
group), not the hosts of one switch. A switch that every host reaches (storage, management) does not join hosts. Single
spines are not parents: the hosts that spines join without the tier above form a pod. If networks that do not reach one
another have hosts in common (planes, storage), the one with most of the hosts' cables counts. Networks without common
hosts are separate fabrics without a common root.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.asbuilt import ibnetdiscover
from railyard.cluster.network_table import components, hop_counts, natural
from railyard.kit.errors import InputError
from railyard.work.operate.topology_file import TopologyFormat, topology_formats
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from railyard.cluster.network_table import NetworkTable

_SHARED = 0.5
"""Two hosts are on the same leaf if they share more than this part of their switches."""


def tree_of_discovery(found: NetworkTable) -> NodeTree:
    """The hosts of a discovered fabric, grouped into leafs and pods.

    Raises:
        InputError: No host is cabled to a switch.
    """
    network = components(len(found.name), found.ends[found.between]).tolist()
    cables: dict[str, list[int]] = {}
    for number in np.flatnonzero(found.host).tolist():
        cables.setdefault(found.name[number], []).extend(
            far for _, _, far, _ in found.far_ends[number] if found.switch[far]
        )
    fabric = _fabrics(cables, network, found.file)
    ports = {host: [one for one in cables[host] if network[one] == of] for host, of in fabric.items()}
    names = sorted(fabric, key=natural)
    leaf = _leafs([frozenset(ports[name]) for name in names])
    pod = _pods(found, [ports[name] for name in names], leaf)
    levels = [("leaf", _named(leaf, [ports[name] for name in names], found))]
    if 1 < len(set(pod)) < len(set(leaf)):
        levels.insert(0, ("pod", [f"pod-{one}" for one in pod]))
    parts = list(dict.fromkeys(fabric[name] for name in names))
    if len(parts) > 1:
        levels.insert(0, ("fabric", [f"fabric-{parts.index(fabric[name])}" for name in names]))
    counts = np.array([len(ports[name]) for name in names], np.int32)
    each = np.minimum(counts, np.bincount(counts).argmax())
    return NodeTree.listed(names, each, levels, joined=len(parts) == 1)


def _fabrics(cables: dict[str, list[int]], network: list[int], file: str) -> dict[str, int]:
    """The network of each host; drops networks whose hosts have more cables in another one."""
    count: Counter[int] = Counter(network[one] for ends in cables.values() for one in ends)
    if not count:
        raise InputError("no host of the fabric is cabled to a switch", file=file)
    found: dict[str, int] = {}
    for one in sorted(count, key=lambda of: (-count[of], of)):
        hosts = [host for host, ends in cables.items() if any(network[end] == one for end in ends)]
        if found.keys().isdisjoint(hosts):
            found |= dict.fromkeys(hosts, one)
    return found


def _leafs(sets: list[frozenset[int]]) -> list[int]:
    """Leaf of each host: that of the first host that shares most of its switches."""
    first: list[frozenset[int]] = []
    found = []
    for one in sets:
        match = next((at for at, other in enumerate(first) if _overlap(one, other) > _SHARED), len(first))
        if match == len(first):
            first.append(one)
        found.append(match)
    return found


def _overlap(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / min(len(one), len(other))


def _pods(found: NetworkTable, ports: list[list[int]], leaf: list[int]) -> list[int]:
    """Groups joined below the highest tier of switches; a single group if there are only leafs and spines."""
    between = found.ends[found.between]
    tier = hop_counts(len(found.name), between, np.unique([one for ends in ports for one in ends]))
    if tier.max() < 2:
        return [0] * len(ports)
    inner = components(len(found.name), between[((tier[between] >= 0) & (tier[between] < tier.max())).all(axis=1)])
    of_leaf: dict[int, int] = {}
    return [of_leaf.setdefault(one, int(inner[ends[0]])) for one, ends in zip(leaf, ports, strict=True)]


def _named(leaf: list[int], ports: list[list[int]], found: NetworkTable) -> list[str]:
    often: dict[int, Counter[frozenset[int]]] = {}
    for one, ends in zip(leaf, ports, strict=True):
        often.setdefault(one, Counter())[frozenset(ends)] += 1
    name = {
        one: min((found.name[end] for end in sets.most_common(1)[0][0]), key=natural) for one, sets in often.items()
    }
    if len(set(name.values())) < len(name):
        name = {one: f"{word}-{one}" for one, word in name.items()}
    return [name[one] for one in leaf]


topology_formats.enter(
    TopologyFormat(
        "ibnetdiscover",
        "An InfiniBand fabric as it was found",
        "ibnetdiscover.out",
        ibnetdiscover.looks_like,
        lambda text, file: tree_of_discovery(ibnetdiscover.read(text, file)),
        source="infiniband-diags",
    ),
)
