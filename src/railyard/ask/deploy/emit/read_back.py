"""What rendered files say, read without the code that wrote them, to be held against the intent.

A line that is a comment says nothing here, as it does on the device: queues that were shipped as comments are missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.emit.intent import USUAL, headroom

if TYPE_CHECKING:
    from collections.abc import Callable

    from railyard.ask.deploy.emit.intent import Port, SwitchIntent

Facts = dict[str, Any]
Sizes = dict[str, int]


def facts_of(intent: SwitchIntent, dialect: str) -> Facts:
    """What a file of that dialect has to say; `queues` where the dialect can say it."""
    facts: Facts = {
        "asn": intent.asn,
        "loopback": intent.loopback,
        "sessions": {one.port for one in intent.sessions},
        "access": {(one.port, one.address) for one in intent.access},
        "announced": {f"{intent.loopback}/32", *(f"{one.address}/31" for one in intent.access)},
        "bfd": bool(intent.sessions) or dialect in ("frr", "eos", "junos"),
    }
    if dialect != "frr":
        ports = {one.port for one in intent.ports}
        facts["mtu"] = dict.fromkeys(ports, intent.mtu)
        facts["rate_bps"] = {one.port: one.rate_bps for one in intent.ports}
        facts["roce"], facts["cnp"] = (26, 3), (48, 6)
        facts["pfc"] = ports if intent.pauses else set()
        facts["ecn"] = ports if intent.marks else set()
        if dialect != "junos":  # which takes shares of a queue, and is left to its operator
            facts["red"] = {intent.red} if intent.marks else set()
        facts["alpha"] = {intent.alpha} if intent.pauses and (dialect == "sonic" or intent.alpha != 1.0) else set()
        if intent.pauses:
            facts["headroom"] = {one.port: _due(one, intent, dialect) for one in intent.ports}
    return facts


def _due(one: Port, intent: SwitchIntent, dialect: str) -> Sizes:
    """Bytes that a port's buffer has to have; EOS and Junos say only what may still come after a pause."""
    room = headroom(one.rate_bps, one.length_m, asic=USUAL if dialect == "junos" else intent.asic)
    return {"xoff": room.xoff} | ({"xon": room.xon, "size": room.size} if dialect == "sonic" else {})


def short(due: Sizes, found: Sizes) -> list[str]:
    """Which sizes are smaller than they have to be; larger ones cost shared buffer, and no packet."""
    return [key for key in due if found.get(key, 0) < due[key]]


def wrong_ports(due: dict[str, Sizes], found: dict[str, Sizes] | None) -> list[str]:
    """Ports whose headroom is too small or not there."""
    return sorted(port for port, sizes in due.items() if short(sizes, (found or {}).get(port, {})))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] not in "!#"]


def _sections(text: str, head: str) -> dict[str, list[str]]:
    """Lines of each `head NAME` block, until a line that is not indented."""
    out: dict[str, list[str]] = {}
    here: list[str] = []
    for line in text.splitlines():
        if line.startswith(f"{head} "):
            here = out.setdefault(line.removeprefix(f"{head} ").strip(), [])
        elif line[:1] not in (" ", ""):
            here = []
        elif line.strip() and line.strip()[0] not in "!#":
            here.append(line.strip())
    return out


def frr(text: str) -> Facts:
    """Of `frr.conf`."""
    lines, interfaces = _lines(text), _sections(text, "interface")
    sessions = {m[1] for line in lines if (m := re.fullmatch(r"neighbor ([^\s.]+) interface peer-group \S+", line))}
    return {
        "asn": int(_one(r"router bgp (\d+)", lines)),
        "loopback": _one(r"bgp router-id (\S+)", lines),
        "sessions": sessions,
        "access": _access(interfaces, r"ip address (\S+)/31"),
        "announced": {m[1] for line in lines if (m := re.fullmatch(r"network ([\d.]+/\d+)", line))},
        "bfd": "neighbor fabric bfd" in lines,
    }


def _one(pattern: str, lines: list[str]) -> str:
    return next((m[1] for line in lines if (m := re.fullmatch(pattern, line))), "0")


def _access(interfaces: dict[str, list[str]], pattern: str) -> set[tuple[str, str]]:
    return {
        (port.split()[0], m[1])
        for port, lines in interfaces.items()
        for line in lines
        if (m := re.fullmatch(pattern, line))
    }


