"""The machine of a row, in the plain numbers of closed forms: device, scale-up domain, NIC rate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError
from railyard.model.machine import Machine

if TYPE_CHECKING:
    from railyard.catalog import Accelerator, Catalog
    from railyard_validation.training.table import Row

# What collectives reach of a NIC's line rate over InfiniBand or a healthy RoCE fabric (NCCL logs: 45 to 48 of 50 GB/s).
_NIC_FRACTION = 0.92
# Rate of one accelerator's NIC where the table does not state it, by architecture: that of the vendor's own systems.
_NIC_GBPS = {
    "volta": 100,
    "ampere": 200,
    "hopper": 400,
    "blackwell": 400,
    "cdna3": 400,
    "cdna4": 400,
    "gaudi2": 300,
    "tpu": 400,
}


def device_of(row: Row, catalog: Catalog) -> Accelerator:
    """The accelerator of a row.

    Raises:
        InputError: The catalogue does not know it; says the nearest name.
    """
    name = row.get("gpu")
    problem: InputError | None = None
    for candidate in _spellings(name):
        try:
            return catalog.accelerator(candidate)
        except InputError as error:
            problem = problem or error
    raise problem or InputError("the accelerator is unknown", key="gpu")


def _spellings(name: str) -> tuple[str, ...]:
    """The name as it stands, then without what tables add: remarks, the maker, memory, the form of the socket."""
    bare = re.sub(r"\s*\(.*\)$", "", name)
    short = re.sub(r"(?i)^(nvidia|amd|intel|google|aws)[\s_-]+", "", bare)
    unsized = re.sub(r"(?i)[\s_-]*\d+\s*gi?b\b(?:[\s_-]*hbm\d?e?)?", "", short)
    socket = re.sub(r"(?i)[\s_-]*(?:sxm\d?|oam|hgx|dgx)\b", "", unsized)
    return tuple(dict.fromkeys((name, bare, short, unsized, socket, f"{unsized} 80GB")))


def machine_of(row: Row, device: Accelerator, defaults: list[str]) -> Machine:
    """The machine of a row.

    Args:
        row: Its columns `gpus_per_node`, `scale_up` and `scale_out` are read.
        device: Its accelerator.
        defaults: Receives a line for each fact that had to be assumed.
    """
    per_node = row.integers.get("gpus_per_node", 8)
    domain = re.search(r"domain (\d+)", row.get("scale_up"))
    ranks = (
        int(domain.group(1)) if domain else max(per_node, device.scale_up_domain if device.scale_up_domain > 8 else 1)
    )
    usual = float(next((rate for family, rate in _NIC_GBPS.items() if device.architecture.startswith(family)), 400))
    gbps = _nic_gbps(row.get("scale_out"), per_node)
    # Gaudi's network ports are on the accelerator; tables name the hosts' own NICs, which carry none of its traffic.
    if gbps is None or device.architecture.startswith("gaudi"):
        gbps = usual
        if row.integers["n_gpu"] > ranks:
            defaults.append(f"network {gbps:.0f} Gb/s per accelerator")
    return Machine(
        accelerator=device,
        scale_up_bps=device.scale_up_collective_bps,
        scale_up_domain=ranks,
        scale_up_peers=device.scale_up_domain - 1 if device.scale_up_kind == "mesh" else 0,
        scale_out_bps=gbps * 1e9 * _NIC_FRACTION,
        nvls=device.nvls,
    )


def _nic_gbps(text: str, per_node: int) -> float | None:
    """Gb/s of one accelerator's share of the node's fastest network, or None where the text does not say."""
    whole = re.search(r"(\d+)\s*Gb(?:ps|/s)\s*(?:/|per )node", text)
    if whole:
        return float(whole.group(1)) / per_node
    each = re.search(r"(\d+)\s*G\s+(?:RDMA|RoCE) per GPU", text)
    if each:
        return float(each.group(1))
    # "8x NDR400", "8x400G", "4x ConnectX-7 IB NDR 400Gb/s": a count of NICs, then the rate of each, the last number of
    # the part.
    parts = [re.search(r"(\d+)\s*x(?:\b.*\D)?(\d{3})\s*(?:G|IB|$|\b)", part) for part in re.split(r"[,;+]", text)]
    totals = [int(found.group(1)) * float(found.group(2)) for found in parts if found]
    return max(totals) / per_node if totals else None
