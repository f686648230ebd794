"""Constraints between the fields of one entry, of the catalogue or of a user."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from railyard.catalog.model import Model
from railyard.catalog.types import (
    QUANTILES,
    Accelerator,
    AccessLink,
    Cable,
    Device,
    Drafter,
    Entry,
    MemoryPool,
    ScaleUpRack,
    Server,
    Storage,
    Switch,
)
from railyard.kit.schema.field import records

if TYPE_CHECKING:
    from collections.abc import Iterator

Finding = tuple[str, str]


def check(entry: Entry) -> list[Finding]:
    """Faults of an entry, as key and message; empty if there is none."""
    return list(_faults(entry))


@singledispatch
def _faults(_entry: Entry) -> Iterator[Finding]:
    """Faults by the rules of the entry's kind; a kind without a rule has none."""
    return iter(())


def _positive(entry: Entry, *attributes: str) -> Iterator[Finding]:
    """Values that may not be 0, where the range of their record does not say so."""
    known = records(type(entry))
    for attribute in attributes:
        if not getattr(entry, attribute) > 0:
            yield known[attribute].key, "must be more than zero"


@_faults.register(Accelerator)
def _accelerator(entry: Accelerator) -> Iterator[Finding]:
    yield from _positive(entry, "tdp_w", "gemm_efficiency", "memory_efficiency")
    yield from _positive(entry, "attention_efficiency", "gemm_efficiency_8bit")
    if not any(entry.flops.get(datatype, 0.0) > 0 for datatype in ("bf16", "fp16")):
        yield "flops", "must hold bf16 or fp16"
    if entry.scale_up_domain > 1 and not (entry.scale_up_bps > 0 and entry.scale_up_collective_bps > 0):
        yield "scale_up_bandwidth", "must be more than zero in a scale-up domain of more than one accelerator"
    if entry.scale_up_collective_bps > entry.scale_up_bps:
        yield "scale_up_collective_bandwidth", "must not exceed scale_up_bandwidth"


@_faults.register(Server)
def _server(entry: Server) -> Iterator[Finding]:
    yield from _positive(entry, "pcie_bps", "host_memory_bytes")
    if len(entry.accelerator_numa) != entry.accelerators:
        yield "accelerator_numa", f"must name a memory domain for each of the {entry.accelerators} accelerators"
    if len(entry.nic_numa) != entry.nics:
        yield "nic_numa", f"must name a memory domain for each of the {entry.nics} NICs"
    if any(node >= entry.numa_nodes for node in (*entry.accelerator_numa, *entry.nic_numa)):
        yield "numa_nodes", "is not enough for the memory domains named"
    small, large = sorted((entry.scale_up_domain, entry.accelerators))
    if small > 0 and large % small:
        yield "scale_up_domain", "must divide the server's accelerators or be a multiple of them"


@_faults.register(ScaleUpRack)
def _rack(entry: ScaleUpRack) -> Iterator[Finding]:
    if entry.accelerators % entry.servers:
        yield "accelerators", "must be the same in each of its servers"


@_faults.register(Switch)
def _switch(entry: Switch) -> Iterator[Finding]:
    yield from _positive(entry, "capacity_bps", "port_rate_bps")
    if entry.ports * entry.port_rate_bps > entry.capacity_bps * (1 + 1e-9):
        yield "ports", "times port_rate must not exceed capacity"
    if entry.max_ports < entry.ports:
        yield "max_ports", "must be at least ports"


@_faults.register(Cable)
def _cable(entry: Cable) -> Iterator[Finding]:
    yield from _positive(entry, "reach_m", "delay_s_per_m")


@_faults.register(Storage)
def _storage(entry: Storage) -> Iterator[Finding]:
    yield from _positive(entry, "read_bps", "write_bps", "capacity_bytes")


@_faults.register(MemoryPool)
def _memory_pool(entry: MemoryPool) -> Iterator[Finding]:
    yield from _positive(entry, "read_bps", "write_bps", "capacity_bytes", "port_bps")
    if (entry.attachment == "cxl") != (entry.servers > 0):
        yield "servers", "must be more than zero for CXL, and 0 where a network leads to the unit"


