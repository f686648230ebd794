"""Ports that err, by their counters.

Errors of the physical layer are guilt: bits of this cable arrive wrong. Waiting and pausing are not: who waits for
credits, or had to pause, waits for something slow further down, and is only mentioned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railyard.ask.observe.diagnosis.verdict import Diagnosis, suspect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railyard.cluster.network_table import NetworkTable

    Port = tuple[int, str]

    from numpy.typing import NDArray

    from railyard.graph import Record

    Floats = NDArray[np.float64]
    from railyard.ask.observe.answer import PriceOfParts
    from railyard.ask.observe.reader import Count, Piece


WAITS = 0.1
"""Share of the longest wait of all ports from which a port counts as waiting."""

MAIN = 0.6
"""Share of all waiting that must lead to one end for it to be named."""

SURE = 0.6
"""Confidence in that end: it accepts data slowly, or too many send to it."""


@dataclass(frozen=True)
class End:
    """An end that waiting leads to.

    Attributes:
        way: Ports on the way from the worst of those that lead there, in words.
    """

    part: str
    is_host: bool
    share: float
    way: tuple[str, ...]


def located(cabling: NetworkTable, where: str, port: str) -> Port | None:
    """The device and port that a counter means; None where the discovery has none such.

    Args:
        cabling: The discovery.
        where: As the counter's file calls its device: a name, `lid 6`, a GUID.
        port: As it calls the port: `port 5`, `mlx5_0 port 1`.
    """
    number = port.rpartition("port ")[2].strip() if "port " in port else port
    address = cabling.addresses.get(where) or cabling.addresses.get(where.removeprefix("0x").lstrip("0").lower())
    if address is not None:
        return address[0], address[1] or number
    part = port.partition(" ")[0]
    for at, (kind, own) in enumerate(zip(cabling.kind, cabling.part, strict=True)):
        if where in (cabling.name[at], cabling.label[at]) and (kind != "host" or own in ("", part)):
            return at, number if kind == "switch" or "port " in port else "1"
    return None


def ends(cabling: NetworkTable, waiting: Mapping[Port, float]) -> list[End]:
    """Ends that the waiting of ports leads to, most of it first."""
    far = _far(cabling)
    least = WAITS * max(waiting.values(), default=0.0)
    starts = {port: value for port, value in waiting.items() if value >= least and value > 0 and port in far}
    found: dict[int, list[tuple[float, list[Port]]]] = defaultdict(list)
    for port, value in starts.items():
        way = _way(port, starts, far)
        found[far[way[-1]][0]].append((value, way))
    total = sum(starts.values())
    listed = [
        End(
            _name(cabling, device),
            cabling.kind[device] == "host",
            sum(value for value, _ in those) / total,
            tuple(f"{_name(cabling, at)} port {name}" for at, name in max(those)[1]),
        )
        for device, those in found.items()
    ]
    return sorted(listed, key=lambda end: -end.share)


def _far(cabling: NetworkTable) -> dict[Port, Port]:
    devices = enumerate(cabling.far_ends)
    return {(device, port): (far, far_port) for device, mine in devices for port, _, far, far_port in mine}


def _way(port: Port, waiting: Mapping[Port, float], far: Mapping[Port, Port]) -> list[Port]:
    """Ports from one that waits to the last one, each time over the port of the next device that waits longest."""
    way, seen = [port], {port[0]}
    while True:
        device, arrived = far[way[-1]]
        on = [one for one in waiting if one[0] == device and one[1] != arrived and far[one][0] not in seen]
        if not on or device in seen:
            return way
        seen.add(device)
        way.append(max(on, key=lambda one: waiting[one]))


def _name(cabling: NetworkTable, device: int) -> str:
    return " ".join(filter(None, (cabling.name[device], cabling.part[device])))


def summed(ports: Sequence[tuple[Port, float]]) -> dict[Port, float]:
    """Waiting by port."""
    found: dict[Port, float] = defaultdict(float)
    for port, value in ports:
        found[port] += value
    return dict(found)


AS_BAD = 0.5
"""Share of the time of a part's worst link from which other links are as bad."""

