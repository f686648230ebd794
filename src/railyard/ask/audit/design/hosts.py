"""Which leaf each port of a host was meant for: what the hosts of a rack or a group of rails agree on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.order import natural

if TYPE_CHECKING:
    from railyard.ask.audit.network import Found

GROUP = 3
"""Hosts that must have the same leafs before they say anything of another."""

AGREED = 0.6
"""Share of a group's hosts that have a port on the same leaf."""

NEARLY_ALL = 0.9

_NAMELESS = re.compile(r"MT\d+|localhost.*|ubuntu|host|debian|centos|\(none\)|")


@dataclass(frozen=True)
class HostPort:
    """A cable of a host.

    Attributes:
        cable: Its number.
        host: Device number of the host's port.
        leaf: Device number of its switch.
    """

    cable: int
    host: int
    leaf: int


@dataclass(frozen=True)
class Group:
    """Hosts that were meant to have the same leafs.

    Attributes:
        hosts: By name, their ports by part.
        leaf_of: The leaf of each part, as most of them have it.
    """

    hosts: dict[str, dict[str, HostPort]]
    leaf_of: dict[str, int]


def groups(found: Found) -> tuple[list[Group], set[int]]:
    """Groups of hosts with several ports, and the leafs that have ports of hosts without a name of their own."""
    hosts, nameless = _named(found)
    leafs = {name: [port.leaf for port in ports.values()] for name, ports in hosts.items() if len(ports) > 1}
    usual = [key for key, count in Counter(map(frozenset, leafs.values())).most_common() if count >= GROUP]
    members: dict[frozenset[int], list[str]] = defaultdict(list)
    for name, mine in leafs.items():
        inside = {key: sum(leaf in key for leaf in mine) - len(key - {*mine}) for key in usual}
        best = max(usual, key=lambda key: (inside[key], -usual.index(key)), default=None)
        if best is not None and 2 * sum(leaf in best for leaf in mine) > len(mine):
            members[best].append(name)
    return [_group({name: hosts[name] for name in sorted(names, key=natural)}) for names in members.values()], nameless


def _named(found: Found) -> tuple[dict[str, dict[str, HostPort]], set[int]]:
    hosts: dict[str, dict[str, HostPort]] = defaultdict(dict)
    nameless: set[int] = set()
    twice: set[str] = set()
    for cable, (leaf, host) in zip(found.access.tolist(), found.access_ends.tolist(), strict=True):
        device = found.device(host)
        part = device.part or found.port(cable, host)
        if _NAMELESS.fullmatch(device.name):
            nameless.add(leaf)
        elif part in hosts[device.name]:
            twice.add(device.name)
        hosts[device.name][part] = HostPort(cable, host, leaf)
    for name in list(hosts):
        if name in twice or _NAMELESS.fullmatch(name):
            nameless |= {port.leaf for port in hosts.pop(name).values()}
    return hosts, nameless


def _group(hosts: dict[str, dict[str, HostPort]]) -> Group:
    votes: dict[str, Counter[int]] = defaultdict(Counter)
    for ports in hosts.values():
        for part, port in ports.items():
            votes[part][port.leaf] += 1
    agreed = {}
    for part, count in votes.items():
        leaf, times = count.most_common(1)[0]
        if times >= GROUP and times >= AGREED * count.total():
            agreed[part] = leaf
    return Group(hosts, agreed)
