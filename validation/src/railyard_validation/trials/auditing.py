"""Faults in the cabling of random fabrics: each named once, for what it is, and priced by what the job's paths lose."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from railyard.ask.deploy.cabling import dialects, drawn, plan_of
from railyard.work.scenario import load
from railyard.work.study import compose
from railyard_validation.trials.trial import Case, Trial, trials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railyard_validation.trials.trial import Output

RATES = {200: "4xHDR", 400: "4xNDR", 100: "4xEDR", 800: "4xXDR"}
"""Gb/s of four lanes."""


@dataclass(frozen=True)
class End:
    """A port: its device as the file calls it, and its name."""

    device: str
    port: str

    @property
    def host(self) -> str:
        """The server of `node00 mlx5_3`, or of `node00`."""
        return self.device.split()[0]

    def __str__(self) -> str:
        return f"{self.device}[{self.port}]"


@dataclass(frozen=True)
class Wire:
    """A cable, its lower end first."""

    a: End
    b: End
    gbps: int


@dataclass(frozen=True)
class Fabric:
    """A healthy network.

    Attributes:
        words: What was drawn.
        scenario: Whose plan it is.
        infiniband: Whether `ibnetdiscover` sees it; else LLDP does.
        wires: All cables.
        switches: Names.
    """

    words: str
    scenario: dict[str, Any]
    infiniband: bool
    wires: tuple[Wire, ...]
    switches: tuple[str, ...]

    def access(self) -> list[Wire]:
        """Cables of servers."""
        return [one for one in self.wires if one.a.device not in self.switches]

    def uplinks(self) -> list[Wire]:
        """Cables between switches."""
        return [one for one in self.wires if one.a.device in self.switches]

    def spines(self) -> list[str]:
        """Switches of the upper tier, in order."""
        return sorted({one.b.device for one in self.uplinks()})

    def leafs(self) -> list[str]:
        """Switches of the lower tier, in order."""
        return sorted({one.a.device for one in self.uplinks()})

    @property
    def servers(self) -> int:
        """How many."""
        return len({one.a.host for one in self.access()})


def fabric(random: np.random.Generator, *, rails: bool | None = None, infiniband: bool | None = None) -> Fabric:
    """Of a random size, with two tiers, three leafs and three spines at least."""
    rails = bool(random.random() < 0.5) if rails is None else rails
    infiniband = bool(random.random() < 0.5) if infiniband is None else infiniband
    gpus = int(random.choice([256, 320, 512] if rails else [192, 256, 384]))
    if not infiniband:  # its switches have twice the ports
        gpus *= 2
    name = "infiniband" if infiniband else str(random.choice(["roce", "spectrum-x"]))
    kind = "rail-optimized" if rails else "leaf-spine"
    training = {
        "model": "llama-3-8b",
        "tokens": "1 T",
        "global_batch": gpus,
        "sequence": 8192,
        "parallelism": {"tp": 8, "pp": 1, "zero": 1, "micro_batch": 1},
    }
    back_end = {"topology": {"kind": kind}, "fabric": name}
    cluster = {"accelerators": gpus, "server": "hgx-h100", "back_end": back_end}
    scenario = {"name": "site", "cluster": cluster, "workload": {"training": training}}
    draft = load.from_values(scenario)
    plan = plan_of(compose.cluster_of(draft, compose.catalog_of(draft)))
    found = drawn(plan, 0, dialects(plan, 0)[0])
    rows = zip(found.ends.tolist(), found.ports, found.rate_bps.tolist(), strict=True)
    wires = tuple(
        Wire(End(found.label[a], port), End(found.label[b], far), rate // 10**9) for (a, b), (port, far), rate in rows
    )
    switches = tuple(found.label[one] for one in np.flatnonzero(found.switch).tolist())
    return Fabric(f"{gpus} GPUs, {kind}, {name}", scenario, infiniband, wires, switches)


def ports_of(wires: Sequence[Wire]) -> dict[str, list[tuple[End, End, int]]]:
    """Cables by device, from its own side."""
    found: dict[str, list[tuple[End, End, int]]] = {}
    for one in wires:
        found.setdefault(one.a.device, []).append((one.a, one.b, one.gbps))
        found.setdefault(one.b.device, []).append((one.b, one.a, one.gbps))
    return found


def ibnetdiscover(
    random: np.random.Generator, wires: Sequence[Wire], switches: Sequence[str], same: Sequence[str] = ()
) -> str:
    """The fabric as `ibnetdiscover` prints it; devices in `same` have one GUID."""
    guid: dict[str, str] = {}
    for name in ports_of(wires):
        guid[name] = f"b83fd2{int(random.integers(0, 2**36)):09x}0"
    for name in same:
        guid[name] = guid[same[0]]
    listed = list(ports_of(wires).items())
    blocks = []
    for at in random.permutation(len(listed)).tolist():
        name, ports = listed[at]
        switch = name in switches
        letter = "switch" if switch else "ca"
        kind = 'Switch\t64 "S' if switch else 'Ca\t1 "H'
        head = f'{kind}-{guid[name]}"\t\t# "{name}"' + (" enhanced port 0 lid 0 lmc 0" if switch else "")
        lines = [f"{letter}guid=0x{guid[name]}({guid[name]})", head]
        for mine, far, gbps in sorted(ports, key=lambda row: int(row[0].port)):
            far_switch = far.device in switches
            key = f"{'S' if far_switch else 'H'}-{guid[far.device]}"
            own = "" if switch else f"({guid[name][:-1]}1)"
            theirs = "" if far_switch else f"({guid[far.device][:-1]}1)"
            words = f'# "{far.device}" lid 0' if switch else f'# lid 0 lmc 0 "{far.device}" lid 0'
            lines.append(f'[{mine.port}]{own}\t"{key}"[{far.port}]{theirs}\t\t{words} {RATES[gbps]}')
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def routes(enabled: bool) -> dict[str, Any]:
    """A capability that a device announces."""
    return {"type": "Router", "enabled": enabled}


def lldp(folder: Path, wires: Sequence[Wire], switches: Sequence[str]) -> None:
    """One file per switch, as lldpd prints its neighbours; hosts say nothing of themselves."""
    folder.mkdir(exist_ok=True)
    for name, ports in ports_of(wires).items():
        if name in switches:
            rows = [
                {
                    mine.port: {
                        "chassis": {
                            far.device: {"capability": [{"type": "Router", "enabled": far.device in switches}]}
                        },
                        "port": {
                            "id": {"type": "ifname", "value": far.port},
                            "auto-negotiation": {"current": f"{gbps}GBase"},
                        },
                    }
                }
                for mine, far, gbps in ports
            ]
            (folder / f"{name}.json").write_text(json.dumps({"lldp": {"interface": rows}}))


def written(
    random: np.random.Generator, folder: Path, net: Fabric, wires: Sequence[Wire], same: Sequence[str] = ()
) -> list[str]:
    """Writes what was found; the arguments that read it."""
    if net.infiniband:
        (folder / "fabric.txt").write_text(ibnetdiscover(random, wires, net.switches, same))
        return ["--ibnetdiscover", "fabric.txt"]
    lldp(folder / "neighbours", wires, net.switches)
    return ["--lldp", "neighbours"]


def commands(folder: Path, net: Fabric, found: Sequence[str], *, planned: bool) -> list[list[str]]:
    """The audit, with the scenario as its plan or without one."""
    (folder / "site.yaml").write_text(yaml.safe_dump(net.scenario))
    return [["audit", *found, *(["--plan", "site.yaml"] if planned else []), "--json"]]


def shown(row: dict[str, Any]) -> str:
    """A finding in a line."""
    dollars = "no price" if row["usd_per_month"] is None else f"${row['usd_per_month']:,.0f}"
    second = " and " + " - ".join(row["with"].values()) if row.get("with") else ""
    return f"{row['kind']} {row['a']} - {row['b']}{second} ({dollars}): {row['detail']}"


def rows(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    """The findings."""
    return list(outputs[0].data["findings"])


def only(found: list[dict[str, Any]], *names: str) -> list[str]:
    """Problems where there is another number of findings than one, or it does not name what it should."""
    if len(found) != 1:
        return [f"{len(found)} findings, not 1: {'; '.join(map(shown, found[:3]))}"]
    text = shown(found[0])
    return [f"it does not name {name}: {text}" for name in names if name not in text]


def priced(found: list[dict[str, Any]]) -> list[str]:
    """Problems where a finding costs nothing or has no price."""
    return [f"without a price: {shown(one)}" for one in found if not one["usd_per_month"]]


def said(planned: bool) -> str:
    """In words."""
    return "planned" if planned else "no plan"


def pick(random: np.random.Generator, listed: Sequence[Any]) -> Any:
    """One of them."""
    return listed[int(random.integers(len(listed)))]


def exchanged(wires: Sequence[Wire], one: Wire, other: Wire) -> list[Wire]:
    """Two cables with their upper plugs exchanged."""
    swap = {one: replace(one, b=other.b), other: replace(other, b=one.b)}
    return [swap.get(wire, wire) for wire in wires]


def swaps(random: np.random.Generator, folder: Path) -> Case:
    """Two hosts exchanged on one leaf and rail, which costs nothing, and two rails of one host, which costs little."""
    planned = bool(random.random() < 0.7)
    net = fabric(random, rails=True)
    one = pick(random, net.access())
    here = [w for w in net.access() if w.b.device == one.b.device and w.a.host != one.a.host]
    other = pick(random, here)
    busy = {one.a.host, other.a.host}
    first = pick(random, [w for w in net.access() if w.a.host not in busy])
    second = pick(random, [w for w in net.access() if w.a.host == first.a.host and w.b.device != first.b.device])
    wires = exchanged(exchanged(net.wires, one, other), first, second)
    found = written(random, folder, net, wires)

    def judge(outputs: Sequence[Output]) -> list[str]:
        listed = rows(outputs)
        named = {name: [row for row in listed if name in shown(row)] for name in (str(first.b), str(one.b))}
        rail, leaf = named[str(first.b)], named[str(one.b)]
        wrong = [f"a finding too many: {shown(row)}" for row in listed if row not in rail and row not in leaf]
        wrong += [f"{len(rail)} findings of the rails of {first.a.host}"] if len(rail) != 1 else []
        if planned and len(leaf) != 1:
            wrong.append(f"{len(leaf)} findings of the exchanged hosts")
        wrong += [f"it costs nothing: {shown(row)}" for row in leaf if row["usd_per_month"] or row["loss"]]
        most = 0.9 / net.servers if planned else 1.0  # without a plan shifts through static tables are the load
        wrong += [f"as dear as a server: {shown(row)}" for row in rail if not 0 <= row["loss"] < most]
        if rail and leaf and listed.index(rail[0]) > listed.index(leaf[0]):
            wrong.append("the exchanged hosts rank above the exchanged rails")
        return wrong

    words = f"{net.words}, {said(planned)}: {one.a}, {other.a} on {one.b.device}; rails of {first.a.host}"
    return Case(words, commands(folder, net, found, planned=planned), judge)


def switch_gone(random: np.random.Generator, folder: Path) -> Case:
    """A spine or a leaf that is in nobody's list."""
    planned = bool(random.random() < 0.5)
    net = fabric(random)
    listed = net.spines() if random.random() < 0.6 else net.leafs()
    # without its last leaf and all hosts of it, or its last switch by LLDP, a network is a smaller healthy one
    last = planned or (net.infiniband and (listed == net.spines() or "rail" in net.words))
    gone = pick(random, listed if last else listed[:-1])
    wires = [one for one in net.wires if gone not in (one.a.device, one.b.device)]
    found = written(random, folder, net, wires)
    middle = gone not in (listed[0], listed[-1])

    def judge(outputs: Sequence[Output]) -> list[str]:
        findings = rows(outputs)
        return [*only(findings, *([gone] if planned or middle else [])), *priced(findings)]

    words = f"{net.words}, {said(planned)}: without {gone}"
    return Case(words, commands(folder, net, found, planned=planned), judge)


