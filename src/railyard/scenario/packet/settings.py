"""What a packet run can be told, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from railyard.engine.packet import PfcSettings
from railyard.engine.packet.control_settings import ControlSettings
from railyard.engine.packet.link_credit_settings import LinkCreditSettings
from railyard.engine.packet.pulled_settings import PulledSettings
from railyard.engine.packet.rdma_settings import RATE_CONTROLS, RdmaSettings
from railyard.engine.packet.scheduled import ScheduledSettings
from railyard.errors import InputError, did_you_mean
from railyard.scenario.packet.control_keys import CONTROL_READERS, is_rate_control, word_or_user
from railyard.scenario.packet.link_credit_keys import LINK_CREDIT_READERS
from railyard.scenario.packet.pfc import READERS as PFC_READERS
from railyard.scenario.packet.pulled_keys import PULLED_READERS
from railyard.scenario.packet.rdma_keys import RDMA_READERS
from railyard.scenario.packet.readers import choice, number, rate, share, time, time_or_never, whole, yes
from railyard.scenario.packet.scheduled_keys import SCHEDULED_READERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TRANSPORTS = ("uec", "rdma", "eqds", "ndp")
CONGESTION_CONTROLS = ("nscc", "rccc", "nscc+rccc", "constant")
SWITCHINGS = ("lossy", "pfc", "credit", "scheduled")
LOAD_BALANCERS = ("mixed", "reps", "bitmap", "oblivious", "adaptive", "single-path", "flowlet", "skip")


@dataclass(frozen=True)
class Settings(LinkCreditSettings, PfcSettings, RdmaSettings, ControlSettings, ScheduledSettings, PulledSettings):
    """Everything beside traffic and topology; None stands for what the engine derives from the network.

    Attributes:
        transport: What hosts speak: one of `TRANSPORTS`.
        switching: What happens at a full egress: one of `SWITCHINGS`.
        congestion_control: Who decides how much a flow of Ultra Ethernet may send: one of `CONGESTION_CONTROLS`.
        load_balancing: Who decides which path a packet takes: one of `LOAD_BALANCERS`, or `user:FILE.py:NAME`.
        paths: Entropies of a flow.
        mtu_bytes: Largest packet with its header.
        header_bytes: Header of a data packet, and size of acknowledgements and trimmed packets.
        queue_packets: Queue of an egress port; one bandwidth-delay product by default, five without trimming.
        ecn_low_packets: Queue at which marking begins; 0.2 of the bandwidth-delay product by default.
        ecn_high_packets: Queue at which every packet is marked; 0.8 of it by default.
        trim: Whether a full queue cuts packets to their headers in place of dropping them.
        window_packets: First window of a flow; 1.5 bandwidth-delay products by default.
        sack_bytes: Bytes that a receiver takes before it acknowledges unasked.
        target_delay_ps: Queueing delay that senders aim at.
        quick_adapt_gate: Quick adapt acts below the largest window divided by two to this power.
        pull_rate: Share of its line rate that a receiver grants.
        link_rate_bps: Rate of the links of the default tree.
        link_latency_ps: Latency of a link of the default tree.
        switch_latency_ps: From arrival at a switch to the egress queue, in the default tree.
        tiers: Tiers of the default tree.
        hosts: Hosts of the default tree; as many as the traffic names by default.
        slow_links: How many links keep a quarter of rate and queue, as htsim's `-failed` chooses them.
        start_unit: What `start` of a connection matrix counts: `us` or `ps`.
        recv_done_trigger: `fire`, or `ignore` as htsim does.
        end_ps: When the run ends even if flows are left; never by default.
        flowlet_gap_ps: A pause of a flow after which its next packet may take another path.
        reroute_ps: From a fault of a link to routes that know of it.
        link_retry: Links send again what arrives wrong; else it is lost.
        fabric_speedup: Rate of links between switches, over what the topology says.
    """

    transport: str = "uec"
    switching: str = "lossy"
    congestion_control: str = "nscc"
    load_balancing: str = "mixed"
    paths: int = 64
    mtu_bytes: int = 4150
    header_bytes: int = 64
    queue_packets: int | None = None
    ecn_low_packets: int | None = None
    ecn_high_packets: int | None = None
    trim: bool = True
    window_packets: int | None = None
    sack_bytes: int = 16384
    target_delay_ps: int | None = None
    quick_adapt_gate: int = 3
    pull_rate: float = 0.99
    link_rate_bps: int = 400 * 10**9
    link_latency_ps: int = 10**6
    switch_latency_ps: int = 0
    tiers: int = 3
    hosts: int | None = None
    slow_links: int = 0
    start_unit: str = "us"
    recv_done_trigger: str = "fire"
    end_ps: int | None = None
    flowlet_gap_ps: int = 10_000_000
    reroute_ps: int | None = 50_000_000
    link_retry: bool = False
    fabric_speedup: float = 1.0


_READERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "transport": ("transport", choice(*TRANSPORTS)),
    "switching": ("switching", choice(*SWITCHINGS)),
    "congestion_control": ("congestion_control", word_or_user(*CONGESTION_CONTROLS, *RATE_CONTROLS)),
    "load_balancing": ("load_balancing", word_or_user(*LOAD_BALANCERS)),
    "paths": ("paths", whole(1, 65536)),
    "mtu_bytes": ("mtu_bytes", whole(128, 65535)),
    "header_bytes": ("header_bytes", whole(1, 1024)),
    "queue_packets": ("queue_packets", whole(1, 10**7)),
    "ecn_low_packets": ("ecn_low_packets", whole(0, 10**7)),
    "ecn_high_packets": ("ecn_high_packets", whole(0, 10**7)),
    "trim": ("trim", yes),
    "window_packets": ("window_packets", whole(1, 10**7)),
    "sack_bytes": ("sack_bytes", whole(1, 10**9)),
    "target_delay": ("target_delay_ps", time),
    "quick_adapt_gate": ("quick_adapt_gate", whole(0, 30)),
    "pull_rate": ("pull_rate", share),
    "link_rate": ("link_rate_bps", rate),
    "link_latency": ("link_latency_ps", time),
    "switch_latency": ("switch_latency_ps", time),
    "tiers": ("tiers", whole(2, 3)),
    "hosts": ("hosts", whole(2, 1 << 20)),
    "slow_links": ("slow_links", whole(0, 10**6)),
    "start_unit": ("start_unit", choice("us", "ps")),
    "recv_done_trigger": ("recv_done_trigger", choice("fire", "ignore")),
    "end": ("end_ps", time),
    "flowlet_gap": ("flowlet_gap_ps", time),
    "reroute": ("reroute_ps", time_or_never),
    "link_retry": ("link_retry", yes),
    "fabric_speedup": ("fabric_speedup", number(0.001, 1000)),
    **LINK_CREDIT_READERS,
    **PFC_READERS,
    **SCHEDULED_READERS,
    **RDMA_READERS,
    **CONTROL_READERS,
    **PULLED_READERS,
}

KEYS = tuple(_READERS)
"""The keys of `--set`."""


def assign(settings: Settings, assignments: Iterable[str]) -> Settings:
    """The settings with `key=value` put in.

    Raises:
        InputError: A key or a value is wrong.
    """
    changed: dict[str, Any] = {}
    for text in assignments:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not value:
            raise InputError("an assignment is key=value", key="--set", found=text)
        if key not in _READERS:
            raise InputError("unknown key", key=key, allowed=KEYS, hint=did_you_mean(key, KEYS))
        name, reader = _READERS[key]
        try:
            found = reader(value)
        except InputError as error:
            raise error.located(key=key) from None
        changed["rdma_control" if name == "congestion_control" and is_rate_control(found) else name] = found
    made = _sound(replace(settings, **changed))
    _fitting(made, changed)
    return made


def _fitting(settings: Settings, changed: dict[str, Any]) -> None:
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


def _sound(settings: Settings) -> Settings:
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


def differences(settings: Settings, base: Settings) -> dict[str, Any]:
    """What differs from other settings, by name."""
    names = [entry.name for entry in fields(Settings)]
    return {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(base, name)}
