"""Configurations without a plan: what most switches of one operating system have, and the others have not."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from railyard.ask.audit.against import frames_share
from railyard.ask.audit.design.port_map import UNKNOWN
from railyard.ask.audit.evidence.symptom import Symptom
from railyard.ask.audit.evidence.wrong_facts import KIND, UNPRICED, WORDS
from railyard.ask.audit.finding import Finding
from railyard.ask.audit.settings.setting import Setting
from railyard.ask.deploy.headroom import on_the_way

if TYPE_CHECKING:
    from railyard.ask.audit.evidence.symptom import Names
    from railyard.ask.deploy.emit.read_back import Facts

COMPARED = ("roce", "cnp", "bfd")
"""Facts that are equal on all switches of a network; others are compared as shares of a switch's ports."""

LIKE = 3
"""Switches that must agree before another one is held against them."""


def among(names: Names, found: list[tuple[str, str, Facts]]) -> list[Symptom]:
    """What is unlike the others, or too small by any reckoning.

    Args:
        names: Of the network.
        found: Device, operating system and facts of each configuration.
    """
    out = []
    for dialect in sorted({one for _, one, _ in found}):
        like = [(device, facts) for device, one, facts in found if one == dialect]
        out += _unlike(names, like)
        out += [symptom for device, facts in like for symptom in _small(names, device, facts)]
    return out


def _unlike(names: Names, like: list[tuple[str, Facts]]) -> list[Symptom]:
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
                words = f"{WORDS.get(key, key)}: {value}, where {times} of its like have {usual}"
                out.append(_symptom(names, (device, key), words, facts_of[device], right))
    return out


def _symptom(names: Names, where: tuple[str, str], words: str, facts: Facts, right: Facts) -> Symptom:
    device, key = where
    settings = _settings(names, device, key, facts, right)
    cables = _small_frames(names, device, facts, right) if key == "mtu" else ()
    why = UNPRICED.get(key, "")
    if key in ("pfc", "ecn") and not settings:
        why = "it does more than its like: what that adds is not simulated"
    finding = Finding(KIND.get(key, "wrong-setting"), device, UNKNOWN, words, settings=settings, unpriced=why)
    return Symptom(finding, cables)


def _settings(names: Names, device: str, key: str, facts: Facts, right: Facts) -> tuple[Setting, ...]:
    leaf = _is_leaf(names, device)
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


def _is_leaf(names: Names, device: str) -> bool:
    number = names.device(device)
    devices = names.discovery.devices
    return any(
        number in (one.a, one.b) and "host" in (devices[one.a].kind, devices[one.b].kind)
        for one in names.discovery.cables
    )


def _small_frames(names: Names, device: str, facts: Facts, right: Facts) -> tuple[tuple[int, float], ...]:
    """Cables of ports whose frames are smaller than those of the others."""
    number, usual = names.device(device), max(right["mtu"].values())
    if number is None:
        return ()
    listed = [(names.at(number, port), frames_share(mtu, usual, host=False)) for port, mtu in facts["mtu"].items()]
    return tuple((cable, share) for cable, share in listed if cable is not None and share < 1)


def _small(names: Names, device: str, facts: Facts) -> list[Symptom]:
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
            f"headroom: xoff {found:,} bytes on {len(listed)} ports ({listed[0]} and so on); over the cables that the"
            f" file names {least:,} may come after a pause"
        )
        part = len(listed) / ports
        setting = Setting(device, tuple(listed), "headroom", found / least, _is_leaf(names, device), part, part)
        out.append(Symptom(Finding("wrong-qos", device, UNKNOWN, words, settings=(setting,))))
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
