"""What switches run, against the intent of the plan, or against what most of their like run."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from railyard.cluster.asbuilt.port_names import DIALECTS
from railyard.deploy.audit.evidence.symptom import UNKNOWN, Symptom
from railyard.deploy.audit.finding import Finding
from railyard.deploy.emit.intent import switches
from railyard.deploy.emit.read_back import READERS, facts_of
from railyard.deploy.plan.drawn import is_infiniband
from railyard.errors import Problem

if TYPE_CHECKING:
    from railyard.cluster.asbuilt.reported.reports import Configuration, Reports
    from railyard.deploy.audit.evidence.symptom import Names
    from railyard.deploy.emit.read_back import Facts
    from railyard.deploy.plan.cabling import Plan

KIND = {
    "roce": "wrong-qos",
    "cnp": "wrong-qos",
    "pfc": "wrong-qos",
    "ecn": "wrong-qos",
    "mtu": "wrong-mtu",
    "rate_bps": "wrong-speed",
}
"""Kind of finding by fact; others are `wrong-setting`."""

WORDS = {
    "roce": "code point and traffic class of RoCE",
    "cnp": "code point and traffic class of congestion notifications",
    "pfc": "ports that pause",
    "ecn": "ports that mark",
    "mtu": "frames",
    "rate_bps": "rates",
    "bfd": "BFD",
    "sessions": "BGP sessions",
    "access": "addresses of servers' ports",
    "announced": "prefixes announced",
    "asn": "autonomous system",
    "loopback": "loopback",
}

COMPARED = ("roce", "cnp", "bfd")
"""Facts that are equal on all switches of a network; others are compared as shares of a switch's ports."""

LIKE = 3
"""Switches that must agree before another one is held against them."""

SHOWN = 4


def symptoms(names: Names, reports: Reports, plan: Plan | None) -> list[Symptom]:
    """A finding a switch and fact that is otherwise."""
    found = {one.device: (one, facts) for one in reports.configurations if (facts := _facts(one, reports)) is not None}
    if plan is not None:
        return _against(names, found, plan, reports)
    return _among([(one, facts) for one, facts in found.values()])


def _facts(one: Configuration, reports: Reports) -> Facts | None:
    try:
        return READERS[one.dialect](one.text)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        words = f"a configuration of {one.dialect} that is not as that system writes it"
        reports.problems.append(Problem(words, file=one.file, found=repr(error)[:80]))
        return None


def _against(
    names: Names, found: dict[str, tuple[Configuration, Facts]], plan: Plan, reports: Reports
) -> list[Symptom]:
    out = []
    waiting = dict(found)
    for network in range(len(plan.networks)):
        if is_infiniband(plan, network):
            continue
        for dialect in {one.dialect for one, _ in found.values()}:
            for intent in switches(plan, network, DIALECTS[dialect]):
                if intent.name not in waiting or waiting[intent.name][0].dialect != dialect:
                    continue
                _, facts = waiting.pop(intent.name)
                want = facts_of(intent, dialect)
                out += [
                    _symptom(names, intent.name, key, want[key], facts.get(key))
                    for key in want
                    if facts.get(key) != want[key]
                ]
    for one, _ in waiting.values():
        reports.problems.append(Problem("the plan has no such switch", file=one.file, found=one.device))
    return out


def _symptom(names: Names, device: str, key: str, want: Any, found: Any) -> Symptom:
    ports = _ports(want, found)
    words = f"{WORDS.get(key, key)}: {_said(found, ports)}, planned {_said(want, ports)}"
    kind = KIND.get(key, "wrong-setting")
    number = names.device(device)
    if len(ports) == 1 and number is not None:
        return Symptom(Finding(kind, *names.ends(number, ports[0]), words))
    return Symptom(Finding(kind, device, UNKNOWN, words))


def _ports(want: Any, found: Any) -> list[str]:
    """Ports for which the two differ."""
    if isinstance(want, dict) and isinstance(found, dict):
        return sorted(port for port in want.keys() | found.keys() if want.get(port) != found.get(port))
    if isinstance(want, set) and isinstance(found, set):
        return sorted({one if isinstance(one, str) else one[0] for one in want ^ found})
    return []


def _said(value: Any, ports: list[str]) -> str:
    """What differs, in words that are short enough."""
    if isinstance(value, dict):
        listed = [f"{port} {value.get(port, 'nothing')}" for port in ports[:SHOWN]]
        return ", ".join(listed) + (f" and {len(ports) - SHOWN} more" if len(ports) > SHOWN else "")
    if isinstance(value, set):
        there = [one for one in ports if any(one in (item, item[0]) for item in value)]
        shown = ", ".join(there[:SHOWN]) + (f" and {len(there) - SHOWN} more" if len(there) > SHOWN else "")
        return shown or "none of them"
    return "nothing" if value is None else str(value)


def _among(found: list[tuple[Configuration, Facts]]) -> list[Symptom]:
    """Without a plan: what most switches of one operating system have, and the others have not."""
    out = []
    for dialect in sorted({one.dialect for one, _ in found}):
        like = [(one.device, facts) for one, facts in found if one.dialect == dialect]
        values: dict[str, dict[str, Any]] = defaultdict(dict)
        for device, facts in like:
            for key, value in _comparable(facts).items():
                values[key][device] = value
        for key, mine in values.items():
            usual, times = Counter(mine.values()).most_common(1)[0]
            if times < LIKE or times <= len(mine) / 2:
                continue
            for device, value in mine.items():
                if value != usual:
                    words = f"{WORDS.get(key, key)}: {value}, where {times} of its like have {usual}"
                    out.append(Symptom(Finding(KIND.get(key, "wrong-setting"), device, UNKNOWN, words)))
    return out


def _comparable(facts: Facts) -> dict[str, Any]:
    """Facts that do not depend on which switch it is; of ports the share that has it, and the frames of most."""
    out = {key: facts[key] for key in COMPARED if key in facts}
    ports = len(facts.get("mtu", {}))
    for key in ("pfc", "ecn"):
        if key in facts and ports:
            count = len(facts[key])
            out[key] = "all ports" if count >= ports else "no port" if not count else f"{count} of {ports} ports"
    if ports:
        frames = Counter(facts["mtu"].values())
        out["mtu"] = ", ".join(f"{mtu} bytes" for mtu in sorted(frames))
    return out
