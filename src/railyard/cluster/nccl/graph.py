"""NCCL's file of graphs: in which order the accelerators and NICs of a machine are channels' rings and trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.cluster.nccl.tree import Element, read
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from railyard.cluster.nccl.machine import Machine

RING, BALANCED_TREE = 4, 1
"""Patterns, by NCCL's numbers (graph.h)."""


@dataclass(frozen=True)
class Channel:
    """Accelerators in order, and the NICs at which it enters and leaves; empty inside a machine."""

    gpus: tuple[int, ...]
    nets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Channels of one pattern.

    Attributes:
        number: Of the graph.
        pattern: See `RING`.
        channels: In their order.
        given: Attributes as a file has them.
    """

    number: int
    pattern: int
    channels: tuple[Channel, ...]
    given: dict[str, str] = field(default_factory=dict)


def parse(text: str, file: str) -> tuple[Graph, ...]:
    """The graphs of a file.

    Raises:
        InputError: It is no such file, or a number is none.
    """
    root = read(text, file, "graphs")
    return tuple(
        Graph(
            _number(one, "id", file),
            _number(one, "pattern", file),
            tuple(
                Channel(
                    tuple(_number(gpu, "dev", file) for gpu in channel.all("gpu")),
                    tuple(net.given.get("dev", "") for net in channel.all("net")),
                )
                for channel in one.all("channel")
            ),
            one.given,
        )
        for one in root.all("graph")
    )


def _number(element: Element, key: str, file: str) -> int:
    text = element.given.get(key, "")
    if not text.lstrip("-").isdecimal():
        raise InputError("expected a number", file=file, line=element.line, key=key, found=text)
    return int(text)


def write(graphs: tuple[Graph, ...]) -> Element:
    """The tree; its `text` is the file."""
    return Element("graphs", {"version": "1"}, [_graph(one) for one in graphs])


def _graph(graph: Graph) -> Element:
    given = {"id": str(graph.number), "pattern": str(graph.pattern), "nchannels": str(len(graph.channels))}
    channels = []
    for one in graph.channels:
        gpus = [Element("gpu", {"dev": str(dev)}) for dev in one.gpus]
        nets = [Element("net", {"dev": dev}) for dev in one.nets]
        channels.append(Element("channel", {}, [*nets[:1], *gpus, *nets[1:]]))
    return Element("graph", graph.given | given, channels)


def rails(machine: Machine) -> tuple[Graph, ...]:
    """A ring and a tree a NIC: in at the NIC, to the accelerator next to it, through all others, and out again.

    For machines whose accelerators reach one another alike, as through a switch; each channel then has its own rail.
    """
    gpus = [(domain, pci.gpu.dev) for domain, pci in machine.accelerators if pci.gpu is not None]
    nets = [(domain, net) for domain, pci in machine.nics for net in pci.nets]
    order = [dev for _, dev in gpus]
    slowest = min((net.rate_bps for _, net in nets), default=0.0)
    channels = []
    used: set[int] = set()
    for domain, net in nets:
        near = next((dev for at, dev in gpus if at == domain and dev not in used), order[len(used) % len(order)])
        used.add(near)
        at = order.index(near)
        channels.append(Channel((*order[at:], *order[:at]), (str(net.dev), str(net.dev))))
    if not nets:
        channels = [Channel(tuple(order))]
    speed = f"{slowest / 8e9:g}"
    given = {
        "id": "",
        "pattern": "",
        "crossnic": "0",
        "nchannels": "",
        "speedintra": speed,
        "speedinter": speed,
        "latencyinter": "0",
        "typeintra": "NVL",
        "typeinter": "PIX",
        "samechannels": "0",
    }
    return tuple(Graph(at, pattern, tuple(channels), given) for at, pattern in enumerate((RING, BALANCED_TREE)))
