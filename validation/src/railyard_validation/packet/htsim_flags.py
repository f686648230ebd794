"""Recorded command lines of htsim, in Railyard's words."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

NO_ANCHOR = {
    "csg_htsim_swift": "no anchor: htsim's Swift stalls in timeouts at 400 Gb/s (of the incast 7 of 32 flows end)",
    "csg_htsim_tcp": "no anchor: htsim's TCP takes no matrix, is seeded by the clock and gave no result",
}
"""Programs whose recorded answers say nothing, and why."""

_HEADER_BYTES = 64
_UEC = ("uet_htsim_uec", "htsim_uec")
_CONTROLS = {
    (False, False): "nscc",
    (True, False): "nscc",
    (False, True): "rccc",
    (True, True): "nscc+rccc",
}
_ONE_VALUE = {
    "-q": "queue_packets",
    "-cwnd": "window_packets",
    "-sack_threshold": "sack_bytes",
    "-paths": "paths",
    "-failed": "slow_links",
    "-mtu": "mtu_bytes",
    "-tiers": "tiers",
    "-load_balancing_algo": "load_balancing",
}
_WORDS = {"oblivious": "spray"}
"""htsim's words that are others here."""

_SENDER = ("-sender_cc", "-sender_cc_only")
_RECEIVER = ("-receiver_cc", "-receiver_cc_only")
_WIDE = {"-pfc_thresholds": 2}
"""Flags with more than one value."""

_IGNORED = ("-end", "-nodes", "-conn_reuse")
"""Flags that change nothing here: our runs end when all flows have, and messages of a connection are always joined."""


@dataclass
class Command:
    """A recorded command.

    Attributes:
        preset: The fabric.
        matrix: Name of the traffic file.
        topology: Name of the topology file; empty for the default tree.
        sets: `key=value` for `--set`.
        not_built: Why the command cannot be run here; empty where it can.
        hashed: Whether a flow takes one path, so that its fate hangs on the seed of the hash.
        slowed: Whether links are slowed down.
    """

    preset: str = "uec-htsim"
    matrix: str = ""
    topology: str = ""
    sets: list[str] = field(default_factory=list)
    not_built: str = ""
    hashed: bool = False
    slowed: bool = False


def command(text: str) -> Command:
    """Reads a command.

    Raises:
        InputError: It names no traffic, or a value is missing.
    """
    words = shlex.split(text)
    program = words[0].rsplit("/", 1)[-1] if words else ""
    found = Command()
    if program not in _PROGRAMS:
        found.not_built = NO_ANCHOR.get(program, f"not built: {program or 'no program'}")
        return found
    if program == "railyard":
        return _own(found, words)
    values = _values(words[1:])
    found.matrix = values.pop("-tm", "").rsplit("/", 1)[-1]
    found.topology = values.pop("-topo", "").rsplit("/", 1)[-1]
    if not found.matrix:
        raise InputError("the command names no traffic", key="cmd", found=text)
    _PROGRAMS[program](found, values)
    return found


def _values(words: list[str]) -> dict[str, str]:
    """Flags and their values; of flags without one, the flag itself."""
    alone = {"-conn_reuse", *_SENDER, *_RECEIVER}
    values: dict[str, str] = {}
    at = 0
    while at < len(words):
        flag = words[at]
        if flag in alone:
            values[flag] = flag
            at += 1
            continue
        if at + 1 == len(words):
            raise InputError("a flag without its value", key="cmd", found=flag)
        width = _WIDE.get(flag, 1)
        values[flag] = " ".join(words[at + 1 : at + 1 + width])
        at += 1 + width
    return values


def _uec(found: Command, values: dict[str, str]) -> None:
    """Flags of uet-htsim's UEC; its links are of 100 Gb/s unless it is told otherwise."""
    rate = values.pop("-linkspeed", "100000")
    found.sets.append(f"link_rate={rate} Mb/s")
    sender, receiver = (not values.keys().isdisjoint(flags) for flags in (_SENDER, _RECEIVER))
    found.sets.append(f"congestion_control={_CONTROLS[sender, receiver]}")
    strategy = values.pop("-strat", "ecmp_host")
    if strategy == "ecmp_ar":
        found.sets.append("load_balancing=adaptive")
    elif strategy != "ecmp_host":
        found.not_built = f"not built: htsim's strategy {strategy}"
    if values.get("-paths") == "1":
        values.pop("-paths")
        found.hashed = True
        found.sets.append("load_balancing=ecmp")
    found.slowed = "-failed" in values
    for flag, value in values.items():
        if flag in _ONE_VALUE:
            found.sets.append(f"{_ONE_VALUE[flag]}={_WORDS.get(value, value)}")
        elif flag not in {*_IGNORED, *_SENDER, *_RECEIVER}:
            found.not_built = f"not built: htsim's flag {flag}"
    found.sets.append("recv_done_trigger=ignore")