COMMON = 0.02
"""Share of all time at full load that says nothing of a link."""

LEAST_COUNTED = 1e-3
"""Share of the step: less time at full load, or under pause, proves nothing."""


def pointed_at(record: Record, healthy: Record, physical: int) -> Floats:
    """float64[physical links], each link's share of all excess time; they sum to 1, or are 0 if there is none."""
    table, usual = record.tables.get("links", {}), healthy.tables["links"]
    if "pause_origin" in table and "paused_ps" in table:
        found = _origins(table["paused_ps"], table["pause_origin"], physical)
    elif "full_ps" in table:
        found = np.maximum(table["full_ps"][:physical].astype(np.float64) - usual["full_ps"][:physical], 0)
    else:
        found = np.zeros(physical)
    total = float(found.sum())
    return found / total if total > LEAST_COUNTED * record.makespan_ps else np.zeros(physical)


def stands_out(share: Floats, links: Sequence[int]) -> float:
    """How much counters point at some links, 0 to 1: they are far worse than the others, and all that are as bad."""
    mine = share[list(links)]
    worst = float(mine.max())
    if worst <= 0:
        return 0.0
    others = np.delete(share, list(links))
    usual = float(np.quantile(others, 0.95)) if len(others) else 0.0
    bad = float(others[others >= AS_BAD * worst].sum())
    covered = float(mine[mine >= AS_BAD * worst].sum())
    return worst / (worst + usual + COMMON) * covered / (covered + bad)


def bad_share(share: Floats, carries: NDArray[np.bool_], links: Sequence[int]) -> float:
    """Share of a part's cables in use with a port about as bad as its worst one, 0 to 1.

    Args:
        share: As of `pointed_at`.
        carries: bool[physical links].
        links: Of a part, both directions of its cables: queues form at one end of each.
    """
    mine = np.array(links, np.int64)
    used = int(carries[mine].sum())
    bad = int((share[mine] >= AS_BAD * max(float(share[mine].max()), 1e-12)).sum())
    return min(2 * bad / max(used, 1), 1.0)


def _origins(paused_ps: NDArray[np.int64], origin: NDArray[np.int32], physical: int) -> Floats:
    known = (paused_ps > 0) & (origin >= 0) & (origin < physical)
    weights = paused_ps[known].astype(np.float64)
    return np.bincount(origin[known], weights=weights, minlength=physical).astype(np.float64)


GUILTY = re.compile(
    r"symbol_?error|link_?downed|link_?error_?recovery|local_?link_?integrity|PortRcvErrors|port_rcv_errors|fcs_?err|crc_err|"
    r"_crc_|icrc|in_?errors|IN_ERRORS|carrier_changes|phy_.*err|XID_ERRORS|ECC_DBE|PCIE_REPLAY|REPLAY_ERROR|RECOVERY_ERROR",
    re.IGNORECASE,
)
WAITING = re.compile(
    r"xmit_?wait|pause|PFC_\d_RX|out_of_sequence|xmit_?discards|out_?discards|ecn_marked|cnp_", re.IGNORECASE
)
FAR = 20.0
"""Multiple of the median of all ports with errors, and at least `LEAST`, from which errors are far too many."""
LEAST = 100.0
MOST_NAMED = 10
"""Ports at most that are named: where more err, something else is wrong."""

WORSE = 5.0
"""Multiple of the next port: below it several are as bad, and each is named with less confidence."""


