"""What devices encrypt of a network: bounds of NICs and switches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Nic, Switch
    from railyard.cluster.fabric.encryption import Encryption
    from railyard.cluster.host_path import HostPath
    from railyard.cluster.topology.wiring import Wiring


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
