"""What devices encrypt of a network: bounds of NICs and switches, and what to know of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.fabric.encryption import lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from railyard.catalog import Nic, Switch
    from railyard.cluster.host_path import HostPath
    from railyard.cluster.plan import NetworkPlan
    from railyard.cluster.topology.wiring import Wiring
    from railyard.fabric.encryption import Encryption

_LONG_S = 86_400.0
"""Keys that last longer are not worth a word."""


def nic_bps(nic: Nic, encryption: Encryption) -> float | None:
    """What a NIC encrypts, one way: as given, else as published; None where nothing is known or cores do it."""
    return nic.encryption_bps.get(encryption.protocol) if encryption.rate_bps is None else encryption.rate_bps


def bounded(host: HostPath, nic: Nic, encryption: Encryption) -> HostPath:
    """The path of NICs that move no more than they encrypt."""
    most = nic_bps(nic, encryption)
    if most is None or most >= host.rate_bps.max():
        return host
    remark = (
        f"{encryption.protocol} in {nic.name} bounds a NIC at {most / 1e9:.0f} of {host.rate_bps.max() / 1e9:.0f} Gb/s"
    )
    return replace(host, rate_bps=np.minimum(host.rate_bps, most), remarks=(*host.remarks, remark))


def switch_share(wiring: Wiring, switches: dict[str, Switch], encryption: Encryption) -> NDArray[np.float64]:
    """float64[nodes], share of the rate of its links that a switch encrypts while all of them are busy; 1 elsewhere."""
    share = np.ones(wiring.nodes)
    if encryption.protocol == "none" or not encryption.facts.every_hop:
        return share
    line = np.bincount(wiring.source, weights=wiring.line_bps, minlength=wiring.nodes)
    for group in wiring.groups:
        most = switches[group.box].encryption_bps.get(encryption.protocol)
        if most is not None:
            span = slice(group.first, group.first + group.count)
            share[span] = np.minimum(1.0, most / np.maximum(line[span], 1.0))
    return share


def notes_of(plan: NetworkPlan) -> Iterator[str]:
    """Sentences on what encryption takes from a network, and on what is assumed of it."""
    encryption = plan.spec.encryption
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
