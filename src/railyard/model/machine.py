"""A cluster in plain numbers, for closed forms: how fast ranks talk inside a scale-up domain and outside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from railyard.collective.curves import Curves, Library
from railyard.model.columns import PoolRates, StorageRates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.catalog import Accelerator
    from railyard.cluster import Cluster
    from railyard.model.columns import F

# One step of a ring inside a scale-up switch, and a step over the network; launch and synchronisation of a collective:
# NCCL's own constants (Ring, Simple: 3.4 us NVLink, 14 us network, 8.4 us base; facts of NVIDIA/nccl 2.30 tuning
# tables).
SCALE_UP_STEP_S = 1.5e-6
SCALE_OUT_STEP_S = 7e-6
LAUNCH_S = 9e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Accelerators and their networks as closed forms see them. All rates are one way, per accelerator.

    Attributes:
        accelerator: Of every rank.
        scale_up_bps: What a collective library reaches inside the domain, bit/s.
        scale_up_domain: Accelerators of one domain.
        scale_up_peers: Of a full mesh, over how many links `scale_up_bps` is divided: a group of g has g - 1 of them to
            itself. 0 where a switch gives each pair the whole rate.
        scale_out_bps: Goodput of the NICs of one accelerator, bit/s.
        host_bps: Between an accelerator and its host, bit/s; endless where it is not known.
        nvls: Whether the scale-up switch reduces.
        scale_out_latency: What-if factor on the latency of a step from one domain to another.
        share: Of the scale-out rate left by other traffic and by what the fabric loses to collisions.
        storage: The storage system; None where there is none, or its time is left out.
        memory_pool: Memory beyond the accelerators' own; None where there is none.
        library: The collective library, as the engine `flow` has it; None: collectives by `alpha_beta`.
    """

    accelerator: Accelerator
    scale_up_bps: float
    scale_up_domain: int
    scale_out_bps: float
    host_bps: float = np.inf
    scale_up_peers: int = 0
    nvls: bool = False
    scale_out_latency: float = 1.0
    share: float = 1.0
    storage: StorageRates | None = None
    memory_pool: PoolRates | None = None
    library: Library | None = None

    @classmethod
    def of_device(cls, accelerator: Accelerator, scale_out_bps: float, domain: int | None = None) -> Machine:
        """Accelerators by themselves: with NICs of that rate, in domains of their own size or of `domain`."""
        return cls(
            accelerator=accelerator,
            scale_up_bps=accelerator.scale_up_collective_bps,
            scale_up_domain=domain or accelerator.scale_up_domain,
            scale_out_bps=scale_out_bps,
        )

    @classmethod
    def of(cls, cluster: Cluster) -> Machine:
        """The plain numbers of a cluster."""
        accelerator, server = cluster.accelerator, cluster.server
        network = cluster.spec.back_end
        link_bps = (network.link_rate_bps if network is not None else None) or cluster.nic.rate_bps
        usable = float(cluster.plans["back_end"].usable.min())
        return cls(
            accelerator=accelerator,
            scale_up_bps=accelerator.scale_up_collective_bps,
            scale_up_domain=cluster.scale_up_domain,
            scale_up_peers=cluster.scale_up.peers if cluster.scale_up.kind == "mesh" else 0,
            scale_out_bps=link_bps * usable * server.nics_per_accelerator * cluster.fabric.payload_efficiency,
            host_bps=server.pcie_bps,
            nvls=accelerator.nvls,
            scale_out_latency=cluster.scale_out_latency,
            share=cluster.fabric.congestion_efficiency,
            storage=StorageRates.of(cluster),
            memory_pool=PoolRates.of(cluster),
        )


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """How many times longer the bytes of each class of communicators take than each with the network to itself.

    Attributes:
        inside: By class (`tp`, `cp`, `ep`, `pp`, `dp`, `edp`, `replica`), on scale-up links.
        outside: By class, on NICs and the network.
        aggregated: By class, the same of what aggregated trees (PAT) move.
    """

    inside: Mapping[str, F]
    outside: Mapping[str, F]
    aggregated: Mapping[str, F]


@dataclass(frozen=True, slots=True)
class MachineColumns:
    """Machines of many designs, in bytes/s; `slowed` where communications share links with others.

    `curves` are those of their libraries, where all have one, `longer` how many times longer the bytes of one class of
    communicators take, on scale-up links, on NICs, and there of aggregated trees. `crossing` is a factor on the latency
    of a step from one domain to another.
    """

    up_bytes_s: F
    out_bytes_s: F
    domain: F
    peers: F
    nvls: F
    crossing: F
    host_bytes_s: F
    slowed: Slowdowns | None = None
    curves: Curves | None = None
    longer: tuple[F, F, F] | None = None

    @classmethod
    def of(cls, machines: Sequence[Machine], slowed: Slowdowns | None = None) -> MachineColumns:
        """Columns of many machines."""
        rows = np.array(
            [
                (
                    *(m.scale_up_bps / 8.0, m.scale_out_bps / 8.0 * m.share),
                    *(m.scale_up_domain, m.scale_up_peers, m.nvls, m.scale_out_latency, m.host_bps / 8.0),
                )
                for m in machines
            ],
            dtype=np.float64,
        ).reshape(len(machines), 7)
        up, out, domain, peers, nvls, crossing, host = (np.ascontiguousarray(rows[:, column]) for column in range(7))
        libraries = [m.library for m in machines if m.library is not None]
        curves = Curves.of(libraries) if len(libraries) == len(machines) else None
        return cls(up, out, domain, peers, nvls, crossing, host, slowed, curves)

    def seen_by(self, name: str) -> MachineColumns:
        """The machines as a class of communicators finds them."""
        if self.slowed is None:
            return self
        longer = (self.slowed.inside[name], self.slowed.outside[name], self.slowed.aggregated[name])
        up, out = self.up_bytes_s / longer[0], self.out_bytes_s / longer[1]
        return replace(self, up_bytes_s=up, out_bytes_s=out, slowed=None, longer=longer)

    def inside_bytes_s(self, local: F) -> F:
        """Scale-up rate of a rank to `local - 1` others of its domain; inf where there are none, so that nothing waits.

        In a full mesh only the links to those others, and no others take their place.
        """
        links = np.clip(local - 1.0, 1.0, np.maximum(self.peers, 1.0))
        rate = self.up_bytes_s * np.where(self.peers > 0, links / np.maximum(self.peers, 1.0), 1.0)
        return np.where(local > 1, rate, np.inf)
