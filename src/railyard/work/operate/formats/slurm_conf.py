"""Slurm's `topology.conf`: switches (topology/tree) or blocks (topology/block), one a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError, did_you_mean
from railyard.work.operate.hostlist import compress, expand
from railyard.work.operate.topology_file import Switch, TopologyFormat, formats, switches_of, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.work.operate.tree import NodeTree

_BOTH = "topology.conf has switches (topology/tree) or blocks (topology/block); both together are topology.yaml, 25.05"
_OTHERS = {
    "blocklevels": "BlockLevels is of Slurm 23.11; from 24.05 on BlockSizes says the sizes of blocks, in nodes",
    "switchname": _BOTH,
    "blockname": _BOTH,
}
"""Keys of other versions, or of the other plugin."""
_KEYS = {"switchname": "SwitchName", "nodes": "Nodes", "switches": "Switches", "linkspeed": "LinkSpeed"}


def lines_of(text: str, keys: dict[str, str], file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and `key=value` pairs of each line; comments, blank lines and continued lines as Slurm has them.

    Raises:
        InputError: A word is no pair, or its key is unknown.
    """
    joined, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        start = start or number
        joined += line.split("#", 1)[0].rstrip()
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        if joined.strip():
            yield start, _pairs(joined, keys, file, start)
        joined, start = "", 0


def _pairs(line: str, keys: dict[str, str], file: str, number: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals or key.lower() not in keys:
            if key.lower() in _OTHERS:
                raise InputError(_OTHERS[key.lower()], file=file, line=number, found=word)
            raise InputError(
                f"expected {', '.join(keys.values())}, got `{key}`",
                file=file,
                line=number,
                found=word,
                allowed=list(keys.values()),
                hint=did_you_mean(key.lower(), keys),
            )
        found[key.lower()] = value
    return found


def names_of(value: str, file: str, line: int) -> tuple[str, ...]:
    """Names of a list in brackets; errors say where it stands."""
    try:
        return tuple(expand(value))
    except InputError as error:
        wrong = error.problems[0]
        raise InputError(wrong.message, file=file, line=line, found=value, allowed=wrong.allowed) from error


def _read(text: str, file: str) -> NodeTree:
    switches = []
    for line, pairs in lines_of(text, _KEYS, file):
        if "switchname" not in pairs:
            raise InputError("a line has no SwitchName", file=file, line=line)
        switches.append(
            Switch(
                pairs["switchname"],
                names_of(pairs.get("nodes", ""), file, line),
                names_of(pairs.get("switches", ""), file, line),
                line,
            )
        )
    return tree_of(switches, file)


def _write(tree: NodeTree) -> str:
    lines = [
        f"SwitchName={switch.name} "
        + (f"Nodes={compress(switch.nodes)}" if switch.nodes else f"Switches={compress(switch.children)}")
        for switch in switches_of(tree)
    ]
    return "\n".join(lines) + "\n"


formats.add(
    "slurm-tree",
    TopologyFormat(
        "slurm-tree",
        "Slurm's topology/tree",
        "topology.conf",
        lambda text: bool(re.search(r"^\s*SwitchName=", text, re.MULTILINE | re.IGNORECASE)),
        _read,
        _write,
        source="Slurm 22.05 and later",
    ),
)
