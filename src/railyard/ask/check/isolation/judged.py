"""A plan's tenants judged by the files of its switches: as written, or as somebody has changed them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.check.isolation import partitions
from railyard.ask.check.isolation.prove import Changes, Proof, Violation, prove
from railyard.ask.check.isolation.read import DUAL, configured
from railyard.ask.check.isolation.wired import Cable, Server, Wired
from railyard.ask.deploy.emit.configurations import files
from railyard.ask.deploy.emit.netlist import port_guids
from railyard.ask.deploy.plan.addresses import HOSTS6, addresses_of
from railyard.ask.deploy.plan.drawn import drawn, interface, is_infiniband
from railyard.ask.deploy.plan.shared import shared_of
from railyard.cluster.asbuilt.port_names import dialect
from railyard.cluster.tenancy import MECHANISMS
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.cluster.tenancy import Tenancy

BACK_END = "back-end"
NOBODY_NAME = "nobody"
PARTITIONS = "partitions.conf"


@dataclass(frozen=True)
class Judgement:
    """Whether tenants are apart.

    Attributes:
        findings: One a violation, in words.
        pairs: Ordered pairs of tenants that were asked about.
        files: That were read.
        remarks: What to know beside.
    """

    findings: tuple[str, ...]
    pairs: int
    files: int
    remarks: tuple[str, ...] = ()


def rendered(plan: Plan, system: str) -> dict[str, str]:
    """The files of the plan's back-end that keep tenants apart, by name without a folder."""
    wanted = ("switches/be-", "opensm/")
    return {name.split("/")[-1]: text for name, text in files(plan, system) if name.startswith(wanted)}


def judge(
    plan: Plan,
    system: str,
    texts: Mapping[str, str],
    progress: Callable[[str, float], None] | None = None,
) -> Judgement:
    """Judges files of switches.

    Args:
        plan: Cables, servers and tenants.
        system: Operating system of Ethernet switches.
        texts: Files by name without a folder.
        progress: Takes what is being done, and its share from 0 to 1.

    Raises:
        InputError: A file is missing, or cannot be read.
    """
    tenancy = plan.cluster.plans["back_end"].tenancy
    if tenancy is None:
        raise InputError("nobody shares the cluster", key="cluster.tenancy", allowed="tenants")
    if tenancy.mechanism.name == "job-key":
        raise InputError(
            "NICs keep tenants apart by their JobIDs: no file of a switch can show it",
            key="cluster.tenancy.by",
            found=tenancy.mechanism.name,
            allowed=[name for name in MECHANISMS if name != tenancy.mechanism.name],
        )
    meant = rendered(plan, system)
    if is_infiniband(plan, plan.networks.index(BACK_END)):
        return _partitioned(plan, tenancy, texts, meant)
    found = [prove(wired_of(plan, system, texts, family), progress) for family in _families(system)]
    return _judgement(together(found), texts, meant)


def _families(system: str) -> tuple[int, ...]:
    return (4, 6) if system in DUAL else (4,)


def together(found: Sequence[Proof]) -> Proof:
    """Proofs of several families as one: what is found in both is one finding, by the first."""
    violations: dict[tuple[str, str, str, str], Violation] = {}
    for one in (one for proof in found for one in proof.violations):
        violations.setdefault((one.source.name, one.source.tenant, one.target.name, one.target.tenant), one)
    joined = dict.fromkeys(words for proof in found for words in proof.joined)
    return Proof(tuple(violations.values()), found[0].pairs, tuple(joined))


def _judgement(found: Proof, texts: Mapping[str, str], meant: Mapping[str, str]) -> Judgement:
    changes = Changes(texts, meant)
    words = tuple(replace(one, blamed=changes.blamed(one.path)).words() for one in found.violations)
    return Judgement(words, found.pairs, len(texts), found.joined)


def wired_of(plan: Plan, system: str, texts: Mapping[str, str], family: int = 4) -> Wired:
    """Switches as their files have them, cables and servers as planned.

    Raises:
        InputError: A file is missing, or cannot be read.
    """
    number = plan.networks.index(BACK_END)
    found = drawn(plan, number, dialect(system))
    cables = [
        Cable(found.devices[one.a].name, one.a_port, found.devices[one.b].name, one.b_port)
        for one in found.cables
        if found.devices[one.a].kind == "switch" and found.devices[one.b].kind == "switch"
    ]
    names = [device.name for device in found.devices if device.kind == "switch"]
    switches = {name: configured(system, name, texts, family) for name in names}
    carrier = wired_of(plan, system, texts) if family == 6 else None
    return Wired(switches, tuple(cables), tuple(_servers(plan, number, system, family)), carrier)


def _servers(plan: Plan, number: int, system: str, family: int) -> list[Server]:
    """Ports of servers with the addresses that the plan gives them."""
    cables, shared, numbers = plan.cables, shared_of(plan, number), addresses_of(plan)
    names = dialect(system)
    found = []
    for row in np.flatnonzero((cables.network == number) & (plan.devices.level[cables.a] == 0)).tolist():
        owner = int(shared.owner[row])
        tenant = NOBODY_NAME if owner < 0 or shared.tenancy is None else shared.tenancy.tenants[owner].name
        cage, lane, lanes = int(cables.b_cage[row]), int(cables.b_lane[row]), int(cables.b_lanes[row])
        port = names.port(cage, None if lanes == 1 else lane, lanes)
        host = f"{plan.devices.name[cables.a[row]]}[{interface(BACK_END, int(cables.a_port[row]))}]"
        own = int(numbers.access[row]) + 1
        address = IPv4Address(own) if family == 4 else IPv6Address(HOSTS6 | own)
        found.append(Server(host, tenant, address, plan.devices.name[cables.b[row]], port))
    return found


def _partitioned(plan: Plan, tenancy: Tenancy, texts: Mapping[str, str], meant: Mapping[str, str]) -> Judgement:
    """InfiniBand: keys of ports, whatever way packets take."""
    if PARTITIONS not in texts:
        raise InputError("the subnet manager has no file of partitions", found=sorted(texts)[:4], allowed=PARTITIONS)
    guids = port_guids(drawn(plan, plan.networks.index(BACK_END), dialect("infiniband")))
    ports: dict[str, tuple[str, str]] = {}
    for (server, nic), owner in np.ndenumerate(tenancy.owner):
        name = f"{plan.devices.name[server]} mlx5_{nic}"
        ports[f"0x{guids[name]:x}"] = (name, NOBODY_NAME if owner < 0 else tenancy.tenants[owner].name)
    read = partitions.read(PARTITIONS, texts[PARTITIONS])
    tenant_of = dict(ports.values())
    planned = {row.strip() for row in meant.get(PARTITIONS, "").splitlines()}
    findings = []
    for one in partitions.speaking(read, ports):
        lines = [line for line in dict.fromkeys(one.lines) if line.text not in planned] or list(one.lines)
        findings.append(
            f"`{tenant_of[one.source]}` reaches `{tenant_of[one.target]}`: {one.source} to {one.target} by partition"
            f" 0x{one.key:x}; because of {'; '.join(f'`{line.words()}`' for line in lines)}"
        )
    tenants = len(set(tenant_of.values()))
    return Judgement(tuple(findings), tenants * (tenants - 1), 1)
