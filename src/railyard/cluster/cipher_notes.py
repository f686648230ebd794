"""What to know of an encrypted network: what it loses, what bounds it, and what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.ciphering import nic_bps
from railyard.cluster.fabric.encryption import lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.cluster.plan import NetworkPlan

CONFIDENTIAL = (
    "confidential computing: only the way to the NICs is slower here. Kernels: 0.998 of the clear on B300 (measured,"
    " arXiv 2606.23969), taken as 1. NVLink: in the clear in Hopper's Protected PCIe mode; encrypted on Blackwell, at a"
    " price that nobody has published",
    "confidential computing: small copies of a serving engine cost 13 to 27 % of its throughput on B300 (arXiv"
    " 2606.23969), 0.9 to 7.5 % by NVIDIA's own figures, below 7 % on H100 (arXiv 2409.03992); they are not in these"
    " figures",
)
"""What was found of it, and is not modelled."""

_LONG_S = 86_400.0
"""Keys that last longer are not worth a word."""


def notes_of(plan: NetworkPlan) -> Iterator[str]:
    """Sentences on what encryption takes from a network, and on what is assumed of it."""
    encryption = plan.spec.encryption
    if plan.spec.host.gpudirect == "bounce" and plan.name == "back-end":
        yield from CONFIDENTIAL
    if encryption.protocol == "none":
        return
    where = f"{plan.name} network: "
    yield from (where + words for words in lost(plan.spec.fabric.resolve(), encryption))
    unknown = list(_unknown(plan))
    if unknown:
        yield f"{where}no rate of {encryption.protocol} is published for {', '.join(unknown)}: line rate is assumed"
    share = plan.ciphered.min()
    if share < 1:
        yield f"{where}{encryption.protocol} in switches bounds links at {share:.0%} of their rate while all are busy"
    unit = encryption.facts.unit_bytes + plan.fabric.header_bytes
    life = encryption.facts.key_life_s(plan.link_bps, unit)
    if life < _LONG_S:
        yield (
            f"{where}a key of {encryption.protocol} lasts at least {life:.3g} s at {plan.link_bps / 1e9:g} Gb/s;"
            " that changing it costs no time is assumed"
        )


def _unknown(plan: NetworkPlan) -> Iterator[str]:
    """Devices that encrypt, and of which no rate is known."""
    encryption = plan.spec.encryption
    if encryption.core_bps is not None:
        return
    if nic_bps(plan.nic, encryption) is None:
        yield plan.nic.name
    if encryption.facts.every_hop:
        yield from (name for name, box in plan.switches.items() if encryption.protocol not in box.encryption_bps)
