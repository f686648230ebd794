"""A cluster in plain numbers, for closed forms: how fast ranks talk inside a scale-up domain and outside it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from railyard.collective.curves import Curves, Library

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from railyard.catalog import Accelerator
    from railyard.cluster import Cluster, PooledMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageRates:
    """A storage system as closed forms see it.

    Attributes:
        read_bps, write_bps: Of all its nodes together, bit/s.
        server_bps: Between one server and the storage system, goodput, bit/s; infinite for its own drives.
        rank_bps: Between one rank and the storage system: the NICs that are its own, or one that it shares.
        back_end_bps: Between accelerators of different servers, of one, bit/s.
        iops: Random reads a second of all nodes; 0 where only bandwidth limits.
        latency_s: To the first byte of a request, network and back.
        host_bps: Between an accelerator and its host, bit/s.
        ranks_per_server: Accelerators of one.
        cores: Of one server's host; 0 where not known.
    """

    read_bps: float
    write_bps: float
    server_bps: float
    rank_bps: float
    back_end_bps: float
    iops: int
    latency_s: float
    host_bps: float
    servers: int
    ranks_per_server: int
    cores: int = 0

    @classmethod
    def of(cls, cluster: Cluster) -> StorageRates | None:
        """The rates of a cluster; None where it has no storage."""
        found = cluster.storage_servers
        if found is None:
            return None
        entry, network = found.entry, cluster.storage
        server_bps = rank_bps = float("inf")
        if not found.local and network is not None:
            plan = next(plan for plan in cluster.plans.values() if plan.name == network.name)
            nic_bps = plan.link_bps * float(plan.usable.min()) * network.fabric.payload_efficiency
            server_bps, rank_bps = nic_bps * plan.nics, nic_bps * plan.port_of_rank.shape[1]
        return cls(
            read_bps=entry.read_bps * found.count,
            write_bps=entry.write_bps * found.count,
            server_bps=server_bps,
            rank_bps=rank_bps,
            back_end_bps=cluster.nic.rate_bps * cluster.server.nics_per_accelerator * cluster.fabric.payload_efficiency,
            iops=entry.iops * found.count,
            latency_s=entry.latency_ps * 1e-12,
            host_bps=cluster.server.pcie_bps,
            servers=cluster.servers,
            ranks_per_server=cluster.ranks_per_server,
            cores=cluster.server.host_cores,
        )

    def shared_bps(self, total_bps: float, ranks: int, each_server: int) -> float:
        """Rate of each of some ranks when all move data at once, bit/s."""
        return min(total_bps / max(ranks, 1), self.server_bps / max(each_server, 1), self.rank_bps)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRates:
    """A memory pool as closed forms see it, with all ranks of the cluster at work at once.

    Attributes:
        load_bps: Of one rank, bit/s, while nothing is stored.
        store_bps: Of one rank, bit/s, while nothing is loaded.
        together_bps: Of one rank, loads and stores together, where they share what they cross; infinite elsewhere.
        latency_s: Of a load or store, without the network.
    """

    load_bps: float
    store_bps: float
    together_bps: float
    latency_s: float

    @classmethod
    def of(cls, cluster: Cluster) -> PoolRates | None:
        """The rates of a cluster; None where it has no memory pool."""
        pool = cluster.memory_pool
        if pool is None:
            return None
        load_bps, store_bps = (_of_rank(cluster, pool, rate) for rate in (pool.load_bps, pool.store_bps))
        together_bps = pool.load_bps / cluster.ranks_per_server if pool.network == "host" else float("inf")
        return cls(
            load_bps=load_bps,
            store_bps=store_bps,
            together_bps=together_bps,
            latency_s=pool.latency_ps * 1e-12,
        )


def _of_rank(cluster: Cluster, pool: PooledMemory, unit_bps: float) -> float:
    """Share of a rank in units of that rate when all ranks ask at once."""
    network, per_server = cluster.pool_network, cluster.ranks_per_server
    if network is None:
        each, sharing = int(pool.unit.shape[1]), pool.servers_of_unit(cluster.servers)
        server_bps = each * min(unit_bps / sharing, pool.port_bps)
        return float(min(server_bps / per_server, cluster.server.pcie_bps))
    plan = next(plan for plan in cluster.plans.values() if plan.name == network.name)
    nic_bps = plan.link_bps * float(plan.usable.min()) * network.fabric.payload_efficiency
    lent_bps = min(unit_bps, plan.link_bps * pool.ports.shape[1] * network.fabric.payload_efficiency) * pool.units
    return float(min(lent_bps / cluster.ranks, nic_bps * plan.nics / per_server, nic_bps * plan.port_of_rank.shape[1]))


F = NDArray[np.float64]
Item = TypeVar("Item")


def distinct(items: Sequence[Item]) -> tuple[tuple[Item, ...], NDArray[np.int64]]:
    """The different objects among some, and int64[items], which of them each is."""
    known = {id(item): item for item in items}
    number = dict(zip(known, range(len(known)), strict=True))
    return tuple(known.values()), np.array([number[id(item)] for item in items], np.int64)


def rows_taken(columns: Any, rows: NDArray[np.int64]) -> Any:
    """Rows, by number, of an array (on its last axis), of all arrays of a record, or of what takes rows by itself."""
    if isinstance(columns, np.ndarray):
        return columns[..., rows]
    if hasattr(columns, "take"):
        return columns.take(rows)
    if not is_dataclass(columns) or isinstance(columns, type):
        return columns
    return replace(columns, **{each.name: rows_taken(getattr(columns, each.name), rows) for each in fields(columns)})


class RecordColumns:
    """Numbers of records as columns: attribute `name` is float64[records], what each record has under that name.

    Each distinct record is read once, and a column is made when it is first asked for. None becomes NaN.

    Args:
        records: One a row.
        derive: Further values of a record by name; they take the place of its attributes.
    """

    def __init__(self, records: Sequence[Any], derive: Callable[[Any], Mapping[str, float]] | None = None) -> None:
        known, self._order = distinct(records)
        self._rows = [(record, {} if derive is None else derive(record)) for record in known]
        self._made: dict[str, F] = {}  # of the distinct records; copies share it

    def __getattr__(self, name: str) -> F:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._made:
            values = [derived[name] if name in derived else getattr(record, name) for record, derived in self._rows]
            self._made[name] = np.array([np.nan if value is None else value for value in values], np.float64)
        column: F = self._made[name][self._order]
        self.__dict__[name] = column
        return column

    def replace(self, **columns: NDArray[Any]) -> Self:
        """A copy in which some columns are others."""
        found = copy(self)
        found.__dict__.update(columns)
        return found

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Rows by number."""
        made = {name: column[rows] for name, column in self.__dict__.items() if not name.startswith("_")}
        return self.replace(**made, _order=self._order[rows])


