"""BGP sessions and routes as FRR (SONiC's too) and EOS print them in JSON.

FRR: `show bgp summary json` has `peers`, by address family or at the top; `show ip route json` has a list a prefix.
EOS: `show ip bgp summary | json` and `show ip route | json` have `vrfs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.cluster.asbuilt.reported.reports import Reader, Report, Reports, Route, Session, readers

if TYPE_CHECKING:
    from collections.abc import Iterator


def _families(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Tables of peers: at the top, by address family, by VRF, or both."""
    if isinstance(document.get("peers"), dict):
        yield document
        return
    for key, value in document.items():
        if isinstance(value, dict) and key != "peers":
            yield from _families(value)


def _has_sessions(report: Report) -> bool:
    return isinstance(report.document, dict) and any(True for _ in _families(report.document))


def _sessions(report: Report, out: Reports) -> None:
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
            out.sessions.append(Session(report.device, port, state, neighbour))


def _rows(document: object) -> dict[str, list[dict[str, Any]]] | None:
    """Routes by prefix; None where a document is no table of routes."""
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


def _routes(report: Report, out: Reports) -> None:
    for prefix, rows in (_rows(report.document) or {}).items():
        for row in rows:
            hops = [hop for hop in row.get("nexthops", row.get("vias", [])) if isinstance(hop, dict)]
            live = [hop for hop in hops if hop.get("active", True) and not hop.get("recursive", False)]
            ports = tuple(sorted({str(hop.get("interfaceName", hop.get("interface", ""))) for hop in live} - {""}))
            kind = str(row.get("protocol", row.get("routeType", "")))
            if row.get("selected", True) or kind in ("connected", "local"):
                own = kind in ("connected", "local") or row.get("directlyConnected") is True
                out.routes.append(Route(report.device, prefix, ports, own))


readers.add("bgp-sessions", Reader("BGP sessions", _has_sessions, _sessions))
readers.add("routes", Reader("routes", lambda report: _rows(report.document) is not None, _routes))
