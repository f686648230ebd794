"""Topology files of schedulers and fabric managers: formats, lists of names, and trees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railyard.cluster.network_table import natural
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.files import read_text
from railyard.kit.registry import Registry
from railyard.work.operate.tree import NodeTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path


MOST_NAMES = 1_000_000
"""Maximum number of names in a list: a typo such as `n[0-99999999999]` would exhaust memory."""

_PART = re.compile(r"[^,\[\]\s]*(?:\[[^\[\]]*\][^,\[\]\s]*)*")
_DIGITS = 18
"""Maximum digits of a number in a name; longer ones are not node numbers."""

_SPAN = re.compile(rf"([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?")


def expand_hostlist(text: str) -> list[str]:
    """Names of a list, in order.

    Raises:
        InputError: A bracket is not closed, a range decreases, or there are more than a million names.
    """
    names: list[str] = []
    for part in _parts(text):
        names += _expanded(part, text)
        if len(names) > MOST_NAMES:
            raise InputError(
                "a list of nodes is too long", found=f"more than {MOST_NAMES:,} names", allowed=f"{MOST_NAMES:,} names"
            )
    return names


def _parts(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        end = found.end() if found else place
        if end < len(text) and text[end] not in ", \t":
            raise InputError("brackets in a list of nodes do not match", found=text, allowed="such as n[001-004,007]")
        if end > place:
            yield text[place:end]
        place = end + 1


def _expanded(part: str, text: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _expanded(tail, text) if tail else [""]
    found: list[str] = []
    for span in inside.split(","):
        match = _SPAN.fullmatch(span.strip())
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if (int(last) - int(first) + 1) * len(tails) > MOST_NAMES:
            raise InputError(
                "a list of nodes is too long", found=f"[{span}] in {text}", allowed=f"{MOST_NAMES:,} names"
            )
        if int(last) < int(first):
            raise InputError(
                "a range in a list of nodes is wrong", found=f"[{span}] in {text}", allowed="such as 001-004"
            )
        for number in range(int(first), int(last) + 1):
            found += [f"{head}{number:0{len(first)}d}{end}" for end in tails]
    return found


def compress_hostlist(names: Iterable[str]) -> str:
    """The shortest list with one bracket per prefix; prefixes keep their order, numbers ascend."""
    parts = [(name, re.fullmatch(rf"(.*?)([0-9]{{1,{_DIGITS}}})", name, re.DOTALL)) for name in names]
    padded = {(found[1], len(found[2])) for _, found in parts if found and found[2][0] == "0" != found[2]}
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name, found in parts:
        if not found:
            plain.append(name)
            continue
        key = (found[1], len(found[2]))
        groups.setdefault(key if key in padded else (found[1], 0), []).append(int(found[2]))
    return ",".join([*plain, *(_brackets(prefix, width, numbers) for (prefix, width), numbers in groups.items())])


def _brackets(prefix: str, width: int, numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in spans]
    return f"{prefix}{texts[0]}" if texts[0].isdigit() and len(texts) == 1 else f"{prefix}[{','.join(texts)}]"


@dataclass(frozen=True)
class TopologyFormat:
    """A format; creating the record registers it.

    Attributes:
        recognise: Whether a text looks like this format.
        read: From text and file name (for messages) to a tree.
        write: From a tree to text; None: read only.
        source: Programs and versions that read it.
    """

    name: str
    summary: str
    filename: str
    recognise: Callable[[str], bool]
    read: Callable[[str, str], NodeTree]
    write: Callable[[NodeTree], str] | None = None
    source: str = ""


MOST_LEVELS = 64
"""Maximum switch levels above a node. Networks have two to four, and the work grows with the square of a chain."""

topology_formats: Registry[TopologyFormat] = Registry("topology format", package="railyard.work.operate.formats")


def read_topology(path: Path, name: str | None = None) -> NodeTree:
    """Reads a tree from a file; the format is detected if it is not named.

    Raises:
        InputError: The file cannot be read, is in no known format, or is invalid.
    """
    text = read_text(path)
    known = [record for _, record in topology_formats.items()]
    chosen = topology_formats.get(name) if name else next((record for record in known if record.recognise(text)), None)
    if chosen is None:
        made = re.search(r"^apiVersion:\s*(\S+)", text, re.MULTILINE)
        raise InputError(
            f"these are objects of Kubernetes (`{made[1]}`) without a Topology of Kueue or HyperNodes of Volcano"
            if made
            else "no format of topologies that is known",
            file=str(path),
            allowed=[record.name for record in known],
            hint="name it with --format",
        )
    try:
        return chosen.read(text, str(path))
    except InputError as error:
        raise error.located(file=path) from None


@dataclass(frozen=True)
class SwitchNode:
    """A switch of a file: its nodes (a leaf) or the switches below it, and its line."""

    name: str
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    line: int = 0

    def wrong(self, message: str, file: str, **details: Any) -> InputError:
        """An error about it, with its place in the file."""
        return InputError(message, file=file, line=self.line or None, **details)


def tree_of(switches: Sequence[SwitchNode], file: str) -> NodeTree:
    """Builds a tree of nodes from a tree of switches.

    Levels count from the leafs. A leaf attached higher than others is in an unnamed group at the levels that it skips,
    alone or with similar leafs. A single root is not a level; several roots are networks that do not reach one another.
    Leafs keep the order of the file, which is that of Slurm's scan; nodes are in natural order of their names.

    Raises:
        InputError: A name is used twice, a switch is missing, has two parents, is empty, or is below itself.
    """
    by_name, parent = _unique(switches, file), dict[str, SwitchNode]()
    for switch in switches:
        _check(switch, by_name, parent, file)
    path = {switch.name: _path(switch, parent, file) for switch in switches}
    if not any(switch.nodes for switch in switches):
        raise InputError("there is no node in the file", file=file)
    paths = {leaf.name: path[leaf.name] for leaf in switches if not leaf.children}
    height = _heights(paths)
    roots = list(dict.fromkeys(path[-1] for path in paths.values()))
    top = max(height[root] for root in roots)
    words = {leaf: _words(path, height, top) for leaf, path in paths.items()}
    keep = top + 1 if len(roots) > 1 or top == 0 else top
    leaf_of = {node: leaf.name for leaf in switches for node in leaf.nodes}
    names = sorted(leaf_of, key=natural)
    order = {leaf: number for number, leaf in enumerate(paths)}
    return _numbered(names, [leaf_of[node] for node in names], order, words, keep, joined=len(roots) == 1)


def _unique(switches: Sequence[SwitchNode], file: str) -> dict[str, SwitchNode]:
    seen: dict[str, SwitchNode] = {}
    node_in: dict[str, str] = {}
    for switch in switches:
        if switch.name in seen:
            raise switch.wrong(f"the switch `{switch.name}` appears twice", file)
        seen[switch.name] = switch
        for node in switch.nodes:
            if node in node_in:
                both = f"`{node_in[node]}` and `{switch.name}`"
                raise switch.wrong(
                    f"the node `{node}` is below two switches, {both}", file, allowed="one leaf for each node"
                )
            node_in[node] = switch.name
    return seen


def _check(switch: SwitchNode, by_name: dict[str, SwitchNode], parent: dict[str, SwitchNode], file: str) -> None:
    """Checks a switch, and notes that it is the parent of those below it."""
    if bool(switch.nodes) == bool(switch.children):
        what = "both nodes and switches" if switch.nodes else "neither nodes nor switches"
        raise switch.wrong(f"the switch `{switch.name}` has {what}", file, allowed="one of the two")
    for child in switch.children:
        if child not in by_name:
            raise switch.wrong(f"there is no switch `{child}`", file, found=child, hint=did_you_mean(child, by_name))
        if parent.setdefault(child, switch) is not switch:
            above = f"`{parent[child].name}` and `{switch.name}`"
            raise switch.wrong(
                f"the switch `{child}` is below two switches, {above}",
                file,
                allowed="a tree: a file for schedulers names one of several spines, or their group",
            )


def _path(leaf: SwitchNode, parent: dict[str, SwitchNode], file: str) -> list[str]:
    path = [leaf.name]
    while path[-1] in parent:
        above = parent[path[-1]]
        if above.name in path:
            raise above.wrong(f"the switch `{above.name}` is below itself", file)
        if len(path) == MOST_LEVELS:
            deep = "switches are too many levels deep"
            raise leaf.wrong(deep, file, found=leaf.name, allowed=f"{MOST_LEVELS} levels")
        path.append(above.name)
    return path


def _heights(paths: dict[str, list[str]]) -> dict[str, int]:
    height: dict[str, int] = {}
    for path in paths.values():
        for level, switch in enumerate(path):
            height[switch] = max(height.get(switch, 0), level)
    return height


def _words(path: list[str], height: dict[str, int], top: int) -> list[str]:
    """The leaf's switch at every level from the leaf up; empty if the path skips a level, the root above the root."""
    at = {height[switch]: switch for switch in path}
    return [at.get(level, "" if level < height[path[-1]] else path[-1]) for level in range(top + 1)]


