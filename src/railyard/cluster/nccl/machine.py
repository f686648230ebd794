"""A server as NCCL's topology file describes it: processors, PCIe, accelerators, links between them, NICs.

`given` of each part are its attributes as a file has them: those that this model has no word for are written again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railyard.cluster.nccl.tree import Element, read
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCELERATOR_CLASSES = ("0x0300", "0x0302", "0x1200")
"""PCI classes of display controllers, 3D controllers and processing accelerators."""

NETWORK_CLASSES = ("0x0200", "0x0207")
"""PCI classes of Ethernet and InfiniBand controllers."""

LINKS = ("nvlink", "xgmi")
"""Elements of links between accelerators: NVLink of NVIDIA, xGMI of AMD."""


@dataclass(frozen=True)
class Net:
    """A port of a NIC; `rate_bps` is 0 where the file leaves it to the machine."""

    name: str
    rate_bps: float
    port: int = 1
    dev: int = -1
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """Links of an accelerator.

    Attributes:
        tag: `nvlink` or `xgmi`.
        target: Bus address of the other one.
        count: How many.
    """

    tag: str
    target: str
    count: int
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """An accelerator; numbers are -1, and `arch` empty, where the file leaves them to the machine.

    Attributes:
        dev: Its number.
        sm: Of NVIDIA: compute capability without the dot; of AMD: of older files the same, of newer its units.
        arch: Of AMD: `gfx942`, or its number.
        links: What it is linked to.
    """

    dev: int = -1
    sm: int = -1
    arch: str = ""
    links: tuple[Link, ...] = ()
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pci:
    """A PCIe device or switch.

    Attributes:
        bus: Its address.
        kind: `bridge`, `accelerator`, `network` or `other`.
        gt_s: Transfers a second of a lane, 10^9; 0: not said.
        lanes: Of its link upwards; 0: not said.
        gpu: What it is, of an accelerator.
        nets: Ports, of a NIC.
        below: What is behind it.
    """

    bus: str
    kind: str
    gt_s: float
    lanes: int
    gpu: Gpu | None = None
    nets: tuple[Net, ...] = ()
    below: tuple[Pci, ...] = ()
    given: dict[str, str] = field(default_factory=dict)

    def walk(self) -> Iterator[Pci]:
        """It and all behind it."""
        yield self
        for one in self.below:
            yield from one.walk()


@dataclass(frozen=True)
class Numa:
    """A memory domain.

    Attributes:
        number: Of the domain.
        below: PCIe below it.
        nets: Ports of NICs of which no PCIe address is given.
    """

    number: int
    below: tuple[Pci, ...]
    nets: tuple[Net, ...] = ()
    given: dict[str, str] = field(default_factory=dict)

    def devices(self, kind: str) -> list[Pci]:
        """All of a kind."""
        return [one for top in self.below for one in top.walk() if one.kind == kind]


@dataclass(frozen=True)
class Machine:
    """A server.

    Attributes:
        numas: Its memory domains.
        version: Of the file's form.
    """

    numas: tuple[Numa, ...]
    version: str = "1"

    @property
    def accelerators(self) -> list[tuple[int, Pci]]:
        """Domain and device of each, in the order in which they are numbered."""
        listed = [(numa.number, one) for numa in self.numas for one in numa.devices("accelerator")]
        return sorted(listed, key=lambda pair: pair[1].gpu.dev if pair[1].gpu is not None else -1)

    @property
    def nics(self) -> list[tuple[int, Pci]]:
        """Domain and device of each NIC with an address."""
        return [(numa.number, one) for numa in self.numas for one in numa.devices("network")]


def parse(text: str, file: str) -> Machine:
    """A machine of the text of a topology file.

    Raises:
        InputError: It is no such file, or a value is none.
    """
    root = read(text, file, "system")
    return Machine(tuple(_numa(one, file) for one in root.all("cpu")), root.given.get("version", "1"))


def _numa(element: Element, file: str) -> Numa:
    below = tuple(_pci(one, file) for one in element.all("pci"))
    nets = tuple(_net(net, file) for nic in element.all("nic") for net in nic.all("net"))
    return Numa(_number(element, "numaid", file, -1), below, nets, element.given)


def _pci(element: Element, file: str) -> Pci:
    if not element.given.get("busid"):
        raise InputError("a PCIe device has no address", file=file, line=element.line, key="busid")
    gpu = next((_gpu(one, file) for one in element.all("gpu")), None)
    nets = tuple(_net(net, file) for nic in element.all("nic") for net in nic.all("net"))
    kind = _kind(element, gpu is not None, bool(nets))
    return Pci(
        element.given["busid"],
        kind,
        _speed(element, file),
        _number(element, "link_width", file, 0),
        gpu or (Gpu() if kind == "accelerator" else None),
        nets,
        tuple(_pci(one, file) for one in element.all("pci")),
        element.given,
    )


def _kind(element: Element, is_gpu: bool, is_nic: bool) -> str:
    given = element.given.get("class", "")
    if is_gpu or given.startswith(ACCELERATOR_CLASSES):
        return "accelerator"
    if is_nic or given.startswith(NETWORK_CLASSES):
        return "network"
    return "bridge" if given.startswith("0x0604") or next(element.all("pci"), None) else "other"


def _speed(element: Element, file: str) -> float:
    text = element.given.get("link_speed", "")
    if not text:
        return 0.0
    found = re.match(r"\s*(\d+(?:\.\d+)?)\s*GT/s", text)
    if found is None:
        if text.strip().lower() in ("unknown", "unknown speed"):
            return 0.0
        words = "a speed of PCIe is in GT/s"
        raise InputError(words, file=file, line=element.line, key="link_speed", found=text, allowed="32.0 GT/s PCIe")
    return float(found[1])


def _number(element: Element, key: str, file: str, otherwise: int) -> int:
    text = element.given.get(key, "")
    if not text:
        return otherwise
    try:
        return int(text, 0) if text.lower().startswith("0x") else int(text)
    except ValueError:
        raise InputError("expected a number", file=file, line=element.line, key=key, found=text) from None


def _gpu(element: Element, file: str) -> Gpu:
    links = tuple(
        Link(one.tag, one.given.get("target", ""), _number(one, "count", file, 1), one.given)
        for one in element.children
        if one.tag in LINKS
    )
    arch = element.given.get("gcn", element.given.get("arch", ""))
    return Gpu(_number(element, "dev", file, -1), _number(element, "sm", file, -1), arch, links, element.given)


def _net(element: Element, file: str) -> Net:
    rate = _number(element, "speed", file, 0) * 1e6
    port, dev = _number(element, "port", file, 1), _number(element, "dev", file, -1)
    return Net(element.given.get("name", ""), rate, port, dev, element.given)
