"""Converts a catalog server to a machine for NCCL, and back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.cluster.nccl.machine import Element, Gpu, NcclMachine, Net, Numa, Pci, read
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.catalog.types import Server


RING, BALANCED_TREE = 4, 1
"""Patterns by NCCL's numbers (graph.h)."""


@dataclass(frozen=True)
class Channel:
    """Accelerators in order, and the NICs of entry and exit; none inside a machine."""

    gpus: tuple[int, ...]
    nets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Channels of one pattern.

    Attributes:
        pattern: See `RING`.
    """

    number: int
    pattern: int
    channels: tuple[Channel, ...]
    given: dict[str, str] = field(default_factory=dict)


def parse(text: str, file: str) -> tuple[Graph, ...]:
    """The graphs of a file.

    Raises:
        InputError: It is not a graph file, or a number is invalid.
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
    """The element tree; its `text` is the file."""
    return Element("graphs", {"version": "1"}, [_graph(one) for one in graphs])


def _graph(graph: Graph) -> Element:
    given = {"id": str(graph.number), "pattern": str(graph.pattern), "nchannels": str(len(graph.channels))}
    channels = []
    for one in graph.channels:
        gpus = [Element("gpu", {"dev": str(dev)}) for dev in one.gpus]
        nets = [Element("net", {"dev": dev}) for dev in one.nets]
        channels.append(Element("channel", {}, [*nets[:1], *gpus, *nets[1:]]))
    return Element("graph", graph.given | given, channels)


def rails(machine: NcclMachine) -> tuple[Graph, ...]:
    """A ring and a tree per NIC: in at the NIC, to the nearest accelerator, through all others, and out again.

    For machines whose accelerators are equidistant, as behind a switch; each channel then has its own rail.
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


GT_S = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256, 128.0: 242 / 256}
"""Transfers a second of a lane of PCIe, 10^9, and the data bits of each: 8b/10b, 128b/130b, flits of 256 bytes of which
242 are packets (PCI Express 6.0)."""

LANES = 16

COMMONEST = {
    "70": "v100-sxm2-32gb", "80": "a100-sxm-80gb", "86": "a40", "89": "l40s", "90": "h100-sxm", "100": "b200-sxm",
    "103": "b300-sxm", "120": "rtx-pro-6000", "910": "mi250x", "gfx90a": "mi250x", "940": "mi300x",
    "gfx942": "mi300x", "gfx950": "mi350x",
}  # fmt: skip
"""The commonest accelerator of a compute capability (CUDA C++ Programming Guide) or of AMD's target (LLVM, AMDGPU
usage). RCCL's older files call gfx90a 910."""


def generation(bits: float) -> float:
    """The slowest PCIe generation whose sixteen lanes carry a rate, one way."""
    return next((gt_s for gt_s, share in GT_S.items() if gt_s * 1e9 * share * LANES >= bits * 0.98), 128.0)


def machine_of(server: Server, nic_bps: float, nics: int) -> NcclMachine:
    """A server of the catalog; bus addresses are generated in device order."""
    numas = []
    for number in range(server.numa_nodes):
        gpus = [gpu for gpu in range(server.accelerators) if _domain(server.accelerator_numa, gpu) == number]
        mine = [nic for nic in range(nics) if _domain(server.nic_numa, nic) == number]
        below = [_switch(server, gpu, mine[at :: len(gpus)], nic_bps) for at, gpu in enumerate(gpus)]
        if not gpus:
            below = [_nic(nic, nic_bps) for nic in mine]
        numas.append(Numa(number, tuple(below)))
    return NcclMachine(tuple(numas))


def _domain(domains: tuple[int, ...], number: int) -> int:
    return domains[number] if number < len(domains) else 0


def _switch(server: Server, gpu: int, nics: list[int], nic_bps: float) -> Pci:
    bus, speed = f"0000:{0x10 + 8 * gpu:02x}", generation(server.pcie_bps)
    device = Pci(f"{bus}:01.0", "accelerator", speed, LANES, Gpu(gpu))
    return Pci(f"{bus}:00.0", "bridge", speed, LANES, below=(device, *(_nic(nic, nic_bps) for nic in nics)))