def table_of(items: Sequence[Item], values: Callable[[Item], Sequence[float]], key: Callable[[Item], Hashable]) -> F:
    """Values of items, float64[items, values]; items of one key have the same values, which are worked out once.

    Args:
        items: One a row.
        values: Of one item, as many of each.
        key: What items with the same values share.
    """
    index: dict[Hashable, int] = {}
    rows: list[Sequence[float]] = []
    order = np.empty(len(items), dtype=np.int64)
    for position, item in enumerate(items):
        name = key(item)
        if name not in index:
            index[name] = len(rows)
            rows.append(values(item))
        order[position] = index[name]
    table: F = np.array(rows, dtype=np.float64).reshape(len(rows), -1)[order]
    return table


class DeviceColumns(RecordColumns):
    """Accelerators of the catalogue: dense FLOP/s by operand width, and what share of them the best kernels reach.

    Attributes:
        peak16: Stated for 16 bits.
        gemm16, gemm8, gemm4: Matrix products in floating point of that width, or of the next one that there is.
        best8, best4: The same in whatever numbers of that width or wider are fastest: integers too.
        attention: Attention in 16 bits.
        attention8: The same with its products in 8 bits; what else it does (softmax) takes as long.
        hbm_bytes_s: What a streaming kernel reaches.
        units: Compute units.
        gap_s: Between one kernel and the next.
        scale_up_bytes_s: What collectives reach inside the scale-up domain.
    """

    def __init__(self, accelerators: Sequence[Accelerator]) -> None:
        super().__init__(accelerators, _device)

    def best_flops_s(self, bits: F) -> F:
        """FLOP/s of a matrix product whose operands have so many bits, in the fastest numbers that hold them."""
        return np.where(bits == 16, self.gemm16, np.where(bits == 8, self.best8, self.best4))


def _device(device: Accelerator) -> dict[str, float]:
    return _products(device) | {
        "hbm_bytes_s": device.memory_bps / 8.0 * device.memory_efficiency,
        "units": max(1, device.sm_count),
        "gap_s": device.launch_ps * 1e-12,
        "scale_up_bytes_s": device.scale_up_collective_bps / 8.0,
    }


def _products(device: Accelerator) -> dict[str, float]:
    flops, narrow = device.flops, device.gemm_efficiency_8bit
    peak16 = flops.get("bf16") or flops["fp16"]
    integers = flops.get("int8", 0.0)
    peak8 = flops.get("fp8") or (integers if device.architecture.startswith("tpu") else 0.0)
    gemm16 = peak16 * device.gemm_efficiency
    # Every row has every column; a training job in a width that its device lacks is refused (`check_precision`).
    gemm8 = peak8 * narrow if peak8 else gemm16
    gemm4 = flops["fp4"] * narrow if flops.get("fp4") else gemm8
    best8 = max(gemm16, gemm8, integers * narrow)
    attention = peak16 * device.attention_efficiency
    # Seconds a FLOP that the kernel takes longer than bare products: exponentials, and what waits for them. 8 bits make
    # only the products shorter. From FlashAttention-3's 740 TFLOP/s on an H100 this gives 1.25 PFLOP/s; the paper has
    # "close to 1.2" (arXiv 2407.08608).
    softmax = max(0.0, 1.0 / attention - 1.0 / gemm16)
    return {
        "peak16": peak16,
        "gemm16": gemm16,
        "gemm8": gemm8,
        "gemm4": gemm4,
        "best8": best8,
        "best4": max(best8, gemm4),
        "attention": attention,
        "attention8": max(attention, 1.0 / (1.0 / gemm8 + softmax)),
    }


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
    """Slowdowns of each class of communicators over each with the network to itself.

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
        known, of_row = distinct(machines)
        rows = np.array(
            [
                (
                    *(m.scale_up_bps / 8.0, m.scale_out_bps / 8.0 * m.share),
                    *(m.scale_up_domain, m.scale_up_peers, m.nvls, m.scale_out_latency, m.host_bps / 8.0),
                )
                for m in known
            ],
            dtype=np.float64,
        ).reshape(len(known), 7)[of_row]
        up, out, domain, peers, nvls, crossing, host = (np.ascontiguousarray(rows[:, column]) for column in range(7))
        libraries = [m.library for m in known if m.library is not None]
        curves = rows_taken(Curves.of(libraries), of_row) if len(libraries) == len(known) else None
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
