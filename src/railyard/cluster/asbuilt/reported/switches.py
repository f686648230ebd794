"""Forwarding tables of InfiniBand switches: OpenSM's `opensm-lfts.dump`, `dump_fts`, `dump_lfts` and `ibroute`.

A heading names the switch (`Unicast lids [0-22] of switch Lid 2 guid 0x0000000000200000 ('spine0'):`), and each line
gives a destination's address, the port, and the destination: `0x0001 001 # Channel Adapter portguid 0x...: 'node0000'`
or `0x0001 065 : (Channel Adapter portguid 0x...: 'node000')`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from railyard.cluster.asbuilt.reported.reports import (
    Configuration,
    DeviceReport,
    InstalledRoute,
    PortCount,
    ReportedSession,
    ReportReader,
    Reports,
    readers,
)
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_PORT = re.compile(r"^# Port (?:extended )?counters: (?:Lid|DR path slid) (\S+).*? port (\d+)", re.IGNORECASE)
_VALUE = re.compile(r"^([A-Za-z0-9]+):\.{2,}(0x[0-9a-fA-F]{1,16}|[0-9]{1,20})\s*$")
_NODE = re.compile(r'^Errors for (0x[0-9a-f]+)? ?"([^"]*)"')
_ERRORS = re.compile(r"^\s+GUID (0x[0-9a-f]+) port (\w+):(.*)$")
_ERROR = re.compile(r"\[(\w+) == ([0-9]{1,20})\b")
_NOT_COUNTERS = ("PortSelect", "CounterSelect", "CounterSelect2")


def looks_like(text: str) -> bool:
    """Whether the text has such headings."""
    return "# Port counters: " in text or "# Port extended counters: " in text or bool(_NODE.match(text))


def counts(text: str) -> Iterator[PortCount]:
    """Counters; devices are named `lid 6`, or by their descriptions."""
    where = port = ""
    for line in text.splitlines():
        if found := _PORT.match(line):
            where, port = f"lid {found[1]}", found[2]
        elif found := _NODE.match(line):
            where = found[2] or str(found[1])
        elif (found := _ERRORS.match(line)) and found[2] != "ALL":
            for name, value in _ERROR.findall(found[3]):
                yield PortCount(where or found[1], found[2], name, float(value))
        elif (found := _VALUE.match(line)) and where and found[1] not in _NOT_COUNTERS:
            yield PortCount(where, port, found[1], float(int(found[2], 0)))


def healthy(text: str) -> bool:
    """Whether the report shows no errors."""
    return "nodes checked" in text


def _infiniband_counters_read(report: DeviceReport, out: Reports) -> None:
    before = len(out.counts)
    out.counts += counts(report.text)
    if len(out.counts) == before and not healthy(report.text):
        out.problems.append(Problem("it has no port counters", file=report.file))


readers.add(
    "infiniband-counters",
    ReportReader(
        "perfquery or ibqueryerrors",
        lambda report: looks_like(report.text) or healthy(report.text[-4096:]),
        _infiniband_counters_read,
    ),
)


def _families(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Tables of peers: at the top level, by address family, by VRF, or both."""
    if isinstance(document.get("peers"), dict):
        yield document
        return
    for key, value in document.items():
        if isinstance(value, dict) and key != "peers":
            yield from _families(value)


def _has_sessions(report: DeviceReport) -> bool:
    return isinstance(report.document, dict) and any(True for _ in _families(report.document))


def _sessions(report: DeviceReport, out: Reports) -> None:
    assert isinstance(report.document, dict)
    seen: set[str] = set()
    for family in _families(report.document):
        for name, peer in family["peers"].items():
            if name in seen or not isinstance(peer, dict):
                continue
            seen.add(name)
            state = str(peer.get("state", peer.get("peerState", "")))
            port = name.partition("%")[2] or str(peer.get("ifName", "")) or name
            neighbour = str(peer.get("hostname", peer.get("description", peer.get("desc", ""))))
            out.sessions.append(ReportedSession(report.device, port, state, neighbour))


