"""A server as NCCL's topology file describes it: processors, PCIe, accelerators, links between them, NICs.

`given` of each part has its attributes as in the file, so that those without a field here are written back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


DEEPEST = 64
"""Maximum nesting depth; NCCL's parser allows less."""


@dataclass
class Element:
    """An element.

    Attributes:
        given: Attributes in file order.
        line: First line; 0: not read from a file.
    """

    tag: str
    given: dict[str, str] = field(default_factory=dict)
    children: list[Element] = field(default_factory=list)
    line: int = 0

    def all(self, tag: str) -> Iterator[Element]:
        """Children of a kind."""
        return (child for child in self.children if child.tag == tag)

    def same(self, other: Element) -> bool:
        """Whether two elements are equal, ignoring attribute order and whitespace between elements."""
        if self.tag != other.tag or self.given != other.given or len(self.children) != len(other.children):
            return False
        return all(one.same(two) for one, two in zip(self.children, other.children, strict=True))

    def text(self, indent: str = "") -> str:
        """The element in NCCL's format."""
        words = " ".join([self.tag, *(f"{name}={quoteattr(value)}" for name, value in self.given.items())])
        if not self.children:
            return f"{indent}<{words}/>\n"
        inside = "".join(child.text(indent + "  ") for child in self.children)
        return f"{indent}<{words}>\n{inside}{indent}</{self.tag}>\n"


def read(text: str, file: str, root: str) -> Element:
    """The element tree of a file.

    Raises:
        InputError: It is not XML, declares entities, or has another root.
    """
    top: list[Element] = []
    open_: list[Element] = []
    parser = expat.ParserCreate()

    def begin(tag: str, given: dict[str, str]) -> None:
        if len(open_) >= DEEPEST:
            raise InputError("elements are nested too deep", file=file, line=parser.CurrentLineNumber)
        element = Element(tag, dict(given), [], parser.CurrentLineNumber)
        (open_[-1].children if open_ else top).append(element)
        open_.append(element)

    def declared(*_: object) -> None:
        raise InputError("a file of NCCL declares no document type", file=file, line=parser.CurrentLineNumber)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: open_.pop()
    parser.StartDoctypeDeclHandler = declared
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        words = expat.errors.messages[error.code]
        raise InputError(f"the file is not XML: {words}", file=file, line=error.lineno) from None
    if top[0].tag != root:
        raise InputError("another file of XML", file=file, line=top[0].line, found=top[0].tag, allowed=root)
    return top[0]


PCI_CLASS = {"bridge": "0x060400", "accelerator": "0x030200", "network": "0x020700"}
"""Default classes of devices without one in a file."""


def write(machine: NcclMachine) -> Element:
    """The element tree; its `text` is the file."""
    return Element("system", {"version": machine.version}, [_write_numa(one) for one in machine.numas])


def _write_numa(numa: Numa) -> Element:
    given = {"numaid": str(numa.number)} if numa.number >= 0 else {}
    return Element("cpu", _merged(numa.given, given), [*map(_write_pci, numa.below), *_nics(numa.nets)])


def _write_pci(pci: Pci) -> Element:
    given = {"busid": pci.bus}
    if pci.kind in PCI_CLASS and not pci.given:
        given["class"] = PCI_CLASS[pci.kind]
    if pci.gt_s:
        given["link_speed"] = f"{pci.gt_s:.1f} GT/s PCIe"
    if pci.lanes:
        given["link_width"] = str(pci.lanes)
    gpu = [] if pci.gpu is None or pci.gpu == type(pci.gpu)() else [_write_gpu(pci.gpu)]
    return Element("pci", _merged(pci.given, given), [*gpu, *_nics(pci.nets), *map(_write_pci, pci.below)])


def _nics(nets: tuple[Net, ...]) -> list[Element]:
    return [Element("nic", {}, [_write_net(one) for one in nets])] if nets else []


def _write_net(net: Net) -> Element:
    given = {"name": net.name} if net.name else {}
    given |= {"dev": str(net.dev)} if net.dev >= 0 else {}
    given |= {"speed": f"{net.rate_bps / 1e6:.0f}"} if net.rate_bps else {}
    return Element("net", _merged(net.given, given | {"port": str(net.port)}))


def _write_gpu(gpu: Gpu) -> Element:
    given = {"dev": str(gpu.dev)} if gpu.dev >= 0 else {}
    given |= {"sm": str(gpu.sm)} if gpu.sm >= 0 else {}
    if gpu.arch and not gpu.given:
        given["gcn"] = gpu.arch
    links = [Element(one.tag, _merged(one.given, {"target": one.target, "count": str(one.count)})) for one in gpu.links]
    return Element("gpu", _merged(gpu.given, given), links)


