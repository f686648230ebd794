"""A fact of a switch's configuration that is otherwise than intended: which cables or settings it takes away.

Each fact has a cause by which it costs: a class without pauses loses packets, a queue without marks fills and pauses,
small headroom overflows, frames that are too small are dropped, an absent session or prefix takes cables out of routes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from railyard.ask.audit.against import frames_share
from railyard.ask.audit.symptom import AuditFinding, Setting, Symptom
from railyard.ask.deploy.cabling import is_infiniband
from railyard.ask.deploy.emit.intent import on_the_way, switches
from railyard.ask.deploy.system import WORDS, systems, wrong_facts, wrong_ports, wrong_words
from railyard.cluster.network_table import DIALECTS, UNKNOWN
from railyard.kit.errors import Problem

if TYPE_CHECKING:
    from railyard.ask.deploy.cabling import CablingPlan
    from railyard.ask.deploy.emit.intent import SwitchIntent
    from railyard.ask.deploy.system import Facts
    from railyard.cluster.asbuilt.reported.reports import Configuration, Reports
    from railyard.cluster.network_table import NetworkTable


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

UNPRICED = {
    "cnp": "the model has one class of congestion notifications: delays behind data packets are not simulated",
    "bfd": "it costs nothing until a cable fails with its light on: traffic is then lost for seconds,"
    " until BGP's hold time ends; how often that happens is unknown",
    "red": "marks come earlier or later: `railyard tune` prices that, an audit does not",
    "alpha": "pauses come earlier or later: `railyard tune` prices that, an audit does not",
    "asn": "two switches with the same AS number drop each other's routes; which ones depends on the other switches",
    "loopback": "only the router's own address changes: it carries no job traffic",
}
"""Facts that have no price, and why."""

EXTRA = "the file has settings that the plan lacks: their effect is not simulated"
SMALL = "full-size packets have room; only small packets would overflow, and no simulated load has enough of them"
NOT_SAID = "the file does not set it, and the system's default is not public"


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
    """Effect of a wrong fact on the packets of a switch."""
    if key == "roce":
        return _class(intent)
    if key in ("pfc", "ecn"):
        ports = sorted(want - (found or set()))
        return (_setting(intent, ports, "pause" if key == "pfc" else "mark"),) if ports else ()
    if key == "headroom":
        return _headroom(intent, want, found)
    return ()


def _class(intent: SwitchIntent) -> tuple[Setting, ...]:
    listed = []
    if intent.pauses:
        listed.append(_setting(intent, [], "pause"))
    if intent.marks:
        listed.append(_setting(intent, [], "mark"))
    return tuple(listed)


def _headroom(intent: SwitchIntent, want: dict[str, dict[str, int]], found: Any) -> tuple[Setting, ...]:
    """One setting for each share of what full packets need; the rest is for small packets, which fill cells badly."""
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
        return "this fabric has no PFC, so the setting does not apply"
    return ""


def _fewer(want: Any, found: Any) -> bool:
    if isinstance(want, dict):
        return any(found.get(port, value) < value for port, value in want.items() if not isinstance(value, dict))
    return bool(want - found)


COMPARED = ("roce", "cnp", "bfd")
"""Facts that are equal on all switches of a network; others are compared as shares of a switch's ports."""

LIKE = 3
"""Switches that must agree before another one counts as different."""


def among(network: NetworkTable, found: list[tuple[str, str, Facts]]) -> list[Symptom]:
    """Symptoms of facts that differ from the others, or that are too small by any count.

    Args:
        network: Of the network.
        found: Device, operating system and facts of each configuration.
    """
    out = []
    for dialect in sorted({one for _, one, _ in found}):
        like = [(device, facts) for device, one, facts in found if one == dialect]
        out += _unlike(network, like)
        out += [symptom for device, facts in like for symptom in _small(network, device, facts)]
    return out


def _unlike(network: NetworkTable, like: list[tuple[str, Facts]]) -> list[Symptom]:
    out = []
    values: dict[str, dict[str, Any]] = defaultdict(dict)
    for device, facts in like:
        for key, value in _comparable(facts).items():
            values[key][device] = value
    facts_of = dict(like)
    for key, mine in values.items():
        usual, times = Counter(mine.values()).most_common(1)[0]
        if times < LIKE or times <= len(mine) / 2:
            continue
        right = next(facts_of[device] for device, value in mine.items() if value == usual)
        for device, value in mine.items():
            if value != usual:
                words = f"{WORDS.get(key, key)}: {value}, but {times} similar devices have {usual}"
                out.append(_alike_symptom(network, (device, key), words, facts_of[device], right))
    return out


def _alike_symptom(network: NetworkTable, where: tuple[str, str], words: str, facts: Facts, right: Facts) -> Symptom:
    device, key = where
    settings = _settings(network, device, key, facts, right)
    cables = _small_frames(network, device, facts, right) if key == "mtu" else ()
    why = UNPRICED.get(key, "")
    if key in ("pfc", "ecn") and not settings:
        why = "it has settings that its peers lack: their effect is not simulated"
    finding = AuditFinding(KIND.get(key, "wrong-setting"), device, UNKNOWN, words, settings=settings, unpriced=why)
    return Symptom(finding, cables)


