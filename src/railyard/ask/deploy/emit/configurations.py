"""All configurations of a plan; each file of a switch is read back and compared with the intent before it is given."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy import configured as as_meant
from railyard.ask.deploy.cabling import as_set, drawn, is_infiniband, plan_of
from railyard.ask.deploy.emit import collectives as libraries
from railyard.ask.deploy.emit.collectives import NOTHING, CollectivesIntent, collectives_of, tuner_rows, variables
from railyard.ask.deploy.emit.intent import DSCP_ROCE, LOSSLESS, hosts, switches
from railyard.ask.deploy.emit.labs import port_guids
from railyard.ask.deploy.system import SwitchSystem, system_named, system_names, systems
from railyard.cluster.fabric import fabrics
from railyard.cluster.nccl import machines as graphs
from railyard.cluster.nccl.machine import write
from railyard.cluster.nccl.machines import machine_of
from railyard.cluster.network_table import dialect
from railyard.kit.errors import InputError, SimulationError
from railyard.work.study import compose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.collectives import CollectivesIntent
    from railyard.ask.deploy.emit.intent import HostIntent
    from railyard.cluster import Cluster
    from railyard.cluster.fabric import Fabric
    from railyard.cluster.nccl.machine import NcclMachine
    from railyard.work.scenario.load import Draft


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
    front = [name for name, *_ in intent.interfaces if name.startswith("fe")]
    return ",".join(front) if front else ",".join(name for name, *_ in intent.interfaces) or "ib"


MADE_UP = "<!-- of the catalogue's entry: a machine has other bus addresses, which NCCL_TOPO_DUMP_FILE writes -->\n"


def topology(cluster: Cluster) -> str:
    """NCCL_TOPO_FILE: sockets, accelerators and NICs of a server, with the rates of the catalogue."""
    return MADE_UP + write(_machine(cluster)).text()


def graph(cluster: Cluster) -> str:
    """NCCL_GRAPH_FILE: a ring and a tree a NIC, each on its own rail."""
    return graphs.write(graphs.rails(_machine(cluster))).text()


def _machine(cluster: Cluster) -> NcclMachine:
    return machine_of(cluster.server, float(cluster.plans["back_end"].link_bps), cluster.hardware.nics)


MEMBERS = 8
"""Ports a line: OpenSM takes lines of 4,096 characters, and people read shorter ones."""


def subnet_files(plan: CablingPlan, network: int) -> Iterator[tuple[str, str]]:
    """`opensm.conf` and `partitions.conf`; a tree that is not whole is routed by Up/Down, where ftree gives up."""
    key = list(plan.cluster.plans)[network]
    regular = plan.cluster.plans[key].wiring.detour is None
    options = {
        "routing_engine": "ftree,updn" if regular else "updn,minhop",
        "partition_config_file": "/etc/opensm/partitions.conf",
        "sweep_interval": "10",
    }
    yield "opensm/opensm.conf", "".join(f"{key} {value}\n" for key, value in options.items())
    yield "opensm/partitions.conf", "\n".join([*_partitions(plan, network, key), ""])


def _partitions(plan: CablingPlan, network: int, key: str) -> Iterator[str]:
    """Partitions of tenants; limited members of the default one reach the subnet manager and no one another."""
    tenancy = plan.cluster.plans[key].tenancy
    if tenancy is None or tenancy.mechanism.name != "pkey":
        yield "Default=0x7fff, ipoib, defmember=full : ALL=full;"
        return
    yield "# Addresses of ports are the plan's own: real ones come with the machines (ibstat -p)."
    yield "# SELF is a full member and speaks to all: the subnet manager runs on no tenant's server."
    yield "Default=0x7fff, ipoib : ALL=limited, SELF=full;"
    guids = port_guids(drawn(plan, network, dialect("infiniband")))
    for tenant in tenancy.tenants:
        mine = (tenancy.owner == tenant.number).nonzero()
        names = [f"{plan.devices.name[server]} mlx5_{nic}" for server, nic in zip(*mine, strict=True)]
        for first in range(0, len(names), MEMBERS):
            members = ", ".join(f"0x{guids[name]:x}" for name in names[first : first + MEMBERS])
            yield f"{tenant.name}=0x{tenant.identifier:x}, defmember=full : {members};"


FILE = "dcqcn.sh"

PARAMETERS: Mapping[str, tuple[str, float]] = {
    "dcqcn_additive_bps": ("rp_ai_rate", 1e6),
    "dcqcn_hyper_bps": ("rp_hai_rate", 1e6),
    "dcqcn_min_rate_bps": ("rp_min_rate", 1e6),
    "dcqcn_increase_interval_ps": ("rp_time_reset", 1e6),
    "dcqcn_decrease_interval_ps": ("rp_rate_reduce_monitor_period", 1e6),
    "dcqcn_alpha_interval_ps": ("rp_dce_tcp_rtt", 1e6),
    "dcqcn_fast_recovery": ("rp_threshold", 1),
    "dcqcn_g": ("rp_dce_tcp_g", 1 / 1024),
    "rdma_cnp_interval_ps": ("np_min_time_between_cnps", 1e6),
}
"""For each constant, the driver's file and the size of its unit in the constant's."""

_LINE = re.compile(r'\s*echo (\d+) > "\$port/(\w+)"')


def dcqcn_values(fabric: Fabric) -> dict[str, int]:
    """What is set otherwise than the fabric of that name has it: value by name of the driver's file.

    Raises:
        InputError: A value is not a whole number of the driver's unit.
    """
    mine = fabric.packets.constants if fabric.packets is not None else {}
    if mine.get("rdma_control") != "dcqcn":
        return {}
    usual = fabrics.get(fabric.name).packets.constants
    found = {}
    for constant, (name, unit) in PARAMETERS.items():
        if constant in mine and mine[constant] != usual.get(constant):
            found[name] = _integer(constant, float(mine[constant]) / unit)
    return found


def _integer(constant: str, value: float) -> int:
    if abs(value - round(value)) > 1e-9 * max(value, 1.0):
        raise InputError("interfaces take whole numbers", key=f"packet.set ({constant})", found=f"{value:g}")
    return round(value)


def render_dcqcn(values: Mapping[str, int], hcas: Iterable[str]) -> str:
    """The script, read back and compared with what was meant.

    Raises:
        SimulationError: It says otherwise: an internal error.
    """
    lines = ["#!/bin/sh", "# DCQCN of the interfaces between accelerators; as root, after every start", "set -e"]
    lines += [f"for name in {' '.join(hcas)}; do"]
    lines += ['  bus="$(basename "$(readlink -f "/sys/class/infiniband/$name/device")")"']
    lines += ['  port="/sys/kernel/debug/mlx5/$bus/cc_params"']
    lines += [f'  echo {value} > "$port/{name}"' for name, value in values.items()]
    text = "\n".join([*lines, "done", ""])
    if read(text) != dict(values):
        raise SimulationError(f"servers/{FILE}: the written file does not match the intent")
    return text


def read(text: str) -> dict[str, int]:
    """What a script sets: value by name of the driver's file; comments say nothing."""
    return {m[2]: int(m[1]) for line in text.splitlines() if (m := _LINE.fullmatch(line))}


