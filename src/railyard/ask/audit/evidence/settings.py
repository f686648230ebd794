"""What switches run, against the intent of the plan, or against what most of their like run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railyard.ask.audit.design.port_map import UNKNOWN
from railyard.ask.audit.evidence.alike import among
from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.evidence.wrong_facts import KIND, WORDS, cables_of, prefixes_of, reason, settings_of
from railyard.ask.audit.finding import Finding
from railyard.ask.deploy.emit.intent import switches
from railyard.ask.deploy.emit.read_back import READERS, facts_of, headroom_words, wrong_facts, wrong_ports
from railyard.ask.deploy.plan.drawn import is_infiniband
from railyard.cluster.asbuilt.port_names import DIALECTS
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.symptom import Names
    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.emit.read_back import Facts
    from railyard.ask.deploy.plan.cabling import Plan
    from railyard.cluster.asbuilt.reported.reports import Configuration, Reports

SHOWN = 4


def symptoms(names: Names, reports: Reports, plan: Plan | None) -> list[Symptom]:
    """A finding a switch and fact that is otherwise."""
    found = _by_device(reports)
    if plan is not None:
        return _against(names, found, plan, reports)
    return among(names, [(one.device, one.dialect, facts) for one, facts in found.values()])


def _by_device(reports: Reports) -> dict[str, tuple[Configuration, Facts]]:
    """Facts of each switch; SONiC's that FRR's own file says are taken from that."""
    found: dict[str, tuple[Configuration, Facts]] = {}
    routing: dict[str, Facts] = {}
    for one in reports.configurations:
        facts = _facts(one, reports)
        if facts is not None and one.dialect == "frr":
            routing[one.device] = facts
        if facts is not None and (one.dialect != "frr" or one.device not in found):
            found[one.device] = one, facts
    for device, (_, facts) in found.items():
        if "elsewhere" in facts and device in routing:
            facts |= {key: routing[device][key] for key in facts.pop("elsewhere")}
    return found


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
                out += [_symptom(names, intent, key, want, facts) for key in wrong_facts(want, facts)]
    for one, _ in waiting.values():
        reports.problems.append(Problem("the plan has no such switch", file=one.file, found=one.device))
    return out


def _symptom(names: Names, intent: SwitchIntent, key: str, wanted: Facts, facts: Facts) -> Symptom:
    want, found = wanted[key], facts.get(key)
    ports = wrong_ports(want, found) if key == "headroom" else _ports(want, found)
    words = f"{WORDS.get(key, key)}: {_said(found, ports)}, planned {_said(want, ports)}"
    if key == "headroom":
        words = f"{WORDS[key]}: {headroom_words(want, found or {})}"
    number = names.device(intent.name)
    lost = prefixes_of(intent, found) if key == "announced" else cables_of(key, want, found)
    settings = settings_of(intent, key, want, found)
    why = "" if lost or settings else reason(key, want, found, pauses=intent.pauses)
    ends = (intent.name, UNKNOWN)
    if len(ports) == 1 and number is not None and key != "announced":
        ends = names.ends(number, ports[0])
    finding = Finding(KIND.get(key, "wrong-setting"), *ends, words, settings=settings, unpriced=why)
    cables = [(names.at(number, port), share) for port, share in lost] if number is not None else []
    return Symptom(finding, tuple((cable, share) for cable, share in cables if cable is not None and share < 1))


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