def diagnose_ports(pieces: Sequence[Piece], price: PriceOfParts | None = None) -> Diagnosis:
    """Finds ports with errors, ports that wait, and what they wait for.

    Args:
        pieces: Counters, and cables where a discovery is among them.
        price: What an hour of accelerators costs, where that is known.
    """
    answer = Diagnosis()
    cabling = next((piece.cabling for piece in pieces if piece.cabling), None)
    counts = [one for piece in pieces for one in piece.counts]
    erring: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    waiting: dict[tuple[str, str], float] = defaultdict(float)
    for one in counts:
        key = one.where, one.port
        if one.value > 0 and GUILTY.search(one.name):
            erring[key][one.name] = max(erring[key].get(one.name, 0.0), one.value)
        elif one.value > 0 and WAITING.search(one.name):
            waiting[key] += one.value
    _errors(erring, _usual(counts), cabling, price, answer)
    if waiting:
        _waits(waiting, cabling, price, answer)
    answer.notes.append(
        "counters accumulate from when they were cleared: a second capture a few minutes later shows whether they grow"
    )
    return answer


def _errors(
    erring: Mapping[tuple[str, str], dict[str, float]],
    usual: Mapping[str, float],
    cabling: NetworkTable | None,
    price: PriceOfParts | None,
    answer: Diagnosis,
) -> None:
    """Names ports with far more errors of the physical layer than others."""
    sums = {
        key: sum(value / max(usual.get(name, 0.0), 1.0) for name, value in by.items()) for key, by in erring.items()
    }
    far = {key: value for key, value in sums.items() if value > FAR and max(erring[key].values()) >= LEAST}
    for key, value in sorted(far.items(), key=lambda one: -one[1])[:MOST_NAMED]:
        rest = max((other for name, other in sums.items() if name != key), default=0.0)
        listed = sorted(erring[key].items(), key=lambda one: -one[1])[:4]
        words = ", ".join(f"{name} {count:,.0f}" for name, count in listed) + _leads_to(cabling, *key)
        part = " ".join(word for word in key if word)
        kind = _kind(part, erring[key])
        usd = None if price is None else price.of(kind)
        answer.verdict.append(suspect(part, kind, 0.9 if value > WORSE * max(rest, 1.0) else 0.7, words, usd))


def _leads_to(cabling: NetworkTable | None, where: str, port: str) -> str:
    here = None if cabling is None else located(cabling, where, port)
    if cabling is None or here is None:
        return ""
    device, name = here
    far = _far(cabling).get((device, name))
    if far is None:
        return ""
    return f"; the cable from {cabling.label[device]} port {name} to {cabling.label[far[0]]}"


def _waits(
    waiting: Mapping[tuple[str, str], float],
    cabling: NetworkTable | None,
    price: PriceOfParts | None,
    answer: Diagnosis,
) -> None:
    blamed = {one.part for one in answer.verdict}
    named = {" ".join(filter(None, key)): value for key, value in waiting.items()}
    others = sorted((one for one in named.items() if one[0] not in blamed), key=lambda one: -one[1])[:4]
    if others:
        words = ", ".join(f"{name} ({value:,.0f})" for name, value in others)
        answer.notes.append(f"these ports wait or were paused, which is not their fault (look downstream): {words}")
    found = []
    if cabling is not None:
        placed = [(located(cabling, *key), value) for key, value in waiting.items()]
        found = ends(cabling, summed([(port, value) for port, value in placed if port is not None]))
    if found and found[0].is_host and found[0].share >= MAIN:
        end = found[0]
        words = f"{end.share:.0%} of all waiting leads to it: {' -> '.join(end.way)}; it accepts data slowly"
        answer.verdict.append(suspect(end.part, "nic", SURE, words, None if price is None else price.of("nic")))
        return
    answer.notes += [
        f"{one.share:.0%} of all waiting leads to {one.part} by {' -> '.join(one.way)}" for one in found[:3]
    ]
    if cabling is None:
        answer.notes.append("add the output of ibnetdiscover to trace the waiting to its source")
    answer.unknown = answer.unknown or not answer.verdict


def _usual(counts: Sequence[Count]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for one in counts:
        values[one.name].append(one.value)
    return {name: float(np.median(those)) for name, those in values.items() if len(those) > 2}


def _kind(part: str, counters: dict[str, float]) -> str:
    if any(name.startswith("DCGM_") for name in counters):
        return "accelerator"
    return "nic" if "mlx5" in part or "bnxt" in part or "eth" in part else "cable"
