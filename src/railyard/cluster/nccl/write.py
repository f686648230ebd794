"""A machine as NCCL's topology file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.nccl.tree import Element

if TYPE_CHECKING:
    from railyard.cluster.nccl.machine import Gpu, Machine, Net, Numa, Pci

PCI_CLASS = {"bridge": "0x060400", "accelerator": "0x030200", "network": "0x020700"}
"""Of what has no class of its own in a file."""


def write(machine: Machine) -> Element:
    """The tree; its `text` is the file."""
    return Element("system", {"version": machine.version}, [_numa(one) for one in machine.numas])


def _numa(numa: Numa) -> Element:
    given = {"numaid": str(numa.number)} if numa.number >= 0 else {}
    return Element("cpu", _merged(numa.given, given), [*map(_pci, numa.below), *_nics(numa.nets)])


def _pci(pci: Pci) -> Element:
    given = {"busid": pci.bus}
    if pci.kind in PCI_CLASS and not pci.given:
        given["class"] = PCI_CLASS[pci.kind]
    if pci.gt_s:
        given["link_speed"] = f"{pci.gt_s:.1f} GT/s PCIe"
    if pci.lanes:
        given["link_width"] = str(pci.lanes)
    gpu = [] if pci.gpu is None or pci.gpu == type(pci.gpu)() else [_gpu(pci.gpu)]
    return Element("pci", _merged(pci.given, given), [*gpu, *_nics(pci.nets), *map(_pci, pci.below)])


def _nics(nets: tuple[Net, ...]) -> list[Element]:
    return [Element("nic", {}, [_net(one) for one in nets])] if nets else []


def _net(net: Net) -> Element:
    given = {"name": net.name} if net.name else {}
    given |= {"dev": str(net.dev)} if net.dev >= 0 else {}
    given |= {"speed": f"{net.rate_bps / 1e6:.0f}"} if net.rate_bps else {}
    return Element("net", _merged(net.given, given | {"port": str(net.port)}))


def _gpu(gpu: Gpu) -> Element:
    given = {"dev": str(gpu.dev)} if gpu.dev >= 0 else {}
    given |= {"sm": str(gpu.sm)} if gpu.sm >= 0 else {}
    if gpu.arch and not gpu.given:
        given["gcn"] = gpu.arch
    links = [Element(one.tag, _merged(one.given, {"target": one.target, "count": str(one.count)})) for one in gpu.links]
    return Element("gpu", _merged(gpu.given, given), links)


def _merged(given: dict[str, str], meant: dict[str, str]) -> dict[str, str]:
    """Attributes as the file had them, where they still say what is meant."""
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
