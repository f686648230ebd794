"""The catalogue as text: rows for tables and pages. Prints nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from railyard.catalog.model import Model
from railyard.catalog.types import (
    Accelerator,
    AccessLink,
    Appliance,
    Cable,
    Device,
    Drafter,
    Entry,
    MemoryPool,
    Nic,
    OpticalSwitch,
    Price,
    Range,
    ScaleUpRack,
    Server,
    Storage,
    Switch,
)
from railyard.kit import quantities
from railyard.kit.schema.field import FieldRecord, records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T", bound=Entry)


class Row(NamedTuple):
    """One field of an entry.

    Attributes:
        field: The key in the file; `flops.bf16` for one number of a table.
        source: Who says so; empty for words that need no source.
        year: Of the source; empty when there is none.
        confidence: `vendor`, `measured`, `estimated` or `user`; empty for words.
    """

    field: str
    value: str
    source: str
    year: str
    confidence: str


@dataclass(frozen=True)
class Listing:
    """The entries of one kind as a table of texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def describe(entry: Entry) -> list[Row]:
    """The fields of an entry, words first, then every number with its origin.

    Args:
        entry: Any entry.
    """
    known = records(type(entry))
    words = [Row(record.key, _words(entry, name, record), "", "", "") for name, record in known.items()]
    facts = [
        Row(_key(known, name), value.value_text, value.source, str(value.year or ""), value.confidence)
        for name, value in entry.provenance.items()
    ]
    return [row for row in words if row.value] + facts + (_counted(entry) if isinstance(entry, Model) else [])


def listing(entries: Sequence[Entry]) -> Listing:
    """A table of entries of one kind.

    Args:
        entries: All of the same kind; an empty table comes of none.
    """
    if not entries:
        return Listing(("name",), ())
    columns = _COLUMNS[type(entries[0])]
    rows = tuple((entry.name, *(cell(entry) for cell in columns.values())) for entry in entries)
    return Listing(("name", *columns), rows)


def range_text(value: Range, show: Callable[[float], str]) -> str:
    """`$25k .. $30k .. $36k`, or one value where nothing is uncertain."""
    if value.low == value.high:
        return show(value.typical)
    return f"{show(value.low)} .. {show(value.typical)} .. {show(value.high)}"


def _words(entry: Entry, name: str, record: FieldRecord) -> str:
    if record.sourced:
        return ""
    value = getattr(entry, name)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _key(known: Mapping[str, FieldRecord], attribute: str) -> str:
    first, _, rest = attribute.partition(".")
    return known[first].key + (f".{rest}" if rest else "")


def _counted(model: Model) -> list[Row]:
    counts = {"parameters": model.parameters(), "active_parameters": model.active_parameters()}
    if model.mtp_layers:
        counts["mtp_parameters"] = model.mtp_parameters()
    return [Row(key, f"{count:,}", "counted from the dimensions above", "", "") for key, count in counts.items()]


def _column(kind: type[T], cell: Callable[[T], str]) -> Callable[[Entry], str]:
    def show(entry: Entry) -> str:
        return cell(entry) if isinstance(entry, kind) else ""

    return show


def _value_text(entry: Entry, attribute: str) -> str:
    """Sizes as their source writes them: 80 GB and 80 GiB are both in use and not the same."""
    return entry.provenance[attribute].value_text


def _money(value: Range) -> str:
    return range_text(value, quantities.format_money)


def _power(value: Range) -> str:
    return range_text(value, quantities.format_power)


def _flops(accelerator: Accelerator) -> str:
    peak = accelerator.flops.get("bf16") or accelerator.flops.get("fp16", 0.0)
    return quantities.format_flops(peak)


def _scale_up(accelerator: Accelerator) -> str:
    return f"{quantities.format_byte_rate(accelerator.scale_up_bps)} {accelerator.scale_up_kind}"


def _experts(model: Model) -> str:
    return f"{model.experts_per_token} of {model.experts}" if model.experts else "dense"


def _billions(count: int) -> str:
    return f"{count / 1e9:.4g} B"


