"""A fact of a switch's configuration that is otherwise than intended: which cables or settings it takes away.

Each fact has a cause by which it costs: a class without pauses loses packets, a queue without marks fills and pauses,
small headroom overflows, frames that are too small are dropped, an absent session or prefix takes cables out of routes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.audit.against import frames_share
from railyard.ask.audit.settings.setting import Setting
from railyard.ask.deploy.emit.read_back import wrong_ports
from railyard.ask.deploy.headroom import on_the_way

if TYPE_CHECKING:
    from railyard.ask.deploy.emit.intent import SwitchIntent

KIND = {
    "roce": "wrong-qos",
    "cnp": "wrong-qos",
    "pfc": "wrong-qos",
    "ecn": "wrong-qos",
    "red": "wrong-qos",
    "alpha": "wrong-qos",
    "headroom": "wrong-qos",
    "mtu": "wrong-mtu",
    "rate_bps": "wrong-speed",
}
"""Kind of finding by fact; others are `wrong-setting`."""

WORDS = {
    "roce": "code point and traffic class of RoCE",
    "cnp": "code point and traffic class of congestion notifications",
    "pfc": "ports that pause",
    "ecn": "ports that mark",
    "red": "first and last mark in bytes, and percent",
    "alpha": "share of the free buffer of what is paused",
    "headroom": "headroom",
    "mtu": "frames",
    "rate_bps": "rates",
    "bfd": "BFD",
    "sessions": "BGP sessions",
    "access": "addresses of servers' ports",
    "announced": "prefixes announced",
    "asn": "autonomous system",
    "loopback": "loopback",
}

UNPRICED = {
    "cnp": "packets have one class of congestion notifications for all switches: what they lose by waiting with data is"
    " not simulated",
    "bfd": "it costs nothing until a cable dies with light: routes then keep sending there until BGP's hold time ends,"
    " seconds in place of one, and how often that comes is not known",
    "red": "marks come sooner or later: `railyard tune` says what that is worth, an audit does not",
    "alpha": "pauses come sooner or later: `railyard tune` says what that is worth, an audit does not",
    "asn": "two switches with one number drop each other's routes; which ones depends on all others",
    "loopback": "only the router's own address changes: no traffic of jobs goes there",
}
"""Facts that have no price, and why."""

EXTRA = "the file has more than the plan has: what it adds is not simulated"
SMALL = "full packets have room; what is short is for small ones, of which no load here has enough"
NOT_SAID = "the file does not say it, and the system's own default is not public"


def cables_of(key: str, want: Any, found: Any) -> list[tuple[str, float]]:
    """Ports whose cables a wrong fact slows or takes away, with what they keep; 0: nothing is carried."""
    found = found or type(want)()
    match key:
        case "mtu":
            return [
                (port, frames_share(found[port], mtu, host=False))
                for port, mtu in want.items()
                if port in found and found[port] < mtu
            ]
        case "rate_bps":
            return [(port, found[port] / rate) for port, rate in want.items() if 0 < found.get(port, 0) < rate]
        case "sessions":
            return [(port, 0.0) for port in sorted(want - found)]
        case "access":
            return [(port, 0.0) for port, _ in sorted(want - found)]
        case _:
            return []


def prefixes_of(intent: SwitchIntent, found: set[str] | None) -> list[tuple[str, float]]:
    """Ports whose servers nobody reaches since their prefix is not announced."""
    missing = {one.port: f"{one.address}/31" for one in intent.access}
    return [(port, 0.0) for port, prefix in missing.items() if prefix not in (found or set())]


def settings_of(intent: SwitchIntent, key: str, want: Any, found: Any) -> tuple[Setting, ...]:
    """What a wrong fact does to the packets of a switch."""
    if key == "roce":
        return _class(intent)
    if key in ("pfc", "ecn"):
        ports = sorted(want - (found or set()))
        return (_setting(intent, ports, "pause" if key == "pfc" else "mark"),) if ports else ()
    if key == "headroom":
        return _headroom(intent, want, found)
    return ()


def _class(intent: SwitchIntent) -> tuple[Setting, ...]:
    """RoCE in another class than the one that is paused and marked."""
    listed = []
    if intent.pauses:
        listed.append(_setting(intent, [], "pause"))
    if intent.marks:
        listed.append(_setting(intent, [], "mark"))
    return tuple(listed)


def _headroom(intent: SwitchIntent, want: dict[str, dict[str, int]], found: Any) -> tuple[Setting, ...]:
    """One setting a share of what full packets need: what is due besides is for small ones, which fill cells badly."""
    if not found:
        return ()
    cable = {one.port: one for one in intent.ports}
    shares: dict[float, list[str]] = {}
    for port in wrong_ports(want, found):
        needed = on_the_way(cable[port].rate_bps, cable[port].length_m)
        share = round(min(found.get(port, {}).get("xoff", 0) / needed, 1.0), 3)
        if share < 1:
            shares.setdefault(share, []).append(port)
    return tuple(_setting(intent, ports, "headroom", share) for share, ports in sorted(shares.items()))


def _setting(intent: SwitchIntent, ports: list[str], what: Any, kept: float = 0.0) -> Setting:
    leaf = bool(intent.access)
    below, above = (intent.access, intent.sessions) if leaf else (intent.sessions, ())
    wrong = set(ports)

    def share(listed: Any) -> float:
        return sum(one.port in wrong for one in listed) / len(listed) if wrong and listed else float(bool(listed))

    return Setting(intent.name, tuple(ports), what, kept, leaf, share(below), share(above))


def reason(key: str, want: Any, found: Any, *, pauses: bool) -> str:
    """Why a wrong fact that changes no cable and no setting has no price; empty: it costs nothing."""
    if key in UNPRICED:
        return UNPRICED[key]
    if key == "headroom":
        return SMALL if found else NOT_SAID
    if key in ("pfc", "ecn", "sessions", "access", "announced", "rate_bps"):
        more = found is not None and not _fewer(want, found)
        return EXTRA if more else ""
    if key == "roce" and not pauses:
        return "packets of a fabric that does not pause have no such setting"
    return ""


def _fewer(want: Any, found: Any) -> bool:
    """Whether the file has less than intended of something."""
    if isinstance(want, dict):
        return any(found.get(port, value) < value for port, value in want.items() if not isinstance(value, dict))
    return bool(want - found)
