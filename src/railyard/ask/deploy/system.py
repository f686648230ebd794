"""Operating systems of switches: what each writes, and what its files say when they are read back.

A file is read by other code than wrote it. A comment says nothing, as on the device: queues that were shipped as
comments are missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railyard.ask.deploy.emit.intent import headroom
from railyard.cluster.network_table import DIALECTS, natural
from railyard.kit.errors import InputError, did_you_mean
from railyard.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from railyard.ask.deploy.configured import Configured
    from railyard.ask.deploy.emit.intent import Asic, SwitchIntent

Facts = dict[str, Any]
Sizes = dict[str, int]


File = tuple[str, str]
"""Name and text."""


@dataclass(frozen=True)
class SwitchSystem:
    """An operating system of Ethernet switches; the names of its ports are its entry of `DIALECTS`.

    Attributes:
        ending: What follows a switch's name in the name of its file.
        meant: The facts that a switch's file has to say.
        facts: The facts that a file says.
        read: What a switch's files say of tenants: its name, its first and second file, and 4 or 6 for IPv4 or IPv6.
        second: How the name of a second file ends, for what the first cannot say; empty if there is none.
        render_second: Writes the second file; empty if this switch needs none.
        needs_second: Whether a first file says that the second one counts; None: it counts if it is there.
        families: Versions of IP of servers that its files configure.
        filters: Whether it has access lists.
    """

    name: str
    ending: str
    render: Callable[[SwitchIntent], str]
    meant: Callable[[SwitchIntent], Facts]
    facts: Callable[[str], Facts]
    read: Callable[[str, File, File, int], Configured]
    second: str = ""
    render_second: Callable[[SwitchIntent], str] = lambda _: ""
    needs_second: Callable[[str], bool] | None = None
    families: tuple[int, ...] = (4,)
    filters: bool = True

    def texts(self, intent: SwitchIntent) -> dict[str, str]:
        """Files of a switch by name."""
        second = self.render_second(intent)
        more = {f"{intent.name}.{self.second}": second} if second else {}
        return {f"{intent.name}.{self.ending}": self.render(intent)} | more

    def configured(self, name: str, texts: Mapping[str, str], family: int = 4) -> Configured:
        """Tenants in a switch's files.

        Raises:
            InputError: Its file is missing, or cannot be read.
        """
        file = f"{name}.{self.ending}"
        if file not in texts:
            raise InputError("a switch of the plan has no file", found=file, allowed=sorted(texts)[:4])
        second, text = f"{name}.{self.second}", texts[file]
        try:
            needed = self.needs_second is not None and self.needs_second(text)
            if needed and not texts.get(second):
                allowed = sorted(texts)[:4]
                raise InputError("a switch of the plan has no file of its routing", found=second, allowed=allowed)
            more = texts.get(second, "") if needed or self.needs_second is None else ""
            return self.read(name, (file, text), (second, more), family)
        except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
            raise InputError(f"the file cannot be read: {type(error).__name__} {error}", file=file) from None

    def differences(self, intent: SwitchIntent, text: str, second: str = "") -> list[str]:
        """What files say otherwise than intended, in words; empty if they say just that."""
        want, found = self.meant(intent), self.facts(text)
        if found.get("elsewhere"):
            frr, elsewhere = systems.get("frr"), found.pop("elsewhere")
            meant, said = frr.meant(intent), frr.facts(second)
            want |= {key: meant[key] for key in elsewhere}
            found |= {key: said[key] for key in elsewhere}
        return [wrong_words(key, want[key], found.get(key)) for key in wrong_facts(want, found)]


systems: Registry[SwitchSystem] = Registry("operating system of switches", package="railyard.ask.deploy.systems")


def system_names() -> list[str]:
    """Names of systems, in the order of `DIALECTS`."""
    return [name for name in DIALECTS if name in systems]


def system_named(name: str) -> SwitchSystem:
    """An operating system.

    Raises:
        InputError: There is none of that name.
    """
    if name not in systems:
        raise InputError(
            "there is no such operating system of switches",
            key="--os", found=name, allowed=system_names(), hint=did_you_mean(name, system_names()),
        )  # fmt: skip
    return systems.get(name)


def routing_facts(intent: SwitchIntent) -> Facts:
    """Facts of the files of every system."""
    return {
        "asn": intent.asn,
        "loopback": intent.loopback,
        "sessions": {one.port for one in intent.sessions},
        "access": {(one.port, one.address) for one in intent.access},
        "announced": {f"{intent.loopback}/32", *(f"{one.address}/31" for one in intent.access)},
        "bfd": True,
    }


def port_facts(
    intent: SwitchIntent, sizes: tuple[str, ...] = ("xoff",), asic: Asic | None = None, *, alpha_of_one: bool = False
) -> Facts:
    """The same, and ports and queues: the named sizes of headroom, for the switch's ASIC or another one."""
    ports = {one.port for one in intent.ports}
    facts = routing_facts(intent) | {
        "mtu": dict.fromkeys(ports, intent.mtu),
        "rate_bps": {one.port: one.rate_bps for one in intent.ports},
        "roce": (26, 3),
        "cnp": (48, 6),
        "pfc": ports if intent.pauses else set(),
        "ecn": ports if intent.marks else set(),
        "red": {intent.red} if intent.marks else set(),
        "alpha": {intent.alpha} if intent.pauses and (alpha_of_one or intent.alpha != 1.0) else set(),
    }
    if intent.pauses:
        rooms = {one.port: headroom(one.rate_bps, one.length_m, asic=asic or intent.asic) for one in intent.ports}
        facts["headroom"] = {port: {key: getattr(room, key) for key in sizes} for port, room in rooms.items()}
    return facts