_COLUMNS: dict[type[Entry], dict[str, Callable[[Entry], str]]] = {
    Accelerator: {
        "year": _column(Accelerator, lambda it: str(it.year)),
        "16-bit dense": _column(Accelerator, _flops),
        "memory": _column(Accelerator, lambda it: _value_text(it, "memory_bytes")),
        "bandwidth": _column(Accelerator, lambda it: quantities.format_byte_rate(it.memory_bps)),
        "scale-up, one way": _column(Accelerator, _scale_up),
        "domain": _column(Accelerator, lambda it: str(it.scale_up_domain)),
        "TDP": _column(Accelerator, lambda it: quantities.format_power(it.tdp_w)),
        "price": _column(Accelerator, lambda it: _money(it.price_usd)),
    },
    Server: {
        "accelerators": _column(Server, lambda it: f"{it.accelerators} x {it.accelerator}"),
        "domain": _column(Server, lambda it: str(it.scale_up_domain)),
        "back-end NICs": _column(Server, lambda it: f"{it.nics} x {it.nic}"),
        "host power": _column(Server, lambda it: _power(it.host_power_w)),
        "price without accelerators and NICs": _column(Server, lambda it: _money(it.price_usd)),
    },
    ScaleUpRack: {
        "accelerators": _column(ScaleUpRack, lambda it: str(it.accelerators)),
        "servers": _column(ScaleUpRack, lambda it: f"{it.servers} x {it.server}"),
        "scale-up": _column(ScaleUpRack, lambda it: f"{it.links} x {it.fabric}"),
        "racks": _column(ScaleUpRack, lambda it: str(it.racks)),
        "power": _column(ScaleUpRack, lambda it: _power(it.power_w)),
        "price": _column(ScaleUpRack, lambda it: _money(it.price_usd)),
    },
    Nic: {
        "rate": _column(Nic, lambda it: quantities.format_rate(it.rate_bps)),
        "ports": _column(Nic, lambda it: str(it.ports)),
        "power": _column(Nic, lambda it: _power(it.power_w)),
        "price": _column(Nic, lambda it: _money(it.price_usd)),
    },
    Switch: {
        "family": _column(Switch, lambda it: it.family),
        "capacity": _column(Switch, lambda it: quantities.format_rate(it.capacity_bps)),
        "ports": _column(Switch, lambda it: f"{it.ports} x {quantities.format_rate(it.port_rate_bps)}"),
        "buffer": _column(Switch, lambda it: _value_text(it, "buffer_bytes")),
        "power": _column(Switch, lambda it: _power(it.power_w)),
        "price": _column(Switch, lambda it: _money(it.price_usd)),
    },
    Cable: {
        "kind": _column(Cable, lambda it: it.kind),
        "rate": _column(Cable, lambda it: quantities.format_rate(it.rate_bps)),
        "reach": _column(Cable, lambda it: quantities.format_length(it.reach_m)),
        "power an end": _column(Cable, lambda it: _power(it.power_w)),
        "price": _column(Cable, lambda it: _money(it.price_usd)),
    },
    OpticalSwitch: {
        "technology": _column(OpticalSwitch, lambda it: it.technology),
        "ports": _column(OpticalSwitch, lambda it: str(it.ports)),
        "loss": _column(OpticalSwitch, lambda it: f"{it.loss_db:g} dB"),
        "switching": _column(OpticalSwitch, lambda it: quantities.format_time(it.switching_ps)),
        "power": _column(OpticalSwitch, lambda it: _power(it.power_w)),
        "price": _column(OpticalSwitch, lambda it: _money(it.price_usd)),
    },
    Storage: {
        "read": _column(Storage, lambda it: quantities.format_byte_rate(it.read_bps)),
        "write": _column(Storage, lambda it: quantities.format_byte_rate(it.write_bps)),
        "capacity": _column(Storage, lambda it: _value_text(it, "capacity_bytes")),
        "price a TB": _column(Storage, lambda it: _money(it.price_usd_per_tb)),
    },
    Appliance: {
        "role": _column(Appliance, lambda it: it.role),
        "units": _column(Appliance, lambda it: str(it.height_u)),
        "power": _column(Appliance, lambda it: _power(it.power_w)),
        "price": _column(Appliance, lambda it: _money(it.price_usd)),
    },
    MemoryPool: {
        "attachment": _column(MemoryPool, lambda it: it.attachment),
        "read": _column(MemoryPool, lambda it: quantities.format_byte_rate(it.read_bps)),
        "port": _column(MemoryPool, lambda it: quantities.format_byte_rate(it.port_bps)),
        "capacity": _column(MemoryPool, lambda it: _value_text(it, "capacity_bytes")),
        "price a TB": _column(MemoryPool, lambda it: _money(it.price_usd_per_tb)),
    },
    Drafter: {
        "drafts": _column(Drafter, lambda it: str(it.tokens)),
        "tokens of a pass": _column(Drafter, lambda it: f"{it.length:g}"),
        "parameters": _column(
            Drafter, lambda it: f"{it.parameters / 1e9:g}B" if it.parameters else "the model's layer"
        ),
    },
    Device: {
        "vendor": _column(Device, lambda it: it.vendor),
        "FLOP/s": _column(Device, lambda it: quantities.format_flops(max(it.flops.values()))),
        "memory": _column(Device, lambda it: _value_text(it, "memory_bytes")),
        "training": _column(Device, lambda it: f"{100 * it.training_efficiency:g} %"),
        "price": _column(Device, lambda it: _money(it.price_usd)),
    },
    AccessLink: {
        "down p50": _column(AccessLink, lambda it: quantities.format_rate(it.down_bps["p50"])),
        "up p50": _column(AccessLink, lambda it: quantities.format_rate(it.up_bps["p50"])),
        "up p5": _column(AccessLink, lambda it: quantities.format_rate(it.up_bps["p5"])),
        "RTT p50": _column(AccessLink, lambda it: quantities.format_time(it.rtt_ps["p50"])),
        "loss": _column(AccessLink, lambda it: f"{100 * it.loss:g} %"),
    },
    Model: {
        "parameters": _column(Model, lambda it: _billions(it.parameters())),
        "active": _column(Model, lambda it: _billions(it.active_parameters())),
        "layers": _column(Model, lambda it: str(it.layers)),
        "hidden": _column(Model, lambda it: str(it.hidden)),
        "experts": _column(Model, _experts),
    },
    Price: {
        "value": _column(Price, lambda it: range_text(it.range, lambda number: f"{number:.12g}")),
        "unit": _column(Price, lambda it: it.unit),
        "what": _column(Price, lambda it: it.summary),
    },
}