def eos(text: str) -> Facts:
    """Of a running configuration of EOS."""
    lines, interfaces = _lines(text), _sections(text, "interface")
    ports = {
        port: rows
        for port, rows in interfaces.items()
        if not port.startswith(("Loopback", "Vxlan")) and "." not in port
    }
    tc = {
        int(m[1]): int(m[2])
        for line in lines
        if (m := re.fullmatch(r"qos map dscp (\d+) to traffic-class (\d+)", line))
    }
    return {
        "asn": int(_one(r"router bgp (\d+)", lines)),
        "loopback": _one(r"router-id (\S+)", lines),
        "sessions": {
            m[1]
            for line in lines
            if (m := re.fullmatch(r"neighbor interface ([^\s.]+) peer-group \S+ remote-as external", line))
        },
        "access": _access(ports, r"ip address (\S+)/31"),
        "announced": {m[1] for line in lines if (m := re.fullmatch(r"network (\S+)", line))},
        "bfd": "neighbor FABRIC bfd" in lines,
        "mtu": {port: int(_one(r"mtu (\d+)", rows)) for port, rows in ports.items()},
        "rate_bps": {port: int(_one(r"speed (\d+)g", rows)) * 10**9 for port, rows in ports.items()},
        "roce": (26, tc.get(26)),
        "cnp": (48, tc.get(48)),
        "pfc": {port for port, rows in ports.items() if "priority-flow-control priority 3 no-drop" in rows},
        "ecn": {port for port, rows in ports.items() if any(row.startswith("random-detect ecn") for row in rows)},
        "red": {
            tuple(map(int, m.groups()))
            for rows in ports.values()
            for row in rows
            if (m := re.fullmatch(_EOS_MARKS, row))
        },
        "alpha": {float(Fraction(word)) for word in _eos_profile(text, lines, r"ingress threshold (\S+)")},
        "headroom": _eos_headroom(text, lines, list(ports)),
    }


_EOS_MARKS = r"random-detect ecn minimum-threshold (\d+) bytes maximum-threshold (\d+) bytes max-mark-probability (\d+)"


def _eos_profile(text: str, lines: list[str], pattern: str) -> list[str]:
    head = "platform trident mmu queue profile"
    active = _one(rf"{head} (\S+) apply", lines)
    return [m[1] for line in _sections(text, head).get(active, []) if (m := re.fullmatch(pattern, line))]


def _eos_headroom(text: str, lines: list[str], ports: list[str]) -> dict[str, Sizes]:
    """Of the buffer profile that is applied; nothing where none is, or its unit is cells."""
    rooms = [int(word) for word in _eos_profile(text, lines, r"ingress headroom bytes (\d+)")]
    return {port: {"xoff": rooms[0]} for port in ports} if rooms else {}


def junos(text: str) -> Facts:
    """Of `set` commands."""
    lines = _lines(text)

    def each(pattern: str) -> list[re.Match[str]]:
        return [m for line in lines if (m := re.fullmatch(pattern, line))]

    port = r"(\S+)"
    queue = {m[1]: int(m[2]) for m in each(r"set class-of-service forwarding-classes class (\S+) queue-num (\d+).*")}
    code = {
        int(m[2], 2): queue.get(m[1])
        for m in each(r"set class-of-service classifiers dscp \S+ forwarding-class (\S+) .*code-points ([01]{6})")
    }
    return {
        "asn": int(_one(r"set routing-options autonomous-system (\d+)", lines)),
        "loopback": _one(r"set routing-options router-id (\S+)", lines),
        "sessions": {m[1] for m in each(r"set protocols bgp group fabric dynamic-neighbor .* interface (\S+)\.0")},
        "access": {(m[1], m[2]) for m in each(rf"set interfaces {port} unit 0 family inet address (\S+)/31")},
        "announced": {m[1] for m in each(r"set policy-options .* route-filter (\S+) exact")},
        "bfd": bool(each(r"set protocols bgp group fabric bfd-liveness-detection .*")),
        "mtu": {m[1]: int(m[2]) for m in each(rf"set interfaces {port} mtu (\d+)")},
        "rate_bps": {m[1]: int(m[2]) * 10**9 for m in each(rf"set interfaces {port} speed (\d+)g")},
        "roce": (26, code.get(26)),
        "cnp": (48, code.get(48)),
        "pfc": {m[1] for m in each(rf"set class-of-service interfaces {port} congestion-notification-profile \S+")},
        "ecn": {m[1] for m in each(rf"set class-of-service interfaces {port} .*explicit-congestion-notification")},
        "alpha": {2.0 ** (int(m[1]) - 7) for m in each(rf"{_JUNOS_SHARE} (\d+)")},
        "headroom": _junos_headroom(each),
    }