def guid_twice(random: np.random.Generator, folder: Path) -> Case:
    """Two adapters with one GUID; each is cabled as it should be."""
    planned = bool(random.random() < 0.5)
    net = fabric(random, infiniband=True)
    one = pick(random, net.access())
    other = pick(random, [w for w in net.access() if w.a.host != one.a.host])
    found = written(random, folder, net, net.wires, (one.a.device, other.a.device))

    def judge(outputs: Sequence[Output]) -> list[str]:
        findings = rows(outputs)
        wrong = only(findings, one.a.device, other.a.device)
        text = " ".join(map(shown, findings))
        wrong += ["it does not speak of a GUID"] if "guid" not in text.lower() else []
        return wrong + (["it wants a plug moved"] if "move the plug" in text else []) + priced(findings)

    words = f"{net.words}, {said(planned)}: {one.a.device} and {other.a.device}"
    return Case(words, commands(folder, net, found, planned=planned), judge)


def seven_of_eight(random: np.random.Generator, folder: Path) -> Case:
    """Some hosts with a cable too few, found by InfiniBand or LLDP, without a plan."""
    net = fabric(random)
    hosts = sorted({one.a.host for one in net.access()})
    few = [hosts[at] for at in random.choice(len(hosts), int(random.integers(1, 3)), replace=False).tolist()]
    gone = [pick(random, [w for w in net.access() if w.a.host == host]) for host in few]
    wires = [one for one in net.wires if one not in gone]
    found = written(random, folder, net, wires)

    def judge(outputs: Sequence[Output]) -> list[str]:
        findings = rows(outputs)
        text = " ".join(map(shown, findings))
        wrong = [f"it does not name {one.b}, of {one.a}" for one in gone if str(one.b) not in text]
        wrong += [f"it does not name {one.a.host}" for one in gone if one.a.host not in text]
        wrong += [f"{len(findings)} findings, not {len(gone)}: {text}"] if len(findings) != len(gone) else []
        return wrong + priced(findings)

    words = f"{net.words}: without {', '.join(f'{one.a} - {one.b}' for one in gone)}"
    return Case(words, commands(folder, net, found, planned=False), judge)