def _roce(found: Command, values: dict[str, str]) -> None:
    """Flags of csg-htsim's RoCE: its `-mtu` is payload, and its queues never drop (`-q` only makes them complain)."""
    found.preset = "roce-htsim"
    payload = int(values.pop("-mtu", "9000"))
    low, high = values.pop("-pfc_thresholds", "12 15").split()
    found.sets += [
        f"link_rate={values.pop('-linkspeed', '100000')} Mb/s",
        f"mtu_bytes={payload + _HEADER_BYTES}",
        f"pfc_xoff={int(high) * payload}",
        f"pfc_xon={int(low) * payload}",
        "recv_done_trigger=ignore",
    ]
    strategy = values.pop("-strat", "")
    if strategy != "ecmp_host":
        found.not_built = "not built: flowlets that switches move by load"
    found.hashed = True
    for flag in values.keys() - {*_IGNORED, "-q", "-paths", "-ar_method"}:
        found.not_built = f"not built: htsim's flag {flag}"


def _hpcc(found: Command, values: dict[str, str]) -> None:
    """Flags of csg-htsim's HPCC: those of its RoCE; the additive increase is one payload."""
    payload = values.get("-mtu", "9000")
    _roce(found, values)
    found.preset = "hpcc-htsim"
    found.sets.append(f"hpcc_increase={payload}")


def _eqds(found: Command, values: dict[str, str]) -> None:
    """Flags of csg-htsim's EQDS."""
    found.preset = "eqds-htsim"
    mtu = int(values.pop("-mtu", "4150"))
    _pulled(found, values, [f"mtu_bytes={mtu}", f"queue_packets={values.pop('-q', '35')}"])


def _ndp(found: Command, values: dict[str, str]) -> None:
    """Flags of csg-htsim's NDP: its `-mtu` is payload, in whole packets of which its queue is measured."""
    found.preset = "ndp-htsim"
    payload = int(values.pop("-mtu", "9000"))
    mtu = payload + _HEADER_BYTES
    queue = int(values.pop("-q", "15")) * payload // mtu
    _pulled(found, values, [f"mtu_bytes={mtu}", f"queue_packets={queue}"])


def _pulled(found: Command, values: dict[str, str], sets: list[str]) -> None:
    found.sets += [f"link_rate={values.pop('-linkspeed', '100000')} Mb/s", *sets, "recv_done_trigger=ignore"]
    strategy = values.pop("-strat", "ecmp_host")
    if strategy != "ecmp_host":
        found.not_built = f"not built: htsim's strategy {strategy} under {found.preset}"
    for flag, value in values.items():
        if flag in {"-cwnd", "-paths", "-tiers"}:
            found.sets.append(f"{_ONE_VALUE[flag]}={value}")
        elif flag not in _IGNORED:
            found.not_built = f"not built: htsim's flag {flag}"


def _own(found: Command, words: list[str]) -> Command:
    """A command of ours: `railyard packet --fabric NAME --traffic FILE [--set key=value ...]`."""
    for flag, value in pairwise(words):
        if flag == "--fabric":
            found.preset = value
        elif flag == "--traffic":
            found.matrix = value
        elif flag == "--set":
            found.sets.append(value)
    found.hashed = True
    return found


_PROGRAMS: dict[str, Callable[[Command, dict[str, str]], None]] = {
    **dict.fromkeys(_UEC, _uec),
    "csg_htsim_roce": _roce,
    "csg_htsim_hpcc": _hpcc,
    "csg_htsim_eqds": _eqds,
    "csg_htsim_ndp": _ndp,
    "railyard": lambda _found, _values: None,
}