def files(plan: CablingPlan, system: str, collectives: CollectivesIntent = NOTHING) -> Iterator[tuple[str, str]]:
    """Names and texts of all files.

    Raises:
        SimulationError: A file says otherwise than intended: an internal error.
    """
    writes = system_named(system)
    _refuse_unfiltered(plan, writes)
    names = dialect(system)
    for number in range(len(plan.networks)):
        if is_infiniband(plan, number):
            yield from subnet_files(plan, number)
            continue
        for intent in switches(plan, number, names):
            texts = writes.texts(intent)
            wrong = writes.differences(intent, *texts.values())
            for family in writes.families:
                read = writes.configured(intent.name, texts, family)
                wrong += as_meant.differences(intent, read, family) if intent.by or family == 6 else []
            if wrong:
                raise SimulationError(f"{intent.name}: the written file does not match the intent: {wrong[0]}")
            yield from ((f"switches/{name}", text) for name, text in texts.items())
    first = None
    for host in hosts(plan):
        first = first or host
        if host.interfaces:
            yield f"servers/{host.name}.interfaces", network(host)
    if first is not None:
        values = dcqcn_values(plan.cluster.fabric)
        if values:
            yield f"servers/{FILE}", render_dcqcn(values, hcas(first))
        told = libraries.files(collectives, environment(first, plan.cluster))
        yield from ((f"servers/{name}", text) for name, text in told.items())
        yield "servers/sysctl.conf", sysctl()
        yield "servers/nccl-topology.xml", topology(plan.cluster)
        yield "servers/nccl-graph.xml", graph(plan.cluster)


def _refuse_unfiltered(plan: CablingPlan, system: SwitchSystem) -> None:
    tenancy = plan.cluster.plans["back_end"].tenancy
    if not system.filters and tenancy is not None and tenancy.mechanism.name == "acl":
        allowed = [name for name in system_names() if systems.get(name).filters]
        name = system.name
        raise InputError(
            f"{name.upper()} filters no packets", key="--os", found=name, allowed=allowed, hint="or `by: vrf`"
        )


