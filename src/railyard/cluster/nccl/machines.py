"""The machine of a catalogue's server, and the server of a machine."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from railyard.cluster.nccl.machine import Gpu, Machine, Net, Numa, Pci
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from railyard.catalog import Catalog
    from railyard.catalog.types import Server

GT_S = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 242 / 256, 128.0: 242 / 256}
"""Transfers a second of a lane of PCIe, 10^9, and the data bits of each: 8b/10b, 128b/130b, flits of 256 bytes of which
242 are packets (PCI Express 6.0)."""

LANES = 16

ARCHITECTURES = {
    "70": ("v100-sxm2-32gb",),
    "80": ("a100-sxm-80gb", "a100-pcie-80gb"),
    "86": ("a40",),
    "89": ("l40s", "rtx-4090"),
    "90": ("h100-sxm", "h200-sxm", "h100-pcie", "gh200-96gb"),
    "100": ("b200-sxm", "gb200"),
    "103": ("b300-sxm", "gb300"),
    "120": ("rtx-pro-6000",),
    "910": ("mi250x",),
    "gfx90a": ("mi250x",),
    "940": ("mi300x",),
    "gfx942": ("mi300x", "mi325x"),
    "gfx950": ("mi350x", "mi355x"),
}
"""Catalogue names by compute capability (CUDA C++ Programming Guide) or by AMD's target (LLVM, AMDGPU usage); several
accelerators share one, the commonest comes first. RCCL's older files count gfx90a as 910."""


def generation(bits: float) -> float:
    """The slowest PCIe whose sixteen lanes carry a rate, one way."""
    return next((gt_s for gt_s, share in GT_S.items() if gt_s * 1e9 * share * LANES >= bits * 0.98), 128.0)


def machine_of(server: Server, nic_bps: float, nics: int) -> Machine:
    """A server of the catalogue; bus addresses are made up in the order of the devices.

    Args:
        server: The entry.
        nic_bps: Of a NIC on the back-end network.
        nics: How many there are.
    """
    numas = []
    for number in range(server.numa_nodes):
        gpus = [gpu for gpu in range(server.accelerators) if _domain(server.accelerator_numa, gpu) == number]
        mine = [nic for nic in range(nics) if _domain(server.nic_numa, nic) == number]
        below = [_switch(server, gpu, mine[at :: len(gpus)], nic_bps) for at, gpu in enumerate(gpus)]
        if not gpus:
            below = [_nic(nic, nic_bps) for nic in mine]
        numas.append(Numa(number, tuple(below)))
    return Machine(tuple(numas))


def _domain(domains: tuple[int, ...], number: int) -> int:
    return domains[number] if number < len(domains) else 0


def _switch(server: Server, gpu: int, nics: list[int], nic_bps: float) -> Pci:
    """A PCIe switch with an accelerator and the NICs next to it."""
    bus, speed = f"0000:{0x10 + 8 * gpu:02x}", generation(server.pcie_bps)
    device = Pci(f"{bus}:01.0", "accelerator", speed, LANES, Gpu(gpu))
    return Pci(f"{bus}:00.0", "bridge", speed, LANES, below=(device, *(_nic(nic, nic_bps) for nic in nics)))


def _nic(nic: int, nic_bps: float) -> Pci:
    net = Net(f"mlx5_{nic}", nic_bps, 1, nic)
    return Pci(f"0000:{0x90 + nic:02x}:00.0", "network", generation(nic_bps), LANES, nets=(net,))


def entry_of(machine: Machine, catalog: Catalog, file: str, accelerator: str = "") -> dict[str, Any]:
    """A server for a catalogue file: what the machine says over the nearest entry of the catalogue.

    Args:
        machine: The machine.
        catalog: Where the nearest entry is looked for.
        file: What is named as the source.
        accelerator: Its name; empty: by the file's architecture.

    Raises:
        InputError: The machine has no accelerators, or which ones it has is not known.
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


def _back_end(machine: Machine) -> list[tuple[int, float]]:
    """Domain and rate of each NIC of the fastest kind: slower ones are for users and storage; 0 where not said."""
    nics = [(domain, max((net.rate_bps for net in pci.nets), default=0.0)) for domain, pci in machine.nics]
    most = max((rate for _, rate in nics), default=0.0)
    return [(domain, rate) for domain, rate in nics if rate >= most / 2]


def _bits(pci: Pci) -> float:
    return pci.gt_s * 1e9 * GT_S.get(pci.gt_s, 128 / 130) * pci.lanes


def _accelerator(machine: Machine, file: str) -> str:
    kinds = Counter(one.gpu.arch or str(one.gpu.sm) for _, one in machine.accelerators if one.gpu is not None)
    kind = kinds.most_common(1)[0][0]
    if kind not in ARCHITECTURES:
        words = "which accelerators it has is not in the file" if kind == "-1" else "an architecture that is not known"
        raise InputError(words, file=file, found=kind, hint="give the catalogue's name by `--accelerator`")
    return ARCHITECTURES[kind][0]


def _nearest(catalog: Catalog, accelerator: str, counts: tuple[int, int], file: str) -> Server:
    """The catalogue's server with that accelerator, and as many of them and of NICs where there is one."""
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
    """The nearest server's NIC where it has that rate, else the catalogue's first that has."""
    if abs(catalog.nic(near.nic).rate_bps / rate - 1) < 0.01:
        return near.nic
    alike = [name for name in catalog.names("nics") if abs(catalog.nic(name).rate_bps / rate - 1) < 0.01]
    return alike[0] if alike else near.nic