def _settings(network: NetworkTable, device: str, key: str, facts: Facts, right: Facts) -> tuple[Setting, ...]:
    leaf = _is_leaf(network, device)
    if key == "roce":
        pause, mark = Setting(device, (), "pause", 0.0, leaf), Setting(device, (), "mark", 0.0, leaf)
        return tuple(one for one, fact in ((pause, "pfc"), (mark, "ecn")) if right.get(fact))
    if key not in ("pfc", "ecn"):
        return ()
    ports = max(len(facts.get("mtu", {})), 1)
    wrong = 1.0 - len(facts[key]) / ports
    if wrong <= 0 or not right.get(key):
        return ()
    return (Setting(device, (), "pause" if key == "pfc" else "mark", 0.0, leaf, wrong, wrong),)


def _is_leaf(network: NetworkTable, device: str) -> bool:
    number = network.number(device)
    return number is not None and bool(network.host[network.ends[list(network.cables_of[number].values())]].any())


def _small_frames(network: NetworkTable, device: str, facts: Facts, right: Facts) -> tuple[tuple[int, float], ...]:
    """Cables of ports whose frames are smaller than those of the others."""
    number, usual = network.number(device), max(right["mtu"].values())
    if number is None:
        return ()
    listed = [
        (network.cable_in(number, port), frames_share(mtu, usual, host=False)) for port, mtu in facts["mtu"].items()
    ]
    return tuple((cable, share) for cable, share in listed if cable is not None and share < 1)


def _small(network: NetworkTable, device: str, facts: Facts) -> list[Symptom]:
    """Headroom that is smaller than what may come over the cables that the file itself names."""
    length, rate = facts.get("length_m", {}), facts.get("rate_bps", {})
    wrong: dict[tuple[int, int], list[str]] = {}
    for port, sizes in facts.get("headroom", {}).items():
        if port in facts["pfc"] and port in length and port in rate:
            least = int(on_the_way(rate[port], length[port]))
            if sizes.get("xoff", 0) < least:
                wrong.setdefault((sizes.get("xoff", 0), least), []).append(port)
    ports = max(len(facts.get("mtu", {})), 1)
    out = []
    for (found, least), listed in wrong.items():
        words = (
            f"headroom: xoff {found:,} bytes on {len(listed)} ports ({listed[0]} and so on); over the cables"
            f" that the file names {least:,} may come after a pause"
        )
        part = len(listed) / ports
        setting = Setting(device, tuple(listed), "headroom", found / least, _is_leaf(network, device), part, part)
        out.append(Symptom(AuditFinding("wrong-qos", device, UNKNOWN, words, settings=(setting,))))
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


def symptoms(network: NetworkTable, reports: Reports, plan: CablingPlan | None) -> list[Symptom]:
    """A finding a switch and fact that is otherwise."""
    found = _by_device(reports)
    if plan is not None:
        return _against(network, found, plan, reports)
    return among(network, [(one.device, one.dialect, facts) for one, facts in found.values()])


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
        return systems.get(one.dialect).facts(one.text)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        words = f"a configuration of {one.dialect} that is not as that system writes it"
        reports.problems.append(Problem(words, file=one.file, found=repr(error)[:80]))
        return None


def _against(
    network: NetworkTable, found: dict[str, tuple[Configuration, Facts]], plan: CablingPlan, reports: Reports
) -> list[Symptom]:
    out = []
    waiting = dict(found)
    for number in range(len(plan.networks)):
        if is_infiniband(plan, number):
            continue
        for dialect in {one.dialect for one, _ in found.values()}:
            for intent in switches(plan, number, DIALECTS[dialect]):
                if intent.name not in waiting or waiting[intent.name][0].dialect != dialect:
                    continue
                _, facts = waiting.pop(intent.name)
                want = systems.get(dialect).meant(intent)
                out += [_symptom(network, intent, key, want, facts) for key in wrong_facts(want, facts)]
    for one, _ in waiting.values():
        reports.problems.append(Problem("the plan has no such switch", file=one.file, found=one.device))
    return out


def _symptom(network: NetworkTable, intent: SwitchIntent, key: str, wanted: Facts, facts: Facts) -> Symptom:
    want, found = wanted[key], facts.get(key)
    ports = wrong_ports(want, found) if key == "headroom" else [] if key in ("red", "alpha") else _ports(want, found)
    words = wrong_words(key, want, found)
    number = network.number(intent.name)
    lost = prefixes_of(intent, found) if key == "announced" else cables_of(key, want, found)
    settings = settings_of(intent, key, want, found)
    why = "" if lost or settings else reason(key, want, found, pauses=intent.pauses)
    ends = (intent.name, UNKNOWN)
    if len(ports) == 1 and number is not None and key != "announced":
        ends = network.cable_words(number, ports[0])
    finding = AuditFinding(KIND.get(key, "wrong-setting"), *ends, words, settings=settings, unpriced=why)
    cables = [(network.cable_in(number, port), share) for port, share in lost] if number is not None else []
    return Symptom(finding, tuple((cable, share) for cable, share in cables if cable is not None and share < 1))


def _ports(want: Any, found: Any) -> list[str]:
    if isinstance(want, dict) and isinstance(found, dict):
        return sorted(port for port in want.keys() | found.keys() if want.get(port) != found.get(port))
    if isinstance(want, set) and isinstance(found, set):
        return sorted({one if isinstance(one, str) else one[0] for one in want ^ found})
    return []