_JUNOS_SHARE = r"set class-of-service shared-buffer ingress buffer-partition lossless dynamic-threshold"

JUNOS_LENGTH_M, JUNOS_MRU = 100, 2500
"""Cable and largest frame that Junos reckons the headroom of priority 3 with where nobody says otherwise (Juniper's CLI
reference: `cable-length`, `mru`)."""


def _junos_headroom(each: Callable[[str], list[re.Match[str]]]) -> dict[str, Sizes]:
    """What Junos will hold for each port: it is told a length and a frame; reckoned by our law."""
    profile = r"set class-of-service congestion-notification-profile (\S+) input"
    length = {m[1]: float(m[2]) for m in each(rf"{profile} cable-length (\d+)")}
    frame = {m[1]: int(m[2]) for m in each(rf"{profile} dscp code-point \S+ pfc mru (\d+)")}
    rate = {m[1]: int(m[2]) * 10**9 for m in each(r"set interfaces (\S+) speed (\d+)g")}
    used = {m[1]: m[2] for m in each(r"set class-of-service interfaces (\S+) congestion-notification-profile (\S+)")}
    return {
        port: {
            "xoff": headroom(
                rate[port], length.get(name, JUNOS_LENGTH_M), asic=USUAL, frame_bytes=frame.get(name, JUNOS_MRU)
            ).xoff
        }
        for port, name in used.items()
        if port in rate
    }


ROUTING = ("asn", "loopback", "sessions", "announced", "bfd")
"""Facts that FRR's own file says, where SONiC makes none of its tables."""


def sonic(text: str) -> Facts:
    """Of `config_db.json`; what a switch in use does not have is nothing, and what another file says is `elsewhere`."""
    tables = json.loads(text)
    metadata = tables["DEVICE_METADATA"]["localhost"]
    ports, neighbours = tables["PORT"], tables.get("BGP_NEIGHBOR", {})
    queues, marks = tables.get("QUEUE", {}), tables.get("WRED_PROFILE", {})
    keys = [key.split("|") for key in tables.get("INTERFACE", {})]
    routing = tables.get("BGP_GLOBALS", {}).get("default", {})
    facts = {
        "asn": int(metadata.get("bgp_asn", routing.get("local_asn", 0))),
        "loopback": routing.get("router_id", ""),
        "sessions": {key.split("|")[-1] for key in neighbours if key.startswith("default|")},
        "access": {(key[0], key[1].removesuffix("/31")) for key in keys if len(key) == 2 and key[1].endswith("/31")},
        "announced": {key.split("|")[2] for key in tables.get("BGP_GLOBALS_AF_NETWORK", {})},
        "bfd": bool(neighbours) and all(row.get("bfd") == "true" for row in neighbours.values()),
        "mtu": {port: int(row["mtu"]) for port, row in ports.items() if "mtu" in row},
        "rate_bps": {port: int(row["speed"]) * 10**6 for port, row in ports.items() if "speed" in row},
        "roce": (26, _class(tables, "26")),
        "cnp": (48, _class(tables, "48")),
        "pfc": {port for port, row in tables.get("PORT_QOS_MAP", {}).items() if _pauses(tables, port, row)},
        "ecn": {key.split("|")[0] for key, row in queues.items() if row.get("wred_profile") in marks},
        "red": {
            _sonic_marks(marks[row["wred_profile"]]) for row in queues.values() if row.get("wred_profile") in marks
        },
        "alpha": _sonic_shares(tables, ports),
        "headroom": _sonic_headroom(tables, ports),
        "length_m": _sonic_lengths(tables),
    }
    if not metadata.get("docker_routing_config_mode", "").startswith("split"):
        return facts
    return {key: fact for key, fact in facts.items() if key not in ROUTING} | {"elsewhere": ROUTING}


def _sonic_marks(profile: dict[str, str]) -> tuple[int, ...]:
    names = ("green_min_threshold", "green_max_threshold", "green_drop_probability")
    return tuple(int(profile.get(name, 0)) for name in names)


