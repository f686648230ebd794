"""Tenants that are apart, or packets that come from one to another, with the way and the lines that let them.

First what hangs together at all, which holds under any failures; then, where tenants do hang together, packets between
all of their servers, with everything up and without any one switch or cable.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from railyard.ask.check.isolation.components import components
from railyard.ask.check.isolation.permits import Permitted
from railyard.ask.check.isolation.routes import Down, Routes
from railyard.ask.check.isolation.walk import Walker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.ask.check.isolation.walk import Path
    from railyard.ask.check.isolation.wired import Node, Server, Wired

SHOWN = 3
"""Lines of a plan that are missing, in a finding."""

MOST = 4_000
"""Pairs of servers that are followed one by one; of more, one for each pair of tenants."""


@dataclass(frozen=True)
class Violation:
    """A server that reaches another tenant's.

    Attributes:
        source: Who sends.
        target: Who gets it.
        path: Which way.
        down: What has to be lost for it; empty: nothing.
        blamed: Lines that are on the way and in no plan, or what of the plan is missing, in words.
    """

    source: Server
    target: Server
    path: Path
    down: str = ""
    blamed: tuple[str, ...] = ()

    def words(self) -> str:
        """The whole finding."""
        when = f", without {self.down}" if self.down else ""
        why = f"; because of {'; '.join(self.blamed)}" if self.blamed else ""
        pair = f"`{self.source.tenant}` reaches `{self.target.tenant}`"
        ends = f"{self.source.name} to {self.target.address} ({self.target.name})"
        return f"{pair}: {ends} by {self.path.words()}{when}{why}"


@dataclass(frozen=True)
class Proof:
    """What was found.

    Attributes:
        violations: One a pair of tenants and of tables in which their servers are.
        pairs: Ordered pairs of tenants that were asked about.
        joined: Tenants that hang together, and between which yet no packet passes.
    """

    violations: tuple[Violation, ...]
    pairs: int
    joined: tuple[str, ...] = ()


def prove(wired: Wired, progress: Callable[[str, float], None] | None = None) -> Proof:
    """Whether tenants are apart.

    Args:
        wired: Switches as configured.
        progress: Takes what is being done, and its share from 0 to 1.
    """
    names = sorted({server.tenant for server in wired.servers})
    violations: list[Violation] = []
    joined: list[str] = []
    for nodes, servers in components(wired):
        mixed = [pair for pair in _classes(wired, servers) if _may(wired, *pair)]
        if not mixed:
            continue
        found = _walked(wired, nodes, _fewer(mixed), progress)
        violations += found
        if not found:
            tenants = sorted({server.tenant for pair in mixed for server in pair})
            joined.append(f"{', '.join(tenants)} hang together, but no packet passes with any one part down")
    return Proof(tuple(violations), len(names) * (len(names) - 1), tuple(joined))


def _classes(wired: Wired, servers: Sequence[Server]) -> Iterator[tuple[Server, Server]]:
    """Pairs of servers of different tenants, one for all that are alike: table, filter and tenant."""
    alike: dict[tuple[object, ...], Server] = {}
    for server in servers:
        alike.setdefault((wired.entry(server), wired.port(server).filter, server.tenant), server)
    by_target: dict[tuple[object, ...], list[Server]] = defaultdict(list)
    for server in servers:
        by_target[wired.entry(server), server.tenant].append(server)
    for source in alike.values():
        for (_, tenant), targets in by_target.items():
            if tenant == source.tenant:
                continue
            if wired.port(source).filter:
                yield from ((source, target) for target in targets)
            else:
                yield from _announced_alike(wired, source, targets)


def _announced_alike(wired: Wired, source: Server, targets: Sequence[Server]) -> Iterator[tuple[Server, Server]]:
    """One target of each kind: announced, not announced, or in a prefix of which others make something."""
    kinds: dict[object, Server] = {}
    for target in targets:
        port = wired.port(target)
        net = port.address.network if port.address else None
        announced = net in wired.switches[target.switch].tables[port.vrf].announced
        here = source.switch == target.switch
        kinds.setdefault((announced, here, net if net in wired.special else None), target)
    yield from ((source, target) for target in kinds.values())


def _fewer(pairs: list[tuple[Server, Server]]) -> list[tuple[Server, Server]]:
    """The pairs, or of very many one for each pair of tenants."""
    if len(pairs) <= MOST:
        return pairs
    return list({(source.tenant, target.tenant): (source, target) for source, target in pairs}.values())


def _may(wired: Wired, source: Server, target: Server) -> bool:
    """Whether the filter where a packet comes in lets it pass."""
    name = wired.port(source).filter
    return not name or Permitted(wired.switches[source.switch].filters.get(name, [])).passes(int(target.address))


def _walked(
    wired: Wired,
    nodes: frozenset[Node],
    pairs: Sequence[tuple[Server, Server]],
    progress: Callable[[str, float], None] | None,
) -> list[Violation]:
    """Packets between the pairs, with everything up; then, of those that none reached, without any one part."""
    found: dict[tuple[object, ...], Violation] = {}
    losses = list(_losses(wired, nodes))
    for number, down in enumerate(losses):
        left = [pair for pair in pairs if _key(wired, pair) not in found]
        if not left:
            break
        if progress is not None:
            progress(f"packets{f' without {down.words}' if down.words else ''}", number / len(losses))
        walker = Walker(wired, Routes(wired, nodes, down))
        for pair in left:
            path = walker.path(*pair)
            if path is not None:
                found.setdefault(_key(wired, pair), Violation(*pair, path, down.words))
    return list(found.values())


def _key(wired: Wired, pair: tuple[Server, Server]) -> tuple[object, ...]:
    source, target = pair
    return wired.entry(source), source.tenant, wired.entry(target), target.tenant


def _losses(wired: Wired, nodes: frozenset[Node]) -> Iterator[Down]:
    """Nothing, then every switch and every cable of the component."""
    yield Down()
    mine = {node.switch for node in nodes}
    for name in sorted(mine):
        yield Down(name, switch=name)
    for number, cable in enumerate(wired.cables):
        if cable.a in mine and cable.b in mine:
            yield Down(cable.words(), cable=number)


class Changes:
    """What files say otherwise than the plan's, a file when it is asked about.

    Args:
        texts: Files as found, by name.
        planned: The plan's.
    """

    def __init__(self, texts: Mapping[str, str], planned: Mapping[str, str]) -> None:
        self.texts, self.planned = texts, planned
        self._known: dict[str, tuple[frozenset[int], tuple[str, ...]]] = {}

    def of(self, file: str) -> tuple[frozenset[int], tuple[str, ...]]:
        """Numbers of the lines that the plan has not, and texts of those that only the plan has."""
        if file not in self._known:
            found, meant = (source.get(file, "").splitlines() for source in (self.texts, self.planned))
            more: set[int] = set()
            less: list[str] = []
            for what, first, end, begin, last in SequenceMatcher(None, meant, found, autojunk=False).get_opcodes():
                if what != "equal":
                    more |= set(range(begin + 1, last + 1))
                    less += [row.strip() for row in meant[first:end]]
            self._known[file] = frozenset(more), tuple(row for row in less if row)
        return self._known[file]

    def blamed(self, path: Path) -> tuple[str, ...]:
        """What lets a packet pass: lines on its way that the plan has not, else what the plan has besides."""
        lines = list(dict.fromkeys(path.lines))
        strange = [line for line in lines if line.number in self.of(line.file)[0]]
        if strange:
            return tuple(f"`{line.words()}`" for line in strange)
        files = dict.fromkeys(line.file for line in lines)
        return tuple(f"{file} lacks `{text}`" for file in files for text in self.of(file)[1])[:SHOWN]