def _merged(given: dict[str, str], meant: dict[str, str]) -> dict[str, str]:
    """The file's attributes, as long as they still have the intended meaning."""
    return {name: _kept(given[name], meant[name]) if name in meant else given[name] for name in given} | {
        name: value for name, value in meant.items() if name not in given and not given
    }


def _kept(before: str, now: str) -> str:
    """The file's spelling of the same number: `16 GT/s` and `16.0 GT/s PCIe`."""
    return before if _figure(before) == _figure(now) else now


def _figure(text: str) -> float | str:
    try:
        word = text.split(maxsplit=1)[0] if text.split() else ""
        return float(int(word, 0)) if word.lower().startswith("0x") else float(word)
    except ValueError:
        return text


ACCELERATOR_CLASSES = ("0x0300", "0x0302", "0x1200")
"""PCI classes of display controllers, 3D controllers and processing accelerators."""

NETWORK_CLASSES = ("0x0200", "0x0207")
"""PCI classes of Ethernet and InfiniBand controllers."""

LINKS = ("nvlink", "xgmi")
"""Elements of links between accelerators: NVLink of NVIDIA, xGMI of AMD."""


@dataclass(frozen=True)
class Net:
    """A NIC port; `rate_bps` is 0 if the file leaves it to the machine."""

    name: str
    rate_bps: float
    port: int = 1
    dev: int = -1
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NcclLink:
    """Links of an accelerator.

    Attributes:
        tag: `nvlink` or `xgmi`.
    """

    tag: str
    target: str
    count: int
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gpu:
    """An accelerator; numbers are -1 and `arch` is empty if the file leaves them to the machine.

    Attributes:
        sm: NVIDIA: compute capability without the dot; AMD: the same in older files, number of units in newer ones.
        arch: AMD: `gfx942`, or its number.
    """

    dev: int = -1
    sm: int = -1
    arch: str = ""
    links: tuple[NcclLink, ...] = ()
    given: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pci:
    """A PCIe device or switch.

    Attributes:
        kind: `bridge`, `accelerator`, `network` or `other`.
        gt_s: Transfers per second and lane, 10^9; 0: unknown.
        lanes: Lanes of its uplink; 0: unknown.
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
        """The device and everything below it."""
        yield self
        for one in self.below:
            yield from one.walk()


@dataclass(frozen=True)
class Numa:
    """A memory domain.

    Attributes:
        nets: NIC ports without a PCIe address.
    """

    number: int
    below: tuple[Pci, ...]
    nets: tuple[Net, ...] = ()
    given: dict[str, str] = field(default_factory=dict)

    def devices(self, kind: str) -> list[Pci]:
        """All devices of a kind."""
        return [one for top in self.below for one in top.walk() if one.kind == kind]


@dataclass(frozen=True)
class NcclMachine:
    """A server."""

    numas: tuple[Numa, ...]
    version: str = "1"

    @property
    def accelerators(self) -> list[tuple[int, Pci]]:
        """Domain and device of each accelerator, in numbering order."""
        listed = [(numa.number, one) for numa in self.numas for one in numa.devices("accelerator")]
        return sorted(listed, key=lambda pair: pair[1].gpu.dev if pair[1].gpu is not None else -1)

    @property
    def nics(self) -> list[tuple[int, Pci]]:
        """Domain and device of each NIC with an address."""
        return [(numa.number, one) for numa in self.numas for one in numa.devices("network")]


def parse(text: str, file: str) -> NcclMachine:
    """A machine from the text of a topology file.

    Raises:
        InputError: It is not a topology file, or a value is invalid.
    """
    root = read(text, file, "system")
    return NcclMachine(tuple(_numa(one, file) for one in root.all("cpu")), root.given.get("version", "1"))


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
        NcclLink(one.tag, one.given.get("target", ""), _number(one, "count", file, 1), one.given)
        for one in element.children
        if one.tag in LINKS
    )
    arch = element.given.get("gcn", element.given.get("arch", ""))
    return Gpu(_number(element, "dev", file, -1), _number(element, "sm", file, -1), arch, links, element.given)


def _net(element: Element, file: str) -> Net:
    rate = _number(element, "speed", file, 0) * 1e6
    port, dev = _number(element, "port", file, 1), _number(element, "dev", file, -1)
    return Net(element.given.get("name", ""), rate, port, dev, element.given)