SYSTEMS = ("sonic", "eos", "junos")
"""Systems whose files set up queues."""

MARK = "settings.json"
"""Every folder of the kind has it: what was meant, and what each file says."""

SERVERS, LEFT = "servers", "left to its operator"


@dataclass
class Reading:
    """One thing that is set.

    Attributes:
        found: By operating system, or `servers`: what the files say, as their readers have it.
    """

    what: str
    meant: Any
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        """Whether all files that can say it say it."""
        values = [value for value in self.found.values() if value != LEFT]
        return bool(values) and all(value == self.meant for value in values)


@dataclass
class Rendered:
    """Files of a cluster as a scenario sets it."""

    files: dict[str, str] = field(default_factory=dict)
    readings: list[Reading] = field(default_factory=list)
    left_out: tuple[str, ...] = ()


def rendered(draft: Draft, progress: Callable[[str, float], None], systems: Sequence[str] = SYSTEMS) -> Rendered:
    """All files, each compared with what was meant as it is made, and what they say of queues, interfaces and library.

    Raises:
        InputError: The scenario is wrong, or asks for something that switches cannot be configured to do.
        SimulationError: A file says otherwise than meant: an internal error.
    """
    plan = plan_of(as_set(compose.cluster_of(draft, compose.catalog_of(draft)), draft))
    library = collectives_of(draft, plan.cluster, progress)
    out = Rendered(left_out=library.left_out)
    for number, system in enumerate(systems):
        progress(f"files of {system}", number / len(systems))
        for name, text in files(plan, system, library):
            if name.startswith("switches/"):
                out.files[f"{system}/{name.removeprefix('switches/')}"] = text
            elif not name.endswith(".interfaces"):
                out.files[name] = text
    out.readings = [
        *_queues(plan, systems, out.files),
        *_interfaces(plan, out.files),
        *_library(plan, library, out.files),
    ]
    return out


def _queues(plan: CablingPlan, systems: Sequence[str], files: Mapping[str, str]) -> Iterator[Reading]:
    """Marks and shares of the buffer of the back-end's switches: one value where all of them agree."""
    if is_infiniband(plan, 0):
        return
    marks = Reading("marks: first and last bytes, percent", None)
    share = Reading("share of the free buffer that pauses", None)
    for system in systems:
        intents = list(switches(plan, 0, dialect(system)))
        read = system_named(system)
        facts = [read.facts(files[f"{system}/{intent.name}.{read.ending}"]) for intent in intents]
        if intents[0].marks:
            marks.meant = intents[0].red
            marks.found[system] = _common([one["red"] for one in facts]) if "red" in facts[0] else LEFT
        if intents[0].pauses:
            share.meant = intents[0].alpha
            found = _common([one["alpha"] for one in facts])
            share.found[system] = LEFT if found is None and share.meant == 1.0 else found
    yield from (one for one in (marks, share) if one.found)


def _common(sets: Sequence[set[Any]]) -> Any:
    """The one value of all switches; None where there is none, all of them where there are several."""
    values = set().union(*sets)
    return next(iter(values)) if len(values) == 1 and all(sets) else sorted(values) or None


def _interfaces(plan: CablingPlan, files: Mapping[str, str]) -> Iterator[Reading]:
    meant = dcqcn_values(plan.cluster.fabric)
    found = read(files.get(f"servers/{FILE}", ""))
    for name, value in meant.items():
        yield Reading(f"interfaces: {name}", value, {SERVERS: found.get(name)})


def _library(plan: CablingPlan, library: CollectivesIntent, files: Mapping[str, str]) -> Iterator[Reading]:
    written, fixed = variables(files.get("servers/nccl.conf", "")), library.fixed
    qps = int(plan.cluster.fabric.qps)
    names = [*([("NCCL_IB_QPS_PER_CONNECTION", str(qps))] if qps > 1 else []), *fixed.variables()]
    for name, value in names:
        yield Reading(name, value, {SERVERS: written.get(name)})
    rows = tuner_rows(files.get("servers/nccl-tuner.csv", ""))
    for line in fixed.tuner_rows():
        kind, _, _, algorithm, protocol, channels, *_ = line.split(",")
        yield Reading(
            f"tuner: {kind}", (algorithm.replace("_", ""), protocol, int(channels)), {SERVERS: rows.get(kind)}
        )
