"""What programs write about LLDP neighbours: lldpd, SONiC's databases, EOS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.cluster.asbuilt.port_names import hardware_address

if TYPE_CHECKING:
    from collections.abc import Iterator

_GIGABIT = re.compile(r"(\d+)\s*G[Bb]ase")
_NAMED = ("ifname", "ifalias", "local", "interfacename", "5", "7")
"""Kinds of port identifiers that are names; others are addresses, beside which the description is the name."""

GIGABIT = 1_000_000_000


@dataclass(frozen=True)
class Neighbour:
    """What a port hears.

    Attributes:
        here: The port.
        device: Name of the neighbour; empty where it says none.
        port: Its port.
        rate_bps: Rate of the link; 0: not said.
        mtu: Largest frame that the neighbour takes, in bytes; 0: not said.
        forwards: Whether the neighbour bridges or routes; None: not said.
        length_m: Of the cable, as the module here says; 0: not said.
        address: MAC address by which the neighbour calls itself, in hexadecimal digits; empty: not said.
    """

    here: str
    device: str
    port: str
    rate_bps: int = 0
    mtu: int = 0
    forwards: bool | None = None
    length_m: float = 0.0
    address: str = ""


def neighbours(document: Any) -> list[Neighbour] | None:
    """The neighbours that a document holds; None where it is none of these programs'."""
    if not isinstance(document, dict):
        return None
    if "lldp" in document:
        return list(_lldpd(document["lldp"]))
    if "lldpNeighbors" in document:
        return list(_eos(document["lldpNeighbors"]))
    tables = _tables(document)
    return list(_sonic(tables)) if "LLDP_ENTRY" in tables else None


def _one(value: Any) -> Any:
    """The only item of a list, as lldpd's `json0` wraps everything; else the value."""
    return value[0] if isinstance(value, list) and value else value


def _text(value: Any) -> str:
    value = _one(value)
    if isinstance(value, dict):
        value = value.get("value", "")
    return "" if value is None else str(value)


def _lldpd(document: Any) -> Iterator[Neighbour]:
    listed = _one(document).get("interface", []) if isinstance(document, list) else document.get("interface", [])
    for item in listed if isinstance(listed, list) else [listed]:
        pairs = [(item["name"], item)] if isinstance(item.get("name"), str) else item.items()
        for name, value in pairs:
            yield _lldpd_port(name, value)


def _lldpd_port(name: str, value: dict[str, Any]) -> Neighbour:
    chassis, port = _one(value.get("chassis", {})), _one(value["port"])
    if chassis and not {"id", "descr", "name"} & set(chassis):
        device, chassis = next(iter(chassis.items()))
    else:
        device = _text(chassis.get("name"))
    identity = _one(port.get("id", {}))
    is_name = str(identity.get("type", "")).lower() in _NAMED
    described = _text(port.get("descr"))
    far = _text(identity) if is_name or not described else described
    speed = _GIGABIT.search(str(_one(port.get("auto-negotiation", {})).get("current", "")))
    return Neighbour(
        name,
        device,
        far,
        int(speed[1]) * GIGABIT if speed else 0,
        int(_text(port.get("mfs")) or 0),
        _forwards(chassis.get("capability")),
        address=hardware_address(_text(_one(chassis.get("id", {})))),
    )


def _forwards(capabilities: Any) -> bool | None:
    if not capabilities:
        return None
    listed = capabilities if isinstance(capabilities, list) else [capabilities]
    return any(one.get("enabled") and one.get("type") in ("Bridge", "Router") for one in listed)


def _eos(document: Any) -> Iterator[Neighbour]:
    if isinstance(document, list):
        for one in document:
            yield Neighbour(_text(one["port"]), _text(one.get("neighborDevice")), _text(one.get("neighborPort")))
        return
    for port, value in document.items():
        for one in value.get("lldpNeighborInfo", []):
            far = one.get("neighborInterfaceInfo", {})
            name = far.get("interfaceId_v2") or far.get("interfaceId") or far.get("interfaceDescription", "")
            able = one.get("systemCapabilities")
            forwards = None if able is None else bool(able.get("bridge") or able.get("router"))
            frame = int(far.get("maxFrameSize", 0) or 0)
            far_name, address = _text(one.get("systemName")), hardware_address(_text(one.get("chassisId")))
            yield Neighbour(port, far_name, str(name).strip('"'), 0, frame, forwards, address=address)


def _tables(document: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Tables of SONiC's databases, by whatever of its dumps: keys `TABLE:key` or `TABLE|key`, or nested tables."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for key, value in document.items():
        table, mark, rest = key.partition(":") if ":" in key else key.partition("|")
        if not isinstance(value, dict):
            continue
        if mark:
            out.setdefault(_table(table), {})[rest] = value.get("value", value)
        else:
            rows = {port: row.get("value", row) for port, row in value.items() if isinstance(row, dict)}
            out.setdefault(_table(table), {}).update(rows)
    return out


def _table(name: str) -> str:
    return name.removesuffix("_TABLE")


def _sonic(tables: dict[str, dict[str, dict[str, Any]]]) -> Iterator[Neighbour]:
    ports, modules = tables.get("PORT", {}), tables.get("TRANSCEIVER_INFO", {})
    for port, row in tables["LLDP_ENTRY"].items():
        device = str(row.get("lldp_rem_sys_name", ""))
        is_name = str(row.get("lldp_rem_port_id_subtype", "5")) in _NAMED
        far = row.get("lldp_rem_port_id", "") if is_name else row.get("lldp_rem_port_desc", "")
        speed = str(ports.get(port, {}).get("speed", "")).removesuffix("G")
        rate = int(speed) * (1_000_000 if int(speed) >= 1000 else GIGABIT) if speed.isdecimal() else 0
        length = _metres(modules.get(port, {}).get("cable_length", ""))
        address = hardware_address(_text(row.get("lldp_rem_chassis_id")))
        far_port = str(far or row.get("lldp_rem_port_desc", ""))
        yield Neighbour(port, device, far_port, rate, length_m=length, address=address)


def _metres(text: Any) -> float:
    found = re.match(r"\s*(\d+(?:\.\d+)?)", str(text))
    return float(found[1]) if found else 0.0
