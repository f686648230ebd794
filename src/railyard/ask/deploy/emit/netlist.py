"""An InfiniBand network as `ibnetdiscover` would print it, which is what the simulator ibsim loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.cluster.asbuilt.ibnetdiscover import LANE_BPS, PORT_LANES

if TYPE_CHECKING:
    from railyard.cluster.asbuilt.discovery import Discovery, FoundCable

_HOST_GUID, _SWITCH_GUID = 0x0010_0000_0000, 0x0020_0000_0000


def netlist(found: Discovery) -> str:
    """The network; a device is called by a made-up address and its description, as real ones are."""
    ports: list[list[tuple[int, int, int, str]]] = [[] for _ in found.devices]
    for cable in found.cables:
        rate = _rate(cable)
        ports[cable.a].append((int(cable.a_port), cable.b, int(cable.b_port), rate))
        ports[cable.b].append((int(cable.b_port), cable.a, int(cable.a_port), rate))
    guid = [_guid(device.kind, number) for number, device in enumerate(found.devices)]
    key = [
        f"{'S' if device.kind == 'switch' else 'H'}-{guid[number]:016x}" for number, device in enumerate(found.devices)
    ]
    lines: list[str] = []
    for number, device in enumerate(found.devices):
        mine = sorted(ports[number])
        switch = device.kind == "switch"
        lines.append(f"{'switchguid' if switch else 'caguid'}=0x{guid[number]:x}({guid[number]:x})")
        most = max((port for port, *_ in mine), default=1)
        words = "base port 0 lid 0 lmc 0" if switch else ""
        lines.append(
            f'{"Switch" if switch else "Ca"}\t{most} "{key[number]}"\t\t# "{device.described}" {words}'.rstrip()
        )
        for port, far, far_port, rate in mine:
            own = "" if switch else f"({guid[number] + port:x})"
            end = f"({guid[far] + far_port:x})" if found.devices[far].kind != "switch" else ""
            begin = "" if switch else "lid 0 lmc 0 "
            far_name = found.devices[far].described
            lines.append(f'[{port}]{own}\t"{key[far]}"[{far_port}]{end}\t\t# {begin}"{far_name}" lid 0 {rate}')
        lines.append("")
    return "\n".join(lines)


def port_guids(found: Discovery) -> dict[str, int]:
    """Made-up addresses of the ports of hosts, by what the port is called."""
    return {
        device.described: _guid(device.kind, number) + 1
        for number, device in enumerate(found.devices)
        if device.kind != "switch"
    }


def _guid(kind: str, number: int) -> int:
    """Two apart, since a host's port has the next one."""
    return (_SWITCH_GUID if kind == "switch" else _HOST_GUID) + 2 * number


def _rate(cable: FoundCable) -> str:
    """`4xNDR`: the generation whose four lanes carry at least the rate."""
    for name, lane in LANE_BPS.items():
        if PORT_LANES * lane >= cable.rate_bps * (1 - 1e-9):
            return f"{PORT_LANES}x{name}"
    return f"{PORT_LANES}xXDR"
