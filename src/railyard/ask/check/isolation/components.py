"""What hangs together: tables between which routes or packets could ever pass, whatever fails, by whatever path.

A failure only takes sessions away, so that what does not hang together here is apart under any number of them. What
does hang together need not leak: that is for `routes`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.wired import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.ask.check.isolation.wired import Server, Wired


class _Union:
    """Sets that are joined."""

    def __init__(self) -> None:
        self.parent: dict[object, object] = {}

    def find(self, one: object) -> object:
        self.parent.setdefault(one, one)
        root = one
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[one] != root:
            self.parent[one], one = root, self.parent[one]
        return root

    def join(self, one: object, other: object) -> None:
        self.parent[self.find(one)] = self.find(other)


def components(wired: Wired) -> list[tuple[frozenset[Node], tuple[Server, ...]]]:
    """Tables that hang together, and the servers in them; those without servers are left out."""
    union = _Union()
    for one, other in _ties(wired):
        union.join(one, other)
    servers: dict[object, list[Server]] = defaultdict(list)
    for server in wired.servers:
        entry = wired.entry(server)
        if entry is not None:
            servers[union.find(entry)].append(server)
    nodes: dict[object, set[Node]] = defaultdict(set)
    for one in list(union.parent):
        if isinstance(one, Node):
            nodes[union.find(one)].add(one)
    return [(frozenset(nodes[root]), tuple(mine)) for root, mine in servers.items()]


def _ties(wired: Wired) -> Iterator[tuple[object, object]]:
    """What is joined: tables by sessions and leaks, and tables with the VNIs and route targets that they have."""
    yield from ((session.source, session.target) for session in wired.sessions)
    for name, switch in wired.switches.items():
        for table_name, table in switch.tables.items():
            node = Node(name, table_name)
            yield from ((node, Node(name, leak.vrf)) for leak in table.leaks)
            if table.vni:
                yield node, ("vni", table.vni)
            targets = (*table.imports, *table.exports) if switch.overlay is not None else ()
            yield from ((node, ("target", target)) for target in targets)
