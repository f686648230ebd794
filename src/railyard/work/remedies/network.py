"""Other networks: fabric, queue pairs, oversubscription, link rate, collective algorithms, rank placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.fabric.fabric import bought, fabrics
from railyard.cluster.placement import policies
from railyard.work.remedies import Proposals, Remedy, proposals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railyard.catalog import Nic
    from railyard.work.remedies import Waits
    from railyard.work.training.prepare import Prepared


_BOUND = "ideal"
# Share of the step that waits for the network below which no other fabric is tried.
_WORTH = 0.005


def propose_fabric(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """The bound, then fabrics on the market that spray packets over all links, then in-network reduction."""
    fabric = job.cluster.fabric
    if waits.network < _WORTH or fabric.name == _BOUND:
        return
    spreading = (name for name in bought() if name != _BOUND and fabrics.get(name).bundled)
    for name in (_BOUND, *spreading):
        if name != fabric.name:
            bound = name == _BOUND
            note = "a bound: no such fabric is sold" if bound else ""
            other = {"cluster.back_end.fabric": {"name": name}}
            yield Remedy(f"fabric {name}", "fabric", "exposed communication", other, note, bound)
    if fabric.name == "infiniband" and not fabric.sharp:
        changes = {"cluster.back_end.fabric.sharp": True}
        yield Remedy(
            "SHARP", "collectives", "exposed communication", changes, "its Quantum switches have SHARP licensed"
        )


proposals.enter(Proposals("fabric", propose_fabric, in_run=True, bounded=True))


_COUNTS = (4, 16)


def propose_queue_pairs(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """More queue pairs than the fabric's default."""
    fabric = job.cluster.fabric
    if waits.network < _WORTH or not (fabric.hashed and fabric.tells_queue_pairs_apart):
        return
    for count in _COUNTS:
        if count > fabric.qps:
            changes = {"cluster.back_end.fabric.qps": count}
            yield Remedy(f"{count} queue pairs", "queue pairs", "exposed communication", changes)


proposals.enter(Proposals("queue pairs", propose_queue_pairs, in_run=True, bounded=True))


_KEY = "cluster.back_end.topology.oversubscription"
# No back-end is built beyond this: Meta's RoCE fabrics stop at 7:1 between pods (Llama 3 Herd of Models, 3.3.1).
_MOST = 8.0


def propose_oversubscription(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """One other ratio between leafs and spines, if the topology has one."""
    ratio: float | None = getattr(job.cluster.spec.back_end.topology, "oversubscription", None)
    if ratio is None or not any(tier.kind == "fabric" for tier in job.cluster.back_end.tiers):
        return
    if waits.network >= _WORTH and ratio > 1.0:
        yield _remedy(max(ratio / 2, 1.0), "exposed communication")
    elif waits.network < _WORTH and 2 * ratio <= _MOST:
        yield _remedy(2 * ratio, "capital")


def _remedy(ratio: float, removes: str) -> Remedy:
    written = f"{ratio:g}:1"
    return Remedy(f"oversubscription {written}", "oversubscription", removes, {_KEY: written})


proposals.enter(Proposals("oversubscription", propose_oversubscription, in_run=True))


def propose_link_rate(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """The next faster link rate, if the network costs time."""
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
    """The slowest NIC of the same vendor with a faster link that the server's PCIe can feed."""
    cluster = job.cluster
    here, most_bps = cluster.nic, cluster.server.pcie_bps * cluster.server.accelerators / cluster.server.nics
    known = map(job.catalog.nic, job.catalog.names("nics"))
    found = [nic for nic in known if nic.vendor == here.vendor and here.rate_bps < nic.rate_bps <= most_bps]
    return min(found, key=lambda nic: (nic.rate_bps, nic.ports, nic.name), default=None)


proposals.enter(Proposals("link rate", propose_link_rate, in_run=True))


def propose_collectives(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """A tuner that picks the algorithm and protocol with the shortest predicted time."""
    if job.variant.draft.scenario.collectives.selector == "best" or waits.network < _WORTH:
        return
    note = "a tuner plugin, or `NCCL_ALGO` and `NCCL_PROTO`, chooses them by size"
    yield Remedy("fastest collectives", "collectives", "exposed communication", {"collectives.selector": "best"}, note)


proposals.enter(Proposals("collectives", propose_collectives, in_run=True))


def propose_placement(job: Prepared, waits: Waits) -> Iterator[Remedy]:
    """Every policy that keeps neighboring ranks in one domain and is not random."""
    here = job.variant.draft.scenario.cluster.placement
    if waits.network < _WORTH:
        return
    for name, policy in policies.items():
        if name != here and policy.keeps_domains and not policy.seeded:
            changes = {"cluster.placement": name}
            yield Remedy(f"placement {name}", "placement", "exposed communication", changes)


proposals.enter(Proposals("placement", propose_placement, in_run=True))
