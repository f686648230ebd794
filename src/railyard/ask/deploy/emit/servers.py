"""Files of servers: interfaces, kernel settings, NCCL's environment and its file of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railyard.ask.deploy.emit.intent import DSCP_ROCE, LOSSLESS
from railyard.cluster.nccl import graph as graphs
from railyard.cluster.nccl.machines import machine_of
from railyard.cluster.nccl.write import write

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import HostIntent
    from railyard.cluster import Cluster
    from railyard.cluster.nccl.machine import Machine


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


def hcas(intent: HostIntent) -> list[str]:
    """Names of the interfaces between accelerators, as RDMA has them."""
    return [f"mlx5_{number}" for number in range(len(intent.back_end))]


def environment(intent: HostIntent, cluster: Cluster) -> str:
    """`nccl.conf`; values are the scenario's, and NCCL's own defaults are not repeated."""
    lines = [f"NCCL_IB_HCA=={','.join(hcas(intent))}", f"NCCL_SOCKET_IFNAME={_socket(intent)}", "NCCL_CROSS_NIC=0"]
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


MADE_UP = "<!-- of the catalogue's entry: a machine has other bus addresses, which NCCL_TOPO_DUMP_FILE writes -->\n"


def topology(cluster: Cluster) -> str:
    """NCCL_TOPO_FILE: sockets, accelerators and NICs of a server, with the rates of the catalogue."""
    return MADE_UP + write(_machine(cluster)).text()


def graph(cluster: Cluster) -> str:
    """NCCL_GRAPH_FILE: a ring and a tree a NIC, each on its own rail."""
    return graphs.write(graphs.rails(_machine(cluster))).text()


def _machine(cluster: Cluster) -> Machine:
    return machine_of(cluster.server, float(cluster.plans["back_end"].link_bps), cluster.hardware.nics)
