"""The path between an accelerator's memory and a NIC's port: PCIe, host memory, the socket link, the kernel's TCP.

Every bound is a share of something that all NICs of a server use at the same time, as collectives do, each sending and
receiving at the same rate; a single NIC may be faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.catalog import Nic, Server, Switch
    from railyard.cluster.fabric.encryption import Encryption
    from railyard.cluster.topology.wiring import Wiring


def nic_bps(nic: Nic, encryption: Encryption) -> float | None:
    """Encryption rate of a NIC, one way: as given, otherwise as published; None if unknown or if cores encrypt."""
    return nic.encryption_bps.get(encryption.protocol) if encryption.rate_bps is None else encryption.rate_bps


def bounded(host: HostPath, nic: Nic, encryption: Encryption) -> HostPath:
    """The path of NICs, limited to the rate at which they encrypt."""
    most = nic_bps(nic, encryption)
    if most is None or most >= host.rate_bps.max():
        return host
    remark = (
        f"{encryption.protocol} in {nic.name} bounds a NIC at {most / 1e9:.0f} of {host.rate_bps.max() / 1e9:.0f} Gb/s"
    )
    return replace(host, rate_bps=np.minimum(host.rate_bps, most), remarks=(*host.remarks, remark))


def switch_share(wiring: Wiring, switches: dict[str, Switch], encryption: Encryption) -> NDArray[np.float64]:
    """float64[nodes], share of its link rates that a switch can encrypt while all are busy; 1 elsewhere."""
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


GpuDirect = Literal["auto", "on", "off", "bounce"]
Transport = Literal["rdma", "tcp"]

STAGING_PS = 2_000_000
"""Extra latency through host memory, per host: a PCIe write that must be visible before the NIC reads it. A stated
default: two PCIe round trips of 0.9 us (Neugebauer et al., SIGCOMM 2018, median of small reads under load).
"""
SOCKET_PS = 300_000
"""Extra latency over the socket link, per host: remote memory is 60 to 130 ns further away, and a transfer with its
completion crosses the link two to three times. A stated default.
"""
TCP_PS = 5_000_000
"""The kernel's TCP, each host, beyond RDMA. A stated default: netperf's TCP_RR takes 25 to 30 us there and back where
RDMA takes 5."""
TCP_CORE_BPS = 42e9
"""Rate at which a core receives through the kernel's TCP with all offloads and 9,000-byte packets, bound by copies (Cai
et al., Understanding Host Network Stack Overheads, SIGCOMM 2021).
"""
PEER_SOCKET_BPS = 176e9
"""From device to device over the link between sockets, one way: 22 GB/s (NCCL 2.30, src/graph/topo.h, Sapphire Rapids;
6 to 40 GB/s for others)."""
_STAGED_PASSES, _TCP_PASSES = 2, 4
"""Times that a byte crosses host memory: a write and a read; the kernel's copy reads and writes it again."""


@dataclass(frozen=True)
class HostSpec:
    """Path of bytes from accelerators to NICs.

    Attributes:
        gpudirect: `auto`: from device to device where both are in one memory domain, else through host memory, as by
            NCCL's default level (NCCL_NET_GDR_LEVEL=PXB); `on`: always from device to device; `off`: never;
            `bounce`: never, and through an encrypted bounce buffer (confidential computing).
        transport: `rdma`, or `tcp` through the kernel and host memory.
        tcp_cores: Cores that serve a NIC with TCP, half of them for each direction.
        bounce_bps: Rate of an accelerator's bounce buffer, one way; None: the catalog's.
    """

    gpudirect: GpuDirect = "auto"
    transport: Transport = "rdma"
    tcp_cores: int = 4
    bounce_bps: float | None = None

    def __post_init__(self) -> None:
        if self.bounce_bps is not None and self.gpudirect != "bounce":
            raise InputError(
                "only confidential computing has a bounce buffer",
                key="bounce_rate",
                found=f"gpudirect: {self.gpudirect}",
                allowed="with `gpudirect: bounce`",
            )
        if self.transport == "tcp" and self.gpudirect == "on":
            raise InputError(
                "TCP goes through host memory", key="gpudirect", found="on", allowed="auto, off", hint="transport: rdma"
            )
        if self.tcp_cores < 2:
            raise InputError(
                "TCP takes a core for each direction", key="tcp_cores", found=self.tcp_cores, allowed="2 or more"
            )


@dataclass(frozen=True)
class HostPath:
    """Limits of a server's host on each of its NICs.

    Attributes:
        rate_bps: float64[NICs of a server], one way, while all of them send and receive.
        latency_ps: int64[NICs of a server], added to the link of a NIC in each direction.
    """

    rate_bps: NDArray[np.float64]
    latency_ps: NDArray[np.int64]
    cores: float = 0.0
    remarks: tuple[str, ...] = ()


def unbounded(nics: int, rate_bps: float) -> HostPath:
    """NICs limited only by their line rate."""
    return HostPath(np.full(nics, rate_bps), np.zeros(nics, np.int64))


def host_path(
    server: Server,
    nics_of: NDArray[np.int64],
    nic_bps: NDArray[np.float64],
    spec: HostSpec,
    cipher_core_bps: float | None = None,
) -> HostPath:
    """The path of each back-end NIC of a server.

    Args:
        server: Sockets, memory, PCIe and cores.
        nics_of: int64[accelerators in use, NICs of each], NICs of a server by their number.
        nic_bps: float64[NICs of a server], what each moves with direct access: its rate or its share of PCIe.
        spec: How bytes get from accelerators to NICs.
        cipher_core_bps: Encryption rate of a TCP core, if cores encrypt.

    Raises:
        InputError: TCP would need more cores than there are.
    """
    core_bps = TCP_CORE_BPS if cipher_core_bps is None else 1 / (1 / TCP_CORE_BPS + 1 / cipher_core_bps)
    return _Host(server, nics_of, nic_bps, spec, core_bps).path()


