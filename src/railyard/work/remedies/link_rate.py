"""Links at the NIC's own rate, or the next faster NIC that the host's PCIe can feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Nic
    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared

_WORTH = 0.005


def propose(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """One step up, where the network costs time."""
    if waits.network < _WORTH:
        return
    cluster, link_bps = job.cluster, job.cluster.plans["back_end"].link_bps
    if link_bps < cluster.nic.rate_bps:
        rate = f"{cluster.nic.rate_bps / 1e9:g} Gb/s"
        yield Remedy(f"links at {rate}", "link rate", "exposed communication", {"cluster.back_end.link_rate": rate})
        return
    faster = _next_nic(job)
    if faster is not None:
        changes = {"cluster.overrides.server.nic": faster.name, "cluster.back_end.link_rate": None}
        rate = f"{faster.rate_bps / 1e9:g} Gb/s"
        yield Remedy(f"NIC {faster.name} ({rate})", "link rate", "exposed communication", changes)


def _next_nic(job: Prepared) -> Nic | None:
    """The slowest NIC of the same maker and faster link that the server's PCIe can feed."""
    cluster = job.cluster
    here, most_bps = cluster.nic, cluster.server.pcie_bps * cluster.server.accelerators / cluster.server.nics
    known = map(job.catalog.nic, job.catalog.names("nics"))
    found = [nic for nic in known if nic.vendor == here.vendor and here.rate_bps < nic.rate_bps <= most_bps]
    return min(found, key=lambda nic: (nic.rate_bps, nic.ports, nic.name), default=None)


proposals.add("link rate", Proposals("link rate", propose, in_run=True))