def _rows(document: object) -> dict[str, list[dict[str, Any]]] | None:
    """Routes by prefix; None if the document is not a route table."""
    if not isinstance(document, dict) or not document:
        return None
    if isinstance(document.get("vrfs"), dict):
        routes = [one["routes"] for one in document["vrfs"].values() if isinstance(one, dict) and "routes" in one]
        if not routes or not all(isinstance(one, dict) for one in routes):
            return None
        return {prefix: [row] for one in routes for prefix, row in one.items() if isinstance(row, dict)}
    if all("/" in prefix and isinstance(rows, list) for prefix, rows in document.items()):
        return {prefix: [row for row in rows if isinstance(row, dict)] for prefix, rows in document.items()}
    return None


def _routes(report: DeviceReport, out: Reports) -> None:
    for prefix, rows in (_rows(report.document) or {}).items():
        for row in rows:
            hops = [hop for hop in row.get("nexthops", row.get("vias", [])) if isinstance(hop, dict)]
            live = [hop for hop in hops if hop.get("active", True) and not hop.get("recursive", False)]
            ports = tuple(sorted({str(hop.get("interfaceName", hop.get("interface", ""))) for hop in live} - {""}))
            kind = str(row.get("protocol", row.get("routeType", "")))
            if row.get("selected", True) or kind in ("connected", "local"):
                own = kind in ("connected", "local") or row.get("directlyConnected") is True
                out.routes.append(InstalledRoute(report.device, prefix, ports, own))


readers.add("bgp-sessions", ReportReader("BGP sessions", _has_sessions, _sessions))
readers.add("routes", ReportReader("routes", lambda report: _rows(report.document) is not None, _routes))


_SWITCH = re.compile(r"Unicast lids .*\bguid 0x([0-9a-fA-F]+)")
_GUID = re.compile(r"portguid 0x([0-9a-fA-F]+)")
_ROW = re.compile(r"0x[0-9a-fA-F]{1,8}\s+(\d{1,4}|UNREACHABLE|unreachable)\b")

NO_PORT = 255
"""Marks a destination to which a switch has no path."""


def _opensm_tables_read(report: DeviceReport, out: Reports) -> None:
    here: dict[str, int] | None = None
    nameless = 0
    for number, line in enumerate(report.text.splitlines(), 1):
        if line.startswith("0x"):
            row, guid = _ROW.match(line), _GUID.search(line)
            if row is None:
                out.problems.append(_wrong("a row of a forwarding table has no port", report.file, number, line))
            elif guid is None:
                nameless += 1  # an address that no device has any more
            elif here is not None:
                here[guid[1].lstrip("0").lower()] = int(row[1]) if row[1].isdecimal() else NO_PORT
        elif line.startswith("Unicast lids"):
            switch = _SWITCH.match(line)
            here = None
            if switch is None:
                out.problems.append(_wrong("a forwarding table does not say whose it is", report.file, number, line))
            else:
                here = out.forwarding.setdefault(switch[1].lstrip("0").lower(), {})
    if here == {} and not nameless:
        out.problems.append(Problem("a forwarding table ends without a row", file=report.file))


def _wrong(message: str, file: str, line: int, found: str) -> Problem:
    return Problem(message, file=file, line=line, found=found[:80])


readers.add(
    "opensm-tables",
    ReportReader("forwarding tables of InfiniBand", lambda one: "Unicast lids" in one.text, _opensm_tables_read),
)


_SET = re.compile(r"^set (interfaces|protocols|class-of-service|routing-options|system|policy-options) ", re.MULTILINE)


def dialect_of(report: DeviceReport) -> str:
    """Name of the dialect, as port names have it; empty if it is none of them."""
    if report.document is not None:
        tables = report.document
        return "sonic" if isinstance(tables, dict) and {"DEVICE_METADATA", "PORT"} <= set(tables) else ""
    tests: dict[str, Callable[[str], bool]] = {
        "junos": lambda text: bool(_SET.search(text)),
        "eos": lambda text: bool(re.search(r"^interface (Ethernet|Loopback)\d", text, re.MULTILINE)),
        "frr": lambda text: bool(re.search(r"^(frr (version|defaults)|router bgp \d)", text, re.MULTILINE)),
    }
    return next((name for name, test in tests.items() if test(report.text)), "")


def _read(report: DeviceReport, out: Reports) -> None:
    out.configurations.append(Configuration(report.device, dialect_of(report), report.text, report.file))


readers.add("settings", ReportReader("configuration of a switch", lambda report: bool(dialect_of(report)), _read))
