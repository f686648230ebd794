"""Settings of a packet run, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from railyard.cluster.fabric import fabrics
from railyard.cluster.scale_up import scale_ups
from railyard.engine.packet import CONSTANTS, names_of
from railyard.engine.packet import Settings as EngineSettings
from railyard.engine.packet.mechanisms import hint_of
from railyard.engine.packet.settings import REGISTERED, USER_KINDS, is_python, with_constants
from railyard.kit import quantities
from railyard.kit.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from railyard.engine.packet import MechanismField


_LONGEST = 17
_LIST_WORDS = {"all": tuple(range(8)), "none": ()}


def reader_of(constant: MechanismField) -> Callable[[str], Any]:
    """Reader of a user's text for a constant; refuses values out of its range.

    Raises:
        InputError: (by the reader) The text is no value of the constant.
    """
    convert = _converter(constant)

    def read(text: str) -> Any:
        if constant.none_word and text == constant.none_word:
            return None
        value = convert(text)
        try:
            constant.check(value)
        except InputError as error:
            problem = error.problems[0]
            raise InputError(problem.message, found=text, allowed=constant.allowed, hint=problem.hint) from None
        return value

    return read


def _converter(constant: MechanismField) -> Callable[[str], Any]:
    if constant.kind == "word":
        return choice(*constant.words)
    by_unit = {"ps": time, "bytes": size, "share": share}
    if constant.unit in by_unit:
        return by_unit[constant.unit]
    if constant.unit == "bps":
        return rate
    return {"flag": yes, "integer": integer, "number": number, "list": integers}[constant.kind]


def integer(text: str) -> int:
    """An integer."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        raise InputError("expected an integer", found=text)
    return int(text)


def within(low: int, high: int) -> Callable[[str], int]:
    """An integer from `low` to `high`."""

    def read(text: str) -> int:
        value = integer(text)
        if not low <= value <= high:
            raise InputError("the number is out of range", found=text, allowed=f"{low} to {high}")
        return value

    return read


def number(text: str) -> float:
    """A number: `1`, `0.125`, `1/8`."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise InputError("expected a number", found=text, allowed="such as 0.125 or 1/8") from None


def choice(*names: str) -> Callable[[str], str]:
    """One of some words."""

    def read(text: str) -> str:
        if text not in names:
            raise InputError("unknown word", found=text, allowed=names, hint=hint_of(text, names))
        return text

    return read


def share(text: str) -> float:
    """A share of 1; percent are understood."""
    return quantities.ratio(float(text) if text.replace(".", "", 1).isdigit() else text)


def yes(text: str) -> bool:
    """`true` or `false`."""
    return choice("true", "false")(text) == "true"


def rate(text: str) -> int:
    """A rate in bit/s."""
    found = round(quantities.rate(text))
    if not 10**6 <= found <= 10**14:
        raise InputError("the rate is out of range", found=text, allowed="1 Mb/s to 100 Tb/s")
    return found


def time(text: str) -> int:
    """A time in ps."""
    return quantities.time(text)


def size(text: str) -> int:
    """A size in bytes."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else quantities.size(text)


def integers(text: str) -> tuple[int, ...]:
    """Integers between commas: `0,3,7`; `all` and `none` of eight classes."""
    if text in _LIST_WORDS:
        return _LIST_WORDS[text]
    return tuple(integer(part.strip()) for part in text.split(","))


USER_FORM = "user:FILE.py:NAME"
"""Form of names of a user's own functions."""


@with_constants
class PacketSettings(EngineSettings):
    """The engine's settings, and those of the network that traffic gets where no topology is given.

    Attributes:
        link_rate_bps: Rate of the links of the default tree.
        link_latency_ps: Latency of a link of the default tree.
        switch_latency_ps: From arrival at a switch to the egress queue, in the default tree.
        tiers: Tiers of the default tree; 1 is one switch.
        hosts: Hosts of the default tree; as many as the traffic names by default.
        slow_links: How many links keep a quarter of rate and queue, as htsim's `-failed` chooses them.
        start_unit: What `start` of a connection matrix counts: `us` or `ps`.
        recv_done_trigger: `fire`, or `ignore` as htsim does.
        fabric_speedup: Rate of links between switches, over what the topology says.
    """

    link_rate_bps: int = 400 * 10**9
    link_latency_ps: int = 10**6
    switch_latency_ps: int = 0
    tiers: int = 3
    hosts: int | None = None
    slow_links: int = 0
    start_unit: str = "us"
    recv_done_trigger: str = "fire"
    fabric_speedup: float = 1.0

    if TYPE_CHECKING:

        def __init__(self, **settings: Any) -> None: ...


def _word_or_user(key: str, *names: str) -> Callable[[str], str]:
    """One of some words, or functions of the user's own."""

    def read(text: str) -> str:
        if text not in names and not is_python(key, text):
            known = (*names, *REGISTERED[key].names())
            raise InputError("unknown word", found=text, allowed=(*known, USER_FORM), hint=hint_of(text, known))
        return text

    return read


def _speedup(text: str) -> float:
    value = number(text)
    if not 0.001 <= value <= 1000:
        raise InputError("the speed-up is out of range", found=text, allowed="0.001 to 1000")
    return value


