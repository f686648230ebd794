"""A plan's tenants judged by the files of its switches: as written, or as changed by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.check.isolation.prove import ConfigChanges, Proof, Violation, prove
from railyard.ask.check.isolation.routes import AttachedServer, Wired
from railyard.ask.deploy.cabling import HOSTS6, addresses_of, drawn, is_infiniband
from railyard.ask.deploy.configured import Line
from railyard.ask.deploy.emit.configurations import files
from railyard.ask.deploy.emit.labs import port_guids
from railyard.ask.deploy.system import systems
from railyard.ask.deploy.tenants import shared_of
from railyard.cluster.network_table import dialect
from railyard.cluster.tenancy import MECHANISMS
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.network_table import NetworkTable
    from railyard.cluster.tenancy import Tenancy


ALL = ("ALL", "ALL_CAS")
DEFAULT = 0x7FFF
UNRULED = Line("partitions.conf", 0, "no rule for Default: ALL=limited, SELF=full")


@dataclass(frozen=True)
class PartitionMember:
    """A port in a partition.

    Attributes:
        full: Or limited: limited ones do not speak to each other.
    """

    full: bool
    line: Line


Partitions = dict[int, dict[str, PartitionMember]]
"""Members by key (15 bits) and port, as the file writes it; `ALL` for all."""


def read_partitions(file: str, text: str) -> Partitions:
    """The partitions of a file; definitions of one key are put together, and the last word on a port counts.

    One definition that OpenSM cannot read makes it forget the file: all ports are then full members of the default
    partition. So it was seen of OpenSM 3.3; flags that it does not know it passes over, and
    a membership that it does not know is a limited one.

    Args:
        file: Name of the file, for errors.
        text: Content of the file. OpenSM makes ports that it does not name limited members of the default partition.
    """
    found: Partitions = {DEFAULT: {"ALL": PartitionMember(full=False, line=UNRULED)}}
    names = {DEFAULT: "Default"}
    for words, line in _statements(file, text):
        head, colon, body = words.partition(":")
        flags = [part.strip() for part in head.split(",")]
        key = _key(flags[0], names)
        parts = [part.strip() for part in body.split(",")]
        if not colon or key is None or not all(_PORT.fullmatch(part) for part in parts if part):
            why = f"{line.text} (OpenSM cannot read this: all ports become full members of one partition)"
            return {DEFAULT: {"ALL": PartitionMember(full=True, line=Line(file, line.number, why))}}
        full = any(re.fullmatch(r"defmember\s*=\s*(full|both)", flag) for flag in flags[1:])
        mine = found.setdefault(key, {})
        for part in filter(None, parts):
            name, _, kind = (piece.strip() for piece in part.partition("="))
            name = name if not name[:1].isdigit() else f"0x{int(name, 0):x}"
            if name in ALL:
                mine.clear()  # what comes later counts, and this is about each port
            mine[name] = PartitionMember(kind in ("full", "both") if kind else full, line)
    return found


_PORT = re.compile(r"(ALL|ALL_CAS|ALL_SWITCHES|ALL_ROUTERS|SELF|0x0*[1-9a-fA-F][0-9a-fA-F]*|[1-9]\d*)\s*(=.*)?")


def _key(words: str, names: dict[int, str]) -> int | None:
    """15 bits; None: it is none, or none is free.

    A name without a key, or with 0, is the partition of that name (seen of OpenSM 3.3: of several the first by their
    keys' bytes on the wire, read as this machine does), and else the lowest key that is free.

    Args:
        words: Of the definition.
        names: By key, of the partitions so far; gets that of this one.
    """
    name, equals, number = (part.strip() for part in words.partition("="))
    if equals and not re.fullmatch(r"0x[0-9a-fA-F]+|0|[1-9]\d*", number):
        return None
    key = int(number or "0", 0) & DEFAULT
    if not key:
        alike = [one for one, its in names.items() if its == name]
        swapped = sorted(alike, key=lambda one: one.to_bytes(2, "little"))
        key = swapped[0] if swapped else next((free for free in range(1, DEFAULT) if free not in names), 0)
    if not key:
        return None
    names.setdefault(key, name)
    return key


def _statements(file: str, text: str) -> Iterator[tuple[str, Line]]:
    """Definitions, each up to its semicolon or the end, with the line on which it begins.

    Members end with their line, as with a comma; a definition's first line has its colon, or OpenSM reads none.
    """
    gathered, first = "", 0
    for number, row in enumerate(text.splitlines(), start=1):
        plain = row.split("#")[0].strip()
        if not plain:
            continue
        first = first or number
        gathered = f"{gathered}, {plain}" if gathered else plain
        while ";" in gathered:
            words, _, gathered = gathered.partition(";")
            yield words, Line(file, first, f"{words.strip()};")
            gathered = gathered.strip()
            first = number if gathered else 0
        if gathered and ":" not in gathered:
            yield gathered, Line(file, first, gathered)
            gathered, first = "", 0
    if gathered.strip():
        yield gathered, Line(file, first, gathered.strip())


@dataclass(frozen=True)
class Speaking:
    """Two ports of different tenants in a partition, one of them at least a full member."""

    source: str
    target: str
    key: int
    lines: tuple[Line, ...]


def speaking(partitions: Partitions, ports: Mapping[str, tuple[str, str]]) -> Iterator[Speaking]:
    """Tenants that are not isolated, a pair of ports for each pair of tenants and each partition.

    Args:
        partitions: As read.
        ports: By address, as the file writes it: name of the port, and its tenant.
    """
    for key, members in partitions.items():
        everybody = next((members[name] for name in ALL if name in members), None)
        mine = {port: members.get(port, everybody) for port in ports}
        best: dict[str, tuple[str, PartitionMember]] = {}
        for port, member in mine.items():
            tenant = ports[port][1]
            if member is not None and (tenant not in best or (member.full and not best[tenant][1].full)):
                best[tenant] = port, member
        for tenant, (port, member) in best.items():
            for other, (far, theirs) in best.items():
                if tenant != other and (member.full or theirs.full):
                    yield Speaking(ports[port][0], ports[far][0], key, (member.line, theirs.line))


BACK_END = "back-end"
NOBODY_NAME = "nobody"
PARTITIONS = "partitions.conf"


@dataclass(frozen=True)
class Judgement:
    """Whether tenants are isolated.

    Attributes:
        pairs: Ordered pairs of tenants that were asked about.
    """

    findings: tuple[str, ...]
    pairs: int
    files: int
    remarks: tuple[str, ...] = ()


def rendered(plan: CablingPlan, system: str) -> dict[str, str]:
    """The files of the plan's back-end that isolate tenants, by name without a folder."""
    wanted = ("switches/be-", "opensm/")
    return {name.split("/")[-1]: text for name, text in files(plan, system) if name.startswith(wanted)}


def judge(
    plan: CablingPlan,
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
        raise InputError("the cluster has no tenants", key="cluster.tenancy", allowed="tenants")
    if tenancy.mechanism.name == "job-key":
        raise InputError(
            "NICs separate tenants by JobID: switch configurations cannot show it",
            key="cluster.tenancy.by",
            found=tenancy.mechanism.name,
            allowed=[name for name in MECHANISMS if name != tenancy.mechanism.name],
        )
    meant = rendered(plan, system)
    if is_infiniband(plan, plan.networks.index(BACK_END)):
        return _partitioned(plan, tenancy, texts, meant)
    found = [prove(wired_of(plan, system, texts, family), progress) for family in systems.get(system).families]
    return _judgement(together(found), texts, meant)


def together(found: Sequence[Proof]) -> Proof:
    """Proofs of several families as one: what is found in both is one finding, by the first."""
    violations: dict[tuple[str, str, str, str], Violation] = {}
    for one in (one for proof in found for one in proof.violations):
        violations.setdefault((one.source.name, one.source.tenant, one.target.name, one.target.tenant), one)
    joined = dict.fromkeys(words for proof in found for words in proof.joined)
    return Proof(tuple(violations.values()), found[0].pairs, tuple(joined))


def _judgement(found: Proof, texts: Mapping[str, str], meant: Mapping[str, str]) -> Judgement:
    changes = ConfigChanges(texts, meant)
    words = tuple(replace(one, blamed=changes.blamed(one.path)).words() for one in found.violations)
    return Judgement(words, found.pairs, len(texts), found.joined)


def wired_of(plan: CablingPlan, system: str, texts: Mapping[str, str], family: int = 4) -> Wired:
    """Switches as their files have them, cables and servers as planned.

    Raises:
        InputError: A file is missing, or cannot be read.
    """
    number = plan.networks.index(BACK_END)
    network = drawn(plan, number, dialect(system))
    names = [network.name[device] for device in np.flatnonzero(network.switch).tolist()]
    switches = {name: systems.get(system).configured(name, texts, family) for name in names}
    carrier = wired_of(plan, system, texts) if family == 6 else None
    return Wired(switches, network, tuple(_servers(plan, number, network, family)), carrier)


def _servers(plan: CablingPlan, number: int, network: NetworkTable, family: int) -> Iterator[AttachedServer]:
    shared, addresses = shared_of(plan, number), addresses_of(plan).access
    rows = plan.of_network(BACK_END)
    for cable in network.access.tolist():
        (host, switch), (nic, port), row = network.ends[cable].tolist(), network.ports[cable], int(rows[cable])
        owner, own = int(shared.owner[row]), int(addresses[row]) + 1
        tenant = NOBODY_NAME if owner < 0 or shared.tenancy is None else shared.tenancy.tenants[owner].name
        address = IPv4Address(own) if family == 4 else IPv6Address(HOSTS6 | own)
        yield AttachedServer(network.end_words(host, nic), tenant, address, network.name[switch], port)


def _partitioned(plan: CablingPlan, tenancy: Tenancy, texts: Mapping[str, str], meant: Mapping[str, str]) -> Judgement:
    if PARTITIONS not in texts:
        raise InputError("the subnet manager has no file of partitions", found=sorted(texts)[:4], allowed=PARTITIONS)
    guids = port_guids(drawn(plan, plan.networks.index(BACK_END), dialect("infiniband")))
    ports: dict[str, tuple[str, str]] = {}
    for (server, nic), owner in np.ndenumerate(tenancy.owner):
        name = f"{plan.devices.name[server]} mlx5_{nic}"
        ports[f"0x{guids[name]:x}"] = (name, NOBODY_NAME if owner < 0 else tenancy.tenants[owner].name)
    read = read_partitions(PARTITIONS, texts[PARTITIONS])
    tenant_of = dict(ports.values())
    planned = {row.strip() for row in meant.get(PARTITIONS, "").splitlines()}
    findings = []
    for one in speaking(read, ports):
        lines = [line for line in dict.fromkeys(one.lines) if line.text not in planned] or list(one.lines)
        findings.append(
            f"`{tenant_of[one.source]}` reaches `{tenant_of[one.target]}`: {one.source} to {one.target} by partition"
            f" 0x{one.key:x}; because of {'; '.join(f'`{line.words()}`' for line in lines)}"
        )
    tenants = len(set(tenant_of.values()))
    return Judgement(tuple(findings), tenants * (tenants - 1), 1)
