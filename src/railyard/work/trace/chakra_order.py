"""What the nodes of one rank wait for: dependencies on nodes that are there, without cycles.

The converter of PyTorch traces writes the caller of an operation as its control dependency, and what the operation
waits for as data dependencies (`pytorch_converter.py` of mlcommons/chakra); Chakra's feeder follows the latter only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railyard.work.trace.chakra_nodes import ChakraNode
    from railyard.work.trace.lacks import Lacks

Order = dict[int, list[int]]

MISSING = "{} dependencies are on nodes that the trace does not hold: they are left out"
CALLERS = "{} control dependencies name the caller of an operation (PyTorch): only data dependencies are waited for"
CONTROL_CYCLES = "{} control dependencies lie on dependency cycles: they are left out"
CYCLES = "{} data dependencies lie on dependency cycles and point to later nodes: they are left out"

_PYTORCH = "rf_id"


def waits_of(nodes: list[ChakraNode], lacks: Lacks) -> Order:
    """The nodes that each node waits for, by number.

    Args:
        nodes: Of one rank, in the order of its file.
        lacks: Takes what is left out.
    """
    control = {node.id: node.control for node in nodes}
    if any(_PYTORCH in node.attributes for node in nodes):
        lacks.note(CALLERS, sum(map(len, control.values())))
        control = {}
    data = _present({node.id: node.data for node in nodes}, lacks)
    control = _present(control, lacks)
    waits = _joined(data, control)
    cyclic = _on_cycles(waits)
    if not cyclic:
        return waits
    lacks.note(CONTROL_CYCLES, sum(len(control.get(node, ())) for node in cyclic))
    waits |= {node: data[node] for node in cyclic}
    cyclic = _on_cycles(waits)
    place = {node.id: number for number, node in enumerate(nodes)}
    kept = {node: [other for other in waits[node] if place[other] < place[node]] for node in cyclic}
    lacks.note(CYCLES, sum(len(waits[node]) - len(kept[node]) for node in cyclic))
    return waits | kept


def _present(waits: Mapping[int, list[int]], lacks: Lacks) -> Order:
    """Dependencies on nodes that are there, each once."""
    known = waits.keys()
    found = {node: [other for other in dict.fromkeys(others) if other in known] for node, others in waits.items()}
    lacks.note(MISSING, sum(sum(other not in known for other in others) for others in waits.values()))
    return found


def _joined(data: Order, control: Order) -> Order:
    return {node: [*dict.fromkeys([*control.get(node, ()), *others])] for node, others in data.items()}


def _on_cycles(waits: Order) -> list[int]:
    """Nodes on a cycle or between two: what is left when nodes go that wait for nothing, or that nothing waits for."""
    left = _without_ends(waits)
    followers: Order = {node: [] for node in left}
    for node in left:
        for other in waits[node]:
            if other in left:
                followers[other].append(node)
    return sorted(_without_ends(followers))


def _without_ends(waits: Order) -> set[int]:
    """Nodes that are never reached when every node goes as soon as all that it waits for are gone."""
    followers: Order = {node: [] for node in waits}
    missing = {}
    for node, others in waits.items():
        inner = [other for other in others if other in followers]
        missing[node] = len(inner)
        for other in inner:
            followers[other].append(node)
    front = [node for node, count in missing.items() if not count]
    while front:
        node = front.pop()
        del missing[node]
        for other in followers[node]:
            missing[other] -= 1
            if not missing[other]:
                front.append(other)
    return set(missing)
