"""Parts of a cluster that can make communications slow, each with the links that it would slow."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import node_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster import Cluster

    Cables = dict[tuple[int, int], list[int]]


@dataclass(frozen=True)
class Part:
    """A candidate.

    Attributes:
        name: As faults write it.
        kind: cable, nic, host or switch.
        links: Physical links, both directions.
    """

    name: str
    kind: str
    links: tuple[int, ...]


def parts(cluster: Cluster) -> Iterator[Part]:
    """Cables, NICs, hosts and switches of the back-end, and the accelerators' links to their scale-up switches.

    A NIC with one port and its cable are one part: no measurement of their traffic tells them apart.
    """
    network = cluster.back_end
    between = _cables(cluster, network.node_offset, network.node_offset + network.nodes)
    hosts: dict[str, list[int]] = defaultdict(list)
    nics: dict[str, list[int]] = defaultdict(list)
    switches: dict[str, list[list[int]]] = defaultdict(list)
    for (one, other), those in between.items():
        names = [node_name(cluster, node).removeprefix(f"{network.name} ") for node in (one, other)]
        for name in names:
            if not name.startswith("server "):
                switches[name].append(those)
        attached = next((name for name in names if name.startswith("server ")), None)
        if attached is None:
            yield Part(" - ".join(names), "cable", tuple(those))
            continue
        nics[attached.replace(" NIC ", " nic ")] += those
        hosts[attached.split(" NIC ")[0]] += those
    yield from _larger(nics, hosts)
    for name, cables in switches.items():
        if len(cables) > 1:
            yield Part(name, "switch", tuple(link for those in cables for link in those))
    for (one, other), those in _cables(cluster, 0, cluster.ranks + cluster.scale_up.switches).items():
        yield Part(f"{node_name(cluster, one)} - {node_name(cluster, other)}", "cable", tuple(those))


def _larger(nics: dict[str, list[int]], hosts: dict[str, list[int]]) -> Iterator[Part]:
    """NICs, and hosts that have several."""
    for name, those in nics.items():
        yield Part(name, "nic", tuple(those))
    for name, those in hosts.items():
        if len(those) > len(next(links for nic, links in nics.items() if nic.startswith(f"{name} "))):
            yield Part(name, "host", tuple(those))


def _cables(cluster: Cluster, first: int, last: int) -> Cables:
    """Physical links by their two ends, of which both lie between two node numbers."""
    links = cluster.links
    ends = np.stack([links.source[: links.physical], links.target[: links.physical]])
    found: Cables = {}
    for link in np.flatnonzero(((ends >= first) & (ends < last)).all(axis=0)).tolist():
        one, other = sorted(ends[:, link].tolist())
        found.setdefault((one, other), []).append(link)
    return found