def nothing_wrong(random: np.random.Generator, folder: Path) -> Case:
    """A healthy network: free ports that were meant to be free are no missing switch."""
    planned = bool(random.random() < 0.3)
    net = fabric(random)
    found = written(random, folder, net, net.wires)

    def judge(outputs: Sequence[Output]) -> list[str]:
        return [f"invented: {shown(one)}" for one in rows(outputs)[:3]]

    return Case(f"{net.words}, {said(planned)}", commands(folder, net, found, planned=planned), judge)


def host_gone(random: np.random.Generator, folder: Path) -> Case:
    """A planned server that is missing: one finding that costs as much as the server."""
    net = fabric(random)
    host = pick(random, net.access()).a.host
    wires = [one for one in net.wires if one.a.host != host]
    found = written(random, folder, net, wires)

    def judge(outputs: Sequence[Output]) -> list[str]:
        findings = rows(outputs)
        wrong = [*only(findings, host), *priced(findings)]
        least = 1 / net.servers
        return wrong + [f"less than a server: {one['loss']}" for one in findings if one["loss"] < 0.95 * least]

    return Case(f"{net.words}: without {host}", commands(folder, net, found, planned=True), judge)


def add(name: str, expected: str, draw: Callable[[np.random.Generator, Path], Case]) -> None:
    """Registers a trial."""
    trials.add(name, Trial(name, expected, draw))


add("audit-swaps", "a swap that changes neither leaf, rail nor speed costs nothing; others what paths lose", swaps)
add("audit-switch", "a missing switch is one finding with a price, with a plan and without", switch_gone)
add("audit-guid", "a duplicate GUID is reported as such", guid_twice)
add("audit-host-cable", "hosts with a cable too few are noticed over InfiniBand and LLDP alike", seven_of_eight)
add("audit-host", "a missing server is one finding", host_gone)
add("audit-clean", "nothing is invented on a healthy network", nothing_wrong)