def short(due: Sizes, found: Sizes) -> list[str]:
    """Sizes that are smaller than they have to be; larger ones cost shared buffer, and no packet."""
    return [key for key in due if found.get(key, 0) < due[key]]


def wrong_ports(due: dict[str, Sizes], found: dict[str, Sizes] | None) -> list[str]:
    """Ports whose headroom is too small or not there."""
    return sorted(port for port, sizes in due.items() if short(sizes, (found or {}).get(port, {})))


def lines_of(text: str) -> list[str]:
    """Lines that are no comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] not in "!#"]


def sections(text: str, head: str) -> dict[str, list[str]]:
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


def first_match(pattern: str, lines: list[str]) -> str:
    """The first group of the first line that fits; `0` if none does."""
    return next((m[1] for line in lines if (m := re.fullmatch(pattern, line))), "0")


def port_addresses(interfaces: dict[str, list[str]], pattern: str) -> set[tuple[str, str]]:
    """Ports and the first group of their lines that fit."""
    return {
        (port.split()[0], m[1])
        for port, lines in interfaces.items()
        for line in lines
        if (m := re.fullmatch(pattern, line))
    }


def wrong_facts(want: Facts, found: Facts) -> list[str]:
    """Names of facts that are otherwise; headroom may be larger, and what another file says is not asked for."""
    return [key for key in want if key not in found.get("elsewhere", ()) and _is_wrong(key, want[key], found.get(key))]


def _is_wrong(key: str, want: Any, found: Any) -> bool:
    if key == "headroom":
        return bool(wrong_ports(want, found))
    if key in ("red", "alpha") and want and not found:
        return False  # ports that do not mark, or do not pause, are facts of their own
    return bool(found != want)


SHOWN = 4
"""Ranges of ports in words."""

WORDS = {
    "roce": "code point and traffic class of RoCE",
    "cnp": "code point and traffic class of congestion notifications",
    "pfc": "ports with PFC",
    "ecn": "ports with ECN marks",
    "red": "first and last mark in bytes, and percent",
    "alpha": "share of the free buffer for paused traffic",
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


def wrong_words(key: str, want: Any, found: Any) -> str:
    """A wrong fact: what the file says, what is planned, and the ports by ranges, in their order."""
    return f"{WORDS.get(key, key)}: {_wrong_words(key, want, found)}"


def _wrong_words(key: str, want: Any, found: Any) -> str:
    if key == "headroom":
        return headroom_words(want, found or {})
    if isinstance(want, dict):
        found = found or {}
        return "; ".join(
            f"{found.get(ports[0], 'nothing')}, planned {want.get(ports[0], 'nothing')} ({port_ranges(ports, want)})"
            for ports in _alike(want, found)
        )
    if not isinstance(want, set) or key in ("red", "alpha"):
        said = (map(str, sorted(one) if isinstance(one, set) else [one]) for one in (found, want) if one is not None)
        return ", planned ".join(["nothing", *(", ".join(words) or "nothing" for words in said)][-2:])
    missing, more = (_named(one) for one in (want - (found or set()), (found or set()) - want))
    every = _named(want | (found or set()))
    listed = {"wrong": missing & more, "missing": missing - more, "not planned": more - missing}
    return "; ".join(f"{word} {port_ranges(ports, every)}" for word, ports in listed.items() if ports)


def _named(facts: set[Any]) -> set[str]:
    return {one if isinstance(one, str) else one[0] for one in facts}


def _alike(want: dict[str, Any], found: dict[str, Any]) -> list[list[str]]:
    """Ports whose values differ, those with the same two values together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for port in sorted(want.keys() | found.keys(), key=natural):
        if want.get(port) != found.get(port):
            groups.setdefault((str(want.get(port)), str(found.get(port))), []).append(port)
    return list(groups.values())


def port_ranges(ports: Iterable[str], every: Iterable[str]) -> str:
    """Ports in their order, as ranges of all those that the switch has."""
    chosen, runs, open_ = set(ports), list[list[str]](), False
    for port in sorted(chosen | set(every), key=natural):
        if port in chosen:
            runs = runs if open_ else [*runs, []]
            runs[-1].append(port)
        open_ = port in chosen
    words = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs[:SHOWN]]
    more = sum(map(len, runs[SHOWN:]))
    return ", ".join(words) + (f" and {more} more" if more else "")


def headroom_words(due: dict[str, Sizes], found: dict[str, Sizes]) -> str:
    """For each size that is too small: the ports, the needed size, and the present one."""
    by_size: dict[str, list[str]] = {}
    for port in sorted(wrong_ports(due, found), key=natural):
        there = found.get(port, {})
        for key in short(due[port], there):
            is_there = f"{there[key]:,} bytes" if key in there else "nothing"
            by_size.setdefault(f"{key} {is_there}, due {due[port][key]:,}", []).append(port)
    return "; ".join(f"{words} ({port_ranges(ports, due)})" for words, ports in by_size.items())
