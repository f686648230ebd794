"""Parts of hosts: some that are not there, narrow PCIe links, slow or dead ports, odd frames and firmware."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from railyard.ask.audit.symptom import AuditFinding, Symptom
from railyard.cluster.nccl.machines import GT_S
from railyard.cluster.network_table import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.cluster.asbuilt.reported.reports import HostPart, Reports
    from railyard.cluster.network_table import NetworkTable


UNPRICED = {
    "firmware": "the effect of this version is unknown",
    "mtu": "which packets of this interface are dropped depends on its peers",
}
"""Figures whose difference has no price, and why."""

LIKE = 3
"""Hosts that must be alike before another one counts as different."""


def symptoms(network: NetworkTable, reports: Reports, plan: CablingPlan | None) -> list[Symptom]:
    """Findings of all hosts."""
    hosts: dict[str, list[HostPart]] = defaultdict(list)
    for one in reports.parts:
        hosts[one.host].append(one)
    ranks = plan.cluster.ranks_per_server if plan is not None else 0
    parts = [one for mine in hosts.values() for one in mine]
    return [
        *_counts(network, hosts, ranks),
        *_narrow(network, [one for one in parts if one.pcie_lanes]),
        *(symptom for figure in _FIGURES for symptom in _unlike(network, parts, figure)),
        *_down(parts),
    ]


def _counts(network: NetworkTable, hosts: dict[str, list[HostPart]], ranks: int) -> list[Symptom]:
    """Hosts with fewer accelerators or NICs than planned, or than most."""
    out = []
    for kind in ("accelerator", "nic"):
        names = {host: {one.name for one in parts if one.kind == kind} for host, parts in hosts.items()}
        count = {host: len(mine) for host, mine in names.items() if mine}
        usual = ranks if kind == "accelerator" and ranks else _usual(count.values())
        for host, number in count.items():
            if usual and number < usual:
                words = f"{number} of {usual} {kind}s are there"
                finding = AuditFinding("missing-part", host, UNKNOWN, words)
                out.append(Symptom(finding, tuple((n, 0.0) for n in network.cables_of_host(host))))
    return out


def _usual(values: Iterable[Any]) -> Any:
    """The value of more than half; None if there is none."""
    count = Counter(values)
    if not count:
        return None
    value, times = count.most_common(1)[0]
    return value if times >= LIKE and 2 * times > count.total() else None


def pcie_bps(gt_s: float, lanes: int) -> float:
    """Data rate of a PCIe link, before its packets' headers."""
    return gt_s * 1e9 * GT_S.get(gt_s, 128 / 130) * lanes


def _narrow(network: NetworkTable, parts: list[HostPart]) -> list[Symptom]:
    """PCIe links with fewer lanes or less speed than both ends support, or than most similar parts have."""
    like: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for one in parts:
        like[one.kind, one.model].append((one.pcie_gt_s, one.pcie_lanes))
    usual = {key: _usual(values) for key, values in like.items()}
    out = []
    for one in parts:
        speed, lanes = usual[one.kind, one.model] or (one.pcie_gt_s_possible, one.pcie_lanes_possible)
        few = lanes and one.pcie_lanes < lanes
        slow = speed and one.pcie_gt_s and one.pcie_gt_s < speed
        if few or slow:
            words = f"PCIe x{one.pcie_lanes} at {one.pcie_gt_s or speed:g} GT/s, similar: x{lanes} at {speed:g}"
            out.append(_waits(network, one, words, pcie_bps(one.pcie_gt_s or speed, one.pcie_lanes)))
    return out


def _waits(network: NetworkTable, part: HostPart, words: str, bits: float) -> Symptom:
    """A NIC behind a narrow link carries less than its cable; an accelerator's own wait for that is not known."""
    name = f"{part.host} {part.name}"
    device = network.number(name)
    device = network.number(part.host) if device is None else device
    why = "" if part.kind == "nic" and device is not None else "what waits for this link is unknown"
    finding = AuditFinding("degraded", name, UNKNOWN, words, unpriced=why)
    if why:
        return Symptom(finding)
    assert device is not None
    mine = [n for n in network.cables_of[device].values() if network.rate_bps[n] > bits]
    rate = int(network.rate_bps[mine].max(initial=0))
    return Symptom(finding, tuple((n, bits / rate) for n in mine[:1])) if rate else Symptom(finding)


# What parts of one model have in common: kind of part, its field of `HostPart`, the kind of finding, and the unit.
_FIGURES = (
    ("nic", "rate_bps", "wrong-speed", "b/s"),
    ("interface", "mtu", "wrong-mtu", "bytes"),
    ("nic", "firmware", "firmware", "firmware"),
    ("accelerator", "firmware", "firmware", "firmware"),
)


def _unlike(network: NetworkTable, parts: list[HostPart], figure: tuple[str, str, str, str]) -> list[Symptom]:
    """Parts that have another figure than most of their model; interfaces by the name that they have in their hosts."""
    kind, field, finding, unit = figure
    like: dict[tuple[str, str], list[tuple[str, Any]]] = defaultdict(list)
    for one in parts:
        value = getattr(one, field)
        if one.kind == kind and value:
            like[one.model, one.name if kind == "interface" else ""].append((f"{one.host} {one.name}", value))
    out = []
    for members in like.values():
        usual = _usual(value for _, value in members)
        for name, value in members:
            if usual is not None and value != usual:
                words = f"{_number(value)} {unit}, {_number(usual)} is usual"
                slow = field == "rate_bps" and value < usual
                cables = _slow(network, name, value / usual) if slow else ()
                out.append(
                    Symptom(AuditFinding(finding, name, UNKNOWN, words, unpriced=UNPRICED.get(field, "")), cables)
                )
    return out


def _slow(network: NetworkTable, part: str, share: float) -> tuple[tuple[int, float], ...]:
    device = network.number(part)
    mine = [] if device is None else network.cables_of[device].values()
    return tuple((number, share) for number in mine)[:1]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _down(parts: list[HostPart]) -> list[Symptom]:
    """Ports without a link where the same port of most hosts has one."""
    state: dict[tuple[str, str], dict[str, bool]] = defaultdict(dict)
    for one in parts:
        if one.up is not None:
            state[one.kind, one.name][one.host] = one.up
    return [
        Symptom(AuditFinding("link-down", f"{host} {name}", UNKNOWN, "no link, where most hosts have one"))
        for (_, name), up in state.items()
        if _usual(up.values())
        for host, there in up.items()
        if not there
    ]