def _nic(nic: int, nic_bps: float) -> Pci:
    net = Net(f"mlx5_{nic}", nic_bps, 1, nic)
    return Pci(f"0000:{0x90 + nic:02x}:00.0", "network", generation(nic_bps), LANES, nets=(net,))


def entry_of(machine: NcclMachine, catalog: Catalog, file: str, accelerator: str = "") -> dict[str, Any]:
    """A server for a catalog file: the machine's values over those of the nearest catalog entry.

    Args:
        machine: The machine.
        catalog: Catalog with the nearest entry.
        file: Name of the source.
        accelerator: Its name; empty: from the file's architecture.

    Raises:
        InputError: The machine has no accelerators, or their model is unknown.
    """
    gpus = machine.accelerators
    if not gpus:
        raise InputError("the machine has no accelerator", file=file, hint="RCCL and NCCL write it where they run")
    name = accelerator or _accelerator(machine, file)
    nics = _back_end(machine)
    near = _nearest(catalog, catalog.accelerator(name).name, (len(gpus), len(nics)), file)
    pcie = min((_bits(one) for _, one in gpus if one.lanes), default=near.pcie_bps)
    domains = {number: at for at, number in enumerate(sorted({numa.number for numa in machine.numas}))}
    entry: dict[str, Any] = {
        "extends": near.name,
        "summary": f"made of {file}",
        "accelerators": len(gpus),
        "scale_up_domain": len(gpus) if near.scale_up_domain <= near.accelerators else near.scale_up_domain,
        "pcie_bandwidth": f"{pcie / 8e9:.4g} GB/s",
        "numa_nodes": len(domains),
        "accelerator_numa": [domains[number] for number, _ in gpus],
    }
    if nics:
        rate = Counter(rate for _, rate in nics).most_common(1)[0][0]
        entry |= {"nics": len(nics), "nic_numa": [domains[number] for number, _ in nics]}
        entry |= {"nic": _nic_name(catalog, near, rate)} if rate else {}
    return entry


def _back_end(machine: NcclMachine) -> list[tuple[int, float]]:
    """Domain and rate of each NIC of the fastest kind; slower ones are for users and storage. 0 if unknown."""
    nics = [(domain, max((net.rate_bps for net in pci.nets), default=0.0)) for domain, pci in machine.nics]
    most = max((rate for _, rate in nics), default=0.0)
    return [(domain, rate) for domain, rate in nics if rate >= most / 2]


def _bits(pci: Pci) -> float:
    return pci.gt_s * 1e9 * GT_S.get(pci.gt_s, 128 / 130) * pci.lanes


def _accelerator(machine: NcclMachine, file: str) -> str:
    kinds = Counter(one.gpu.arch or str(one.gpu.sm) for _, one in machine.accelerators if one.gpu is not None)
    kind = kinds.most_common(1)[0][0]
    if kind not in COMMONEST:
        words = "which accelerators it has is not in the file" if kind == "-1" else "an architecture that is not known"
        raise InputError(words, file=file, found=kind, hint="give the catalogue's name by `--accelerator`")
    return COMMONEST[kind]


def _nearest(catalog: Catalog, accelerator: str, counts: tuple[int, int], file: str) -> Server:
    """The catalog's server with that accelerator, and if possible with as many of them and of NICs."""
    entries = [catalog.server(name) for name in catalog.names("servers")]
    alike = [one for one in entries if one.accelerator == accelerator]
    if not alike:
        raise InputError(
            "the catalogue has no server with that accelerator",
            file=file,
            found=accelerator,
            allowed=sorted({one.accelerator for one in entries}),
            hint=did_you_mean(accelerator, {one.accelerator for one in entries}),
        )
    return min(alike, key=lambda one: (abs(one.accelerators - counts[0]), abs(one.nics - counts[1]), one.name))


def _nic_name(catalog: Catalog, near: Server, rate: float) -> str:
    """The nearest server's NIC if it has that rate, otherwise the first in the catalog that has."""
    if abs(catalog.nic(near.nic).rate_bps / rate - 1) < 0.01:
        return near.nic
    alike = [name for name in catalog.names("nics") if abs(catalog.nic(name).rate_bps / rate - 1) < 0.01]
    return alike[0] if alike else near.nic