@dataclass(frozen=True)
class _Host:
    server: Server
    nics_of: NDArray[np.int64]
    nic_bps: NDArray[np.float64]
    spec: HostSpec
    core_bps: float

    @property
    def nics(self) -> int:
        return len(self.nic_bps)

    def path(self) -> HostPath:
        away = self._away()
        staged = self._staged(away.sum(axis=(0, 1)))
        bounds = {
            "PCIe between the host and its devices": self._pcie(np.maximum(staged, away.sum(axis=(0, 1)))),
            "host memory": self._memory(staged),
            "the link between sockets": self._socket(away),
            "the cores that run TCP": self._tcp(),
            "the encrypted bounce buffer": self._bounce(),
        }
        rate = np.minimum(self.nic_bps, np.min(list(bounds.values()), axis=0))
        latency = STAGING_PS * (staged > 0) + SOCKET_PS * (away.sum(axis=(0, 1)) > 0) + TCP_PS * self._is_tcp
        cores = (
            self.nics * self.spec.tcp_cores * float(rate.mean()) / float(self._tcp().mean()) if self._is_tcp else 0.0
        )
        return HostPath(rate, latency.astype(np.int64), cores, tuple(self._remarks(bounds, rate, cores)))

    @property
    def _is_tcp(self) -> bool:
        return self.spec.transport == "tcp"

    def _away(self) -> NDArray[np.float64]:
        """float64[domains, domains, NICs]: share of a NIC's traffic whose accelerator is in another memory domain."""
        domains = self.server.numa_nodes
        away = np.zeros((domains, domains, self.nics))
        users = np.bincount(self.nics_of.ravel(), minlength=self.nics)
        accelerators, column = np.indices(self.nics_of.shape)
        for accelerator, nic in zip(accelerators.ravel(), self.nics_of[accelerators, column].ravel(), strict=True):
            here, there = self.server.accelerator_numa[accelerator], self.server.nic_numa[nic]
            away[here, there, nic] += (here != there) / users[nic]
        return away

    def _staged(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        """float64[NICs], share of the traffic that goes through host memory."""
        if self._is_tcp or self.spec.gpudirect in ("off", "bounce"):
            return np.ones(self.nics)
        return away if self.spec.gpudirect == "auto" else np.zeros(self.nics)

    def _pcie(self, twice: NDArray[np.float64]) -> NDArray[np.float64]:
        """Traffic beyond a PCIe switch crosses its uplink in both directions at once: sent and received."""
        each = self.server.pcie_bps * len(self.nics_of) / self.nics
        most: NDArray[np.float64] = np.divide(each, 2.0 * twice, out=np.full(self.nics, np.inf), where=twice > 0)
        return most

    def _memory(self, staged: NDArray[np.float64]) -> NDArray[np.float64]:
        passes = _TCP_PASSES if self._is_tcp else _STAGED_PASSES
        taken = 2.0 * passes * staged.sum()
        return np.where(staged > 0, self.server.host_memory_bps / taken if taken else np.inf, np.inf)

    def _socket(self, away: NDArray[np.float64]) -> NDArray[np.float64]:
        """The fuller direction of each domain pair: what leaves one side's NICs and what reaches the other's."""
        load = away.sum(axis=2) + away.sum(axis=2).T
        most = PEER_SOCKET_BPS if self.spec.gpudirect == "on" else self.server.socket_bps
        share = np.divide(most, load, out=np.full(load.shape, np.inf), where=load > 0)
        each: NDArray[np.float64] = np.where(away > 0, share[:, :, None], np.inf).min(axis=(0, 1))
        return each

    def _tcp(self) -> NDArray[np.float64]:
        return np.full(self.nics, self.spec.tcp_cores / 2 * self.core_bps if self._is_tcp else np.inf)

    def _bounce(self) -> NDArray[np.float64]:
        """An accelerator's buffer is shared by its NICs; a NIC gets the buffers of all accelerators that share it."""
        if self.spec.gpudirect != "bounce":
            return np.full(self.nics, np.inf)
        return np.full(self.nics, (self.spec.bounce_bps or np.inf) * len(self.nics_of) / self.nics)

    def _remarks(self, bounds: dict[str, NDArray[np.float64]], rate: NDArray[np.float64], cores: float) -> list[str]:
        slow = int(np.argmin(rate))
        found = []
        if rate[slow] < self.nic_bps[slow]:
            name = min(bounds, key=lambda bound: bounds[bound][slow])
            found.append(
                f"{name} bounds a NIC at {rate[slow] / 1e9:.0f} of {self.nic_bps[slow] / 1e9:.0f} Gb/s while all NICs"
                " of a server send and receive"
            )
        if self._is_tcp:
            self._check_cores(cores)
            found.append(f"TCP keeps {cores:.0f} cores of each server busy; their power and price are not counted")
        return found

    def _check_cores(self, cores: float) -> None:
        if self.server.host_cores and cores > self.server.host_cores:
            raise InputError(
                "TCP takes more cores than a server has",
                key="tcp_cores",
                found=f"{self.spec.tcp_cores} for each of {self.nics} NICs",
                allowed=f"at most {self.server.host_cores // self.nics}",
            )