@_faults.register(Drafter)
def _drafter(entry: Drafter) -> Iterator[Finding]:
    if entry.length > entry.tokens * (entry.first or 1.0) + 1.0:
        yield "length", "must not be more than the model's own token and each guess, as likely as the first"
    if entry.length < 1.0 + entry.first:
        yield "length", "must not be less than the model's own token and the first guess"


# More than any model has: what is beyond is a slip of the pen, and would be looked at layer by layer.
_MOST = {
    "layers": 10_000,
    "hidden": 1_000_000,
    "heads": 100_000,
    "head_dim": 1_000_000,
    "ffn": 100_000_000,
    "moe_ffn": 100_000_000,
    "vocab": 100_000_000,
    "experts": 100_000,
    "mtp_layers": 1_000,
}


@_faults.register(Model)
def _model(entry: Model) -> Iterator[Finding]:
    absurd = [(key, most) for key, most in _MOST.items() if getattr(entry, key) > most]
    yield from ((key, f"is more than any model has; at most {most:,}") for key, most in absurd)
    if not absurd:
        yield from _shape(entry)


def _shape(entry: Model) -> Iterator[Finding]:
    sizes = ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "max_seq", "moe_every")
    yield from _positive(entry, *sizes, "sliding_every")
    if entry.kv_heads and entry.heads % entry.kv_heads:
        yield "kv_heads", f"must divide heads ({entry.heads})"
    if entry.experts:
        yield from _positive(entry, "experts_per_token", "moe_ffn")
        if entry.experts_per_token > entry.experts:
            yield "experts_per_token", f"must not exceed experts ({entry.experts})"
    if entry.blocks:
        yield from _blocks(entry)
    elif entry.moe_every and entry.moe_layers < entry.layers and not entry.ffn:
        yield "ffn", "must be more than zero where a layer has no experts"


def _blocks(entry: Model) -> Iterator[Finding]:
    """Constraints that the blocks of a model put on it and on each other."""
    count = sum(block.layers for block in entry.blocks)
    if count != entry.layers:
        yield "blocks", f"have {count} layers together, not the model's {entry.layers}"
    if any(block.compression < 1 for block in entry.blocks):
        yield "blocks.compression", "must be more than zero"
    if any(block.mixer == "recurrent" for block in entry.blocks) and entry.recurrent is None:
        yield "recurrent", "must be there where a layer is recurrent"
    if any(block.feed == "experts" for block in entry.blocks) and not entry.experts:
        yield "experts", "must be more than zero where a layer has them"
    if any(block.feed == "dense" and not (block.ffn or entry.ffn) for block in entry.blocks):
        yield "ffn", "must be more than zero where a layer has no experts"
    for block in entry.blocks:
        heads, groups = block.heads or entry.heads, block.kv_heads or entry.kv_heads
        if block.mixer == "attention" and groups and heads % groups:
            yield "blocks.kv_heads", f"must divide heads ({heads})"
            return


@_faults.register(Device)
def _device(entry: Device) -> Iterator[Finding]:
    yield from _positive(entry, "training_efficiency")
    if not any(entry.flops.values()):
        yield "flops", "must hold a rate above zero"


@_faults.register(AccessLink)
def _access_link(entry: AccessLink) -> Iterator[Finding]:
    for key, table in (("down", entry.down_bps), ("up", entry.up_bps), ("rtt", entry.rtt_ps)):
        values = [table.get(name, 0.0) for name in QUANTILES]
        if not all(value > 0 for value in values):
            yield key, f"must hold {', '.join(QUANTILES)}, each more than zero"
        elif values != sorted(values):
            yield key, "must not fall from one quantile to the next"
    yield from _positive(entry, "correlation_ps")
    if entry.loss >= _MOST_LOSS:
        yield "loss", f"must be below {_MOST_LOSS:g}: no transport works beyond"


_MOST_LOSS = 0.2