def _sonic_shares(tables: dict[str, Any], ports: dict[str, Any]) -> set[float]:
    """Of the free buffer, of the lossless priority groups of all ports."""
    groups, profiles = tables.get("BUFFER_PG", {}), tables.get("BUFFER_PROFILE", {})
    used = (profiles.get(groups.get(f"{port}|3", {}).get("profile"), {}) for port in ports)
    return {2.0 ** int(profile["dynamic_th"]) for profile in used if "dynamic_th" in profile}


def _sonic_headroom(tables: dict[str, Any], ports: dict[str, Any]) -> dict[str, Sizes]:
    """Sizes of the buffer profile of each port's lossless priority group."""
    groups, profiles = tables.get("BUFFER_PG", {}), tables.get("BUFFER_PROFILE", {})
    out = {}
    for port in ports:
        profile = profiles.get(groups.get(f"{port}|3", {}).get("profile"))
        if profile is not None:
            out[port] = {key: int(profile[key]) for key in ("xoff", "xon", "size") if key in profile}
    return out


def _sonic_lengths(tables: dict[str, Any]) -> dict[str, float]:
    return {
        port: float(length.removesuffix("m"))
        for row in tables.get("CABLE_LENGTH", {}).values()
        for port, length in row.items()
        if length.endswith("m")
    }


def _class(tables: dict[str, Any], code: str) -> int | None:
    """Traffic class of a code point, in the map that most ports have."""
    maps = tables.get("DSCP_TO_TC_MAP", {})
    used = Counter(row.get("dscp_to_tc_map") for row in tables.get("PORT_QOS_MAP", {}).values())
    name = used.most_common(1)[0][0] if used else next(iter(maps), None)
    value = maps.get(name, {}).get(code)
    return None if value is None else int(value)


def _pauses(tables: dict[str, Any], port: str, row: dict[str, str]) -> bool:
    """Whether priority 3 is paused, and its buffer has headroom."""
    profile = tables.get("BUFFER_PG", {}).get(f"{port}|3", {}).get("profile")
    headroom = tables.get("BUFFER_PROFILE", {}).get(profile, {}).get("xoff", "0")
    return "3" in row.get("pfc_enable", "").split(",") and int(headroom) > 0


READERS: dict[str, Callable[[str], Facts]] = {"frr": frr, "sonic": sonic, "eos": eos, "junos": junos}
"""By dialect."""


def differences(intent: SwitchIntent, dialect: str, text: str, routing: str = "") -> list[str]:
    """What files say otherwise than intended, in words; empty where they say just that."""
    want, found = facts_of(intent, dialect), READERS[dialect](text)
    if found.get("elsewhere"):
        elsewhere, meant, said = found.pop("elsewhere"), facts_of(intent, "frr"), frr(routing)
        want |= {key: meant[key] for key in elsewhere}
        found |= {key: said[key] for key in elsewhere}
    return [f"{key}: {_words(key, want[key], found.get(key))}" for key in wrong_facts(want, found)]


def wrong_facts(want: Facts, found: Facts) -> list[str]:
    """Names of facts that are otherwise; headroom may be larger, and what another file says is not asked for."""
    return [key for key in want if key not in found.get("elsewhere", ()) and _is_wrong(key, want[key], found.get(key))]


def _is_wrong(key: str, want: Any, found: Any) -> bool:
    if key == "headroom":
        return bool(wrong_ports(want, found))
    if key in ("red", "alpha") and want and not found:
        return False  # ports that do not mark, or do not pause, are facts of their own
    return bool(found != want)


def _words(key: str, want: Any, found: Any) -> str:
    if key != "headroom":
        return f"intended {want}, the file says {found}"
    return headroom_words(want, found or {})


SHOWN = 4
"""Ports in words."""


def headroom_words(due: dict[str, Sizes], found: dict[str, Sizes]) -> str:
    """Of each size that is too small: the ports, what is due, and what is there."""
    by_size: dict[str, list[str]] = {}
    for port in wrong_ports(due, found):
        there = found.get(port, {})
        for key in short(due[port], there):
            is_there = f"{there[key]:,} bytes" if key in there else "nothing"
            by_size.setdefault(f"{key} {is_there}, due {due[port][key]:,}", []).append(port)
    return "; ".join(
        f"{words} ({', '.join(ports[:SHOWN])}{f' and {len(ports) - SHOWN} more' if len(ports) > SHOWN else ''})"
        for words, ports in by_size.items()
    )