def _numbered(
    names: list[str],
    leaf: list[str],
    order: dict[str, int],
    words: dict[str, list[str]],
    keep: int,
    *,
    joined: bool,
) -> NodeTree:
    group, group_names, levels = [], [], []
    for level in range(keep - 1, -1, -1):
        paths = {one: tuple(words[one][keep - 1 : level - 1 if level else None : -1]) for one in order}
        number = {path: at for at, path in enumerate(dict.fromkeys(paths[one] for one in order))}
        group.append(np.array([number[paths[one]] for one in leaf], np.int32))
        group_names.append(tuple(path[-1] for path in number))
        levels.append(_LEVELS[level] if level < len(_LEVELS) else f"tier-{level}")
    return NodeTree(
        tuple(names),
        np.ones(len(names), np.int32),
        tuple(levels),
        tuple(group),
        tuple(group_names),
        joined,
    )


_LEVELS = ("leaf", "pod", "zone", "hall")


def switches_of(tree: NodeTree) -> list[SwitchNode]:
    """The switches of a tree, leafs first, under a switch `root` if its widest groups reach one another."""
    found: list[SwitchNode] = []
    names = [_distinct(tree, level) for level in range(len(tree.levels))]
    for level in reversed(range(len(tree.levels))):
        for number, name in enumerate(names[level]):
            if level == len(tree.levels) - 1:
                found.append(SwitchNode(name, tuple(tree.names[node] for node in tree.members[level][number])))
            else:
                below = np.flatnonzero(tree.parent[level + 1] == number)
                found.append(SwitchNode(name, children=tuple(names[level + 1][child] for child in below)))
    if not tree.levels:
        return [SwitchNode("root", tree.names)]
    if tree.joined and len(names[0]) > 1:
        found.append(SwitchNode("root", children=tuple(names[0])))
    return found


def _distinct(tree: NodeTree, level: int) -> list[str]:
    """Names of groups, made unique if a file has a name in two places (Lingjun's switches) or none."""
    words = tree.group_names[level]
    often = {name for name in words if words.count(name) > 1} if len(set(words)) < len(words) else set()
    if level == 0 or not (often or "" in words):
        return [name or f"{tree.levels[level]}-{number}" for number, name in enumerate(words)]
    above = _distinct(tree, level - 1)
    parent = tree.parent[level]
    return [
        f"{above[parent[number]]}.{name}" if name in often else name or f"{tree.levels[level]}-{number}"
        for number, name in enumerate(words)
    ]
