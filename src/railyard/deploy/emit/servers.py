"""Files of servers: interfaces, kernel settings, NCCL's environment and its file of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from railyard.deploy.emit.intent import DSCP_ROCE, LOSSLESS

if TYPE_CHECKING:
    from railyard.cluster import Cluster
    from railyard.deploy.emit.intent import HostIntent


def network(intent: HostIntent) -> str:
    """Interfaces in the words of ifupdown; each routes by its own table, so that answers leave where they came in."""
    lines = []
    for number, (name, address, gateway, mtu) in enumerate(intent.interfaces):
        lines += [
            f"auto {name}",
            f"iface {name} inet static",
            f"    address {address}/31",
            f"    mtu {mtu}",
            f"    up ip route add default via {gateway} dev {name} table {100 + number}",
            f"    up ip rule add from {address} table {100 + number}",
            *([f"    gateway {gateway}"] if number == 0 else []),
            "",
        ]
    return "\n".join(lines)


def sysctl() -> str:
    """Kernel settings of servers with several interfaces in networks of their own."""
    return "\n".join(
        [
            "net.ipv4.conf.all.rp_filter = 0",
            "net.ipv4.conf.default.rp_filter = 0",
            "net.ipv4.conf.all.arp_announce = 2",
            "net.ipv4.conf.all.arp_ignore = 1",
            "vm.zone_reclaim_mode = 0",
            "",
        ]
    )


def environment(intent: HostIntent, cluster: Cluster) -> str:
    """`nccl.conf`; values are the scenario's, and NCCL's own defaults are not repeated."""
    names = [f"mlx5_{number}" for number in range(len(intent.back_end))]
    lines = [f"NCCL_IB_HCA=={','.join(names)}", f"NCCL_SOCKET_IFNAME={_socket(intent)}", "NCCL_CROSS_NIC=0"]
    if not intent.infiniband:
        lines += ["NCCL_IB_GID_INDEX=3", f"NCCL_IB_TC={DSCP_ROCE << 2}", f"NCCL_IB_SL={LOSSLESS}"]
    qps = int(getattr(cluster.fabric, "qps", 1) or 1)
    if qps > 1:
        lines += [f"NCCL_IB_QPS_PER_CONNECTION={qps}"]
    return "\n".join([*lines, ""])


def _socket(intent: HostIntent) -> str:
    """The front end's interfaces, where there is one."""
    front = [name for name, *_ in intent.interfaces if name.startswith("fe")]
    return ",".join(front) if front else ",".join(name for name, *_ in intent.interfaces) or "ib"


def topology(cluster: Cluster) -> str:
    """NCCL_TOPO_FILE: sockets, accelerators and NICs of a server, with the rates of the catalogue.

    Bus numbers are made up in the order of the devices: NCCL takes those of the machine where it finds them.
    """
    server = cluster.server
    lines = ['<system version="1">']
    nics = range(cluster.hardware.nics)
    for numa in range(server.numa_nodes):
        lines.append(f'  <cpu numaid="{numa}" affinity="" arch="x86_64" vendor="GenuineIntel">')
        gpus = [gpu for gpu in range(cluster.ranks_per_server) if _numa(server.accelerator_numa, gpu) == numa]
        mine = [nic for nic in nics if _numa(server.nic_numa, nic) == numa]
        lines += [line for at, gpu in enumerate(gpus) for line in _switch(cluster, gpu, mine[at :: max(len(gpus), 1)])]
        if not gpus:
            lines += [line for nic in mine for line in _nic(cluster, nic, "    ")]
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>", ""])


def _numa(domains: tuple[int, ...], number: int) -> int:
    return domains[number] if number < len(domains) else 0


def _switch(cluster: Cluster, gpu: int, nics: list[int]) -> list[str]:
    """A PCIe switch with an accelerator and the NICs next to it."""
    bus = f"0000:{0x10 + 8 * gpu:02x}"
    speed = 'link_speed="32.0 GT/s PCIe" link_width="16"'
    lines = [f'    <pci busid={quoteattr(bus + ":00.0")} class="0x060400" {speed}>']
    lines += [f'      <pci busid={quoteattr(bus + ":01.0")} class="0x030200" {speed}>']
    lines += [f'        <gpu dev="{gpu}" rank="{gpu}" gdr="1"/>', "      </pci>"]
    lines += [line for nic in nics for line in _nic(cluster, nic, "      ")]
    return [*lines, "    </pci>"]


def _nic(cluster: Cluster, nic: int, indent: str) -> list[str]:
    bus = f"0000:{0x90 + nic:02x}:00.0"
    rate = round(cluster.plans["back_end"].link_bps / 1e6)
    return [
        f'{indent}<pci busid={quoteattr(bus)} class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">',
        f"{indent}  <nic>",
        f'{indent}    <net name="mlx5_{nic}" dev="{nic}" speed="{rate}" port="1" latency="0.0" gdr="1"/>',
        f"{indent}  </nic>",
        f"{indent}</pci>",
    ]