def _recovery(text: str) -> bool:
    return choice(*names_of("loss_recovery"))(text) == "selective"


RATE_CONTROLS = names_of("congestion_control", transport="rdma")
CONGESTION_CONTROLS = names_of("congestion_control", transport="uec")

_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    **{one.key: (one.name, reader_of(one)) for one in CONSTANTS.values() if one.key},
    **{key: (key, _word_or_user(key, *CONSTANTS[key].words)) for key in USER_KINDS},
    "congestion_control": ("congestion_control", _word_or_user("rdma_control", *CONGESTION_CONTROLS, *RATE_CONTROLS)),
    "loss_recovery": ("rdma_out_of_order", _recovery),
    "link_rate": ("link_rate_bps", rate),
    "link_latency": ("link_latency_ps", time),
    "switch_latency": ("switch_latency_ps", time),
    "tiers": ("tiers", within(1, 3)),
    "hosts": ("hosts", within(2, 1 << 20)),
    "slow_links": ("slow_links", within(0, 10**6)),
    "start_unit": ("start_unit", choice("us", "ps")),
    "recv_done_trigger": ("recv_done_trigger", choice("fire", "ignore")),
    "fabric_speedup": ("fabric_speedup", _speedup),
}

KEYS = tuple(_READERS)
"""The keys of `--set`."""


def assign(settings: PacketSettings, assignments: Iterable[str]) -> PacketSettings:
    """The settings with `key=value` put in.

    Raises:
        InputError: A key or a value is wrong.
    """
    changed: dict[str, Any] = {}
    for text in assignments:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not value:
            raise InputError("an assignment is key=value", key="--set", found=text)
        name, found = setting(key, value)
        changed["rdma_control" if name == "congestion_control" and _is_rate_control(found) else name] = found
    made = _sound(replace(settings, **changed))
    _fitting(made, changed)
    return made


def setting(key: str, text: str) -> tuple[str, Any]:
    """The name of a setting and its value, as one of `KEYS` has it.

    Raises:
        InputError: The key or the value is wrong.
    """
    if key not in _READERS:
        raise InputError("unknown key", key=key, allowed=KEYS, hint=did_you_mean(key, KEYS))
    name, reader = _READERS[key]
    try:
        return name, reader(text)
    except InputError as error:
        raise error.located(key=key) from None


def _is_rate_control(name: str) -> bool:
    """Whether a congestion control is one of reliable connections (`transport=rdma`), not of Ultra Ethernet."""
    return name in RATE_CONTROLS or name not in CONGESTION_CONTROLS


def _fitting(settings: PacketSettings, changed: dict[str, Any]) -> None:
    """Refuses a congestion control that the transport does not have.

    Raises:
        InputError: With the transport that has it.
    """
    for name, wanted in (("rdma_control", "rdma"), ("congestion_control", "uec")):
        others = {"uec", "eqds", "ndp"} if wanted == "rdma" else {"rdma"}
        if name in changed and settings.transport in others:
            raise InputError(
                f"the transport {settings.transport} has no such control",
                key="congestion_control",
                found=changed[name],
                allowed=RATE_CONTROLS if settings.transport == "rdma" else CONGESTION_CONTROLS,
                hint=f"say transport={wanted} too",
            )


def _sound(settings: PacketSettings) -> PacketSettings:
    """Refuses settings that contradict each other.

    Raises:
        InputError: They do.
    """
    if settings.mtu_bytes <= settings.header_bytes:
        found = f"{settings.mtu_bytes} bytes with a header of {settings.header_bytes}"
        raise InputError("packets have no room for payload", key="mtu_bytes", found=found)
    low, high = settings.ecn_low_packets, settings.ecn_high_packets
    if low is not None and high is not None and low > high:
        raise InputError("marking must begin below where it is certain", key="ecn_low_packets", found=f"{low} > {high}")
    return settings


def differences(settings: PacketSettings, base: PacketSettings) -> dict[str, object]:
    """Differences from other settings, by name."""
    names = [entry.name for entry in fields(PacketSettings)]
    return {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(base, name)}


@dataclass(frozen=True)
class Preset:
    """A fabric of packets, by name or mixed in a file.

    Attributes:
        name: What `--fabric` takes.
        left_out: What the fabric has and the model has not.
    """

    name: str
    summary: str
    settings: PacketSettings
    sources: tuple[str, ...]
    left_out: tuple[str, ...]


def names() -> list[str]:
    """All fabrics by name, scale-up ones with public frames too."""
    return sorted([*fabrics.names(), *(name for name, record in scale_ups.items() if record.packets is not None)])


def fabric(name: str) -> Preset:
    """The fabric of a name.

    Raises:
        InputError: There is none; with the nearest.
    """
    if name in scale_ups.names() and scale_ups.get(name).packets is not None:
        own = scale_ups.get(name)
        assert own.packets is not None
        settings = PacketSettings(**{**own.packets.constants, **own.packets.tree})
        return Preset(name, own.summary, settings, own.packets.sources, own.packets.left_out)
    found = fabrics.get(name)
    packets = found.packets
    known = {} if found.model_of else {"reroute_ps": found.reroute_ps}
    settings = PacketSettings(**{**known, **packets.constants, **packets.tree})
    return Preset(name, found.summary, settings, packets.sources, packets.left_out)
