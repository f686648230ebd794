"""Builds a cluster of catalogue parts from what a log says about its machine; every guess is written down."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import railyard.cluster as clusters
from railyard.ask.calibrate.nccl.constants import CONSTANTS, HOST_GPU_US, LaunchConstants
from railyard.cluster import ClusterSpec, FabricSpec, NetworkSpec
from railyard.collective import CollectivePolicy
from railyard.collective.machine import machine_of
from railyard.kit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from railyard.ask.calibrate.nccl.log import LogTable, NcclLog
    from railyard.catalog import Catalog, Server
    from railyard.cluster import Cluster


BARE_METAL, CLOUD, PYTHON = "bare metal", "cloud", "Python"
CLASSES = (BARE_METAL, CLOUD, PYTHON)

CHANNEL_BYTES = 32 << 10
"""Least data of a channel (NCCL: 512 threads of 64 B)."""

HOST_CHANNELS = 24
"""Channels of a ring on 8 A100."""

_BARRIER = re.compile(r"barrier-aligned|hipEvent", re.IGNORECASE)
_PYTHON = re.compile(
    r"all_reduce_bench\.py|\btorch\.(?:b?float\d*|distributed|dist)\b|\bthrough PyTorch\b", re.IGNORECASE
)
_CLOUD = re.compile(
    r"\baws|\bec2\b|\beks\b|\befa\b|\bp[45](?:de|d|en|e)?\b|\bp6[\w-]*|azure|\bndv?\d|\bnd[a-z]*_|\baks\b|\bgcp\b|google|\bgke\b|"
    r"\ba3 |\ba3-|\ba3(?:mega|high|ultra)|\ba4\b|\btcpxo?\b|nebius|lambda|\bvm\b|virtual|superbench",
    re.IGNORECASE,
)
"""Words of clouds that rent virtual machines. Shapes called bare metal (OCI's `BM`), CoreWeave, Vultr and machines that
are named by their maker are none."""


@dataclass(frozen=True)
class Launch:
    """Effect of the way of launching on times.

    Attributes:
        name: One of `CLASSES`.
        host_us: What the host needs for an invocation, whatever its size.
        host_channel_us: The same for each further channel that the size fills.
        idle_us: Time to wake a network path that has fallen idle; traffic that takes longer keeps it awake.
    """

    name: str = BARE_METAL
    host_us: float = 0.0
    host_channel_us: float = 0.0
    added_us: float = 0.0
    idle_us: float = 0.0

    def times_us(self, size_bytes: NDArray[np.int64], own_us: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times as the benchmark sees them, float64[k].

        Args:
            size_bytes: int64[k], nccl-tests sizes.
            own_us: float64[k], of accelerators and network.
        """
        channels = np.clip(np.ceil(size_bytes / CHANNEL_BYTES), 1, HOST_CHANNELS)
        host = self.host_us + self.host_channel_us * (channels - 1)
        seen: NDArray[np.float64] = np.maximum(host, np.hypot(own_us + self.added_us, self.idle_us))
        return seen


def launch_of(
    log: NcclLog, block: LogTable, collective: str, ranks: int, constants: LaunchConstants = CONSTANTS
) -> tuple[Launch, tuple[str, ...]]:
    """The launch of a table, and what had to be assumed about it."""
    about = "; ".join(log.headers.get(key, "") for key in ("name", "config", "hardware", "source", "test", "columns"))
    name = CLOUD if _CLOUD.search(about) else BARE_METAL
    own_flags = re.search(r"(?:^|[\s,;])-[nwgb] \d", log.headers.get("config", ""))
    if not own_flags and (_PYTHON.search(about + log.text) or "ml-engineering" in about):
        if _BARRIER.search(log.text):
            return Launch(PYTHON, added_us=constants.python_us), ("launched through PyTorch, one call at a time",)
        host_us = constants.python_us + constants.python_events_us
        return Launch(PYTHON, host_us=host_us, added_us=constants.python_events_us), ("launched through PyTorch",)
    driven = min(block.gpus_per_process, ranks)
    assumed: tuple[str, ...] = ()
    if block.gpus_per_process == 0:
        driven = _driven(about, ranks, several=bool(own_flags))
        assumed = ("one process a GPU, launched by MPI" if driven == 1 else f"one process for {driven} GPUs",)
    posts = driven * constants.host_peer_us * (ranks - 1) if collective == "all-to-all" else 0.0
    host_us = driven * HOST_GPU_US
    if driven == 1:
        return Launch(name, host_us + posts), assumed
    together_us = host_us / 2  # kernels of one process start one after another; a rank waits for half of them
    if posts:
        return Launch(name, host_us + posts, added_us=together_us + posts), assumed
    handed = constants.host_channel_us if re.search(r"[av]100", about, re.IGNORECASE) else 0.0
    return Launch(name, host_us, driven * handed, together_us), assumed


def _driven(about: str, ranks: int, *, several: bool) -> int:
    """GPUs of a process, where no line of the benchmark says it.

    Flags without MPI's command on a machine of up to 8 are those of a single process, as nccl-tests documents it.
    """
    said = re.search(r"1 process x (\d{1,2}) GPUs", about)
    if said:
        return max(1, int(said.group(1)))
    return ranks if several and ranks <= 8 else 1


_GENERIC = re.compile(r"\w+ (?:server|tray)")
"""Aliases of the servers that stand for an accelerator when a log names only that: `H100 server`, `GB200 tray`."""

USUAL_VERSION = "2.27"
"""Taken where a log does not say: of 2025, as most of the published logs are."""

PUT_SMALL_BYTES = 8 << 10
"""A message that the put's latency of 14 us covers (GB200, two concurrent puts)."""

_NICS = re.compile(
    r"(\d{1,3})\s*x\s*(?:\w+[ -]){0,2}?(?:NDR|HDR|EDR|XDR|CX-?\d\s)?\s*(\d{2,4})\s*"
    r"(?:Gb/s|Gbps|G\b|\b(?= InfiniBand| IB|;|,|\)|$))",
    re.IGNORECASE,
)
"""`8x NDR400`, `16x 200G`, `32x100G EFA`: NICs of a server and the Gb/s of each."""

_AFTER = re.compile(
    r"\b(?:NDR|HDR|EDR|XDR)\s*(\d{2,4})\b[^;]{0,20}?\bx(\d{1,2})\s+per\s+(?:node|server)", re.IGNORECASE
)
_PER_GPU = re.compile(
    r"(?:(\d)\s*x\s*)?(\d{2,4})\s*(?:Gb/s|G)\s+(?:RoCE|RDMA|IB|InfiniBand)[^;]{0,12}?per GPU", re.IGNORECASE
)
_DEFAULT_FABRIC = "roce"


@dataclass(frozen=True)
class LogMachine:
    """Machine that a table of a log is compared with.

    Attributes:
        policy: What its launch and its network's software add.
        launch: What the way of launching does to times.
        small_policy: The policy of messages up to `PUT_SMALL_BYTES`, where their network's software differs.
    """

    cluster: Cluster
    policy: CollectivePolicy
    defaults: tuple[str, ...]
    launch: Launch = field(default_factory=Launch)
    small_policy: CollectivePolicy | None = None


@dataclass
class _Wish:
    server: str
    ranks: int
    fabric: FabricSpec
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)
    defaults: list[str] = field(default_factory=list)


def setting(
    log: NcclLog,
    block: LogTable,
    collective: str,
    ranks: int,
    catalog: Catalog,
    *,
    constants: LaunchConstants = CONSTANTS,
) -> LogMachine:
    """The cluster of a table.

    Raises:
        InputError: The log names no accelerator of the catalogue, or no cluster of that many ranks can be built.
    """
    text = log.description
    server, defaults = _server(log, catalog)
    wish = _Wish(server.name, ranks, FabricSpec(_DEFAULT_FABRIC), defaults=defaults)
    _whole_servers(wish, server, ranks)
    _rack(wish, server, text)
    several = wish.ranks > max(server.accelerators, _domain(wish, server))
    _nics(wish, server, text, catalog, several=several)
    _fabric(wish, server, text, catalog, constants, several=several)
    _network_only(wish, server, text, ranks)
    launch, assumed = launch_of(log, block, collective, ranks, constants)
    wish.defaults += assumed
    if re.search(r"\btcpx\b", text, re.IGNORECASE) and several:
        launch = replace(launch, idle_us=constants.tcpx_idle_us)
    policy = _policy(wish, log, block, collective, constants)
    if not re.search(r"\bctran|\bctring\b|\bctsrd\b", log.headers.get("source", "") + text + block.title):
        return LogMachine(_built(wish, catalog), policy, tuple(wish.defaults), launch)
    launch = replace(launch, added_us=launch.added_us + constants.put_start_us)
    built = _built(wish, catalog)
    path_ps = machine_of(built).path_latency_ps
    # The note of a put is written when the put is acknowledged: one more way there and back.
    puts = replace(policy, network_overhead_ps=policy.network_overhead_ps + 2 * path_ps)
    return LogMachine(built, puts, tuple(wish.defaults), launch, policy)


def _server(log: NcclLog, catalog: Catalog) -> tuple[Server, list[str]]:
    """The server that the log names, or the usual one of the accelerator that it names."""
    text = log.description
    named = _longest(text, _spellings(catalog, "servers"))
    if named is not None:
        return catalog.server(named), []
    places = [text, *dict.fromkeys(log.devices), log.file.replace("_", " ").replace("x", " x ")]
    for place in places:
        accelerator = _longest(place, _spellings(catalog, "accelerators"))
        if accelerator is not None:
            usual = _usual_server(catalog, accelerator)
            return catalog.server(usual), [f"server {usual}, the usual one of {accelerator}"]
    raise InputError("the log names no server or accelerator of the catalogue", file=log.path, found=text[:120])


@lru_cache(maxsize=8)
def _spellings(catalog: Catalog, kind: str) -> tuple[tuple[str, str], ...]:
    """(spelling, name) of every entry of a kind, the longest spelling first."""
    pairs = []
    for name in catalog.names(kind):
        entry = catalog.entry(kind, name)
        pairs += [(_plain(word), name) for word in (name, *entry.aliases)]
    return tuple(sorted(set(pairs), key=lambda pair: (-len(pair[0]), pair)))


def _plain(text: str) -> str:
    """Small letters and digits, words separated by one space; letters and digits of one word stay together."""
    return " ".join(re.findall(r"[a-z0-9.+]+", text.lower()))


def _longest(text: str, spellings: tuple[tuple[str, str], ...]) -> str | None:
    """Name of the entry whose longest spelling occurs as whole words in a text."""
    padded = f" {_plain(text)} "
    return next((name for word, name in spellings if f" {word} " in padded), None)


def _usual_server(catalog: Catalog, accelerator: str) -> str:
    fitting = [name for name in catalog.names("servers") if catalog.server(name).accelerator == accelerator]
    if not fitting:
        raise InputError(f"the catalogue has no server with {accelerator}", found=accelerator)
    generic = [name for name in fitting if any(_GENERIC.fullmatch(alias) for alias in catalog.server(name).aliases)]
    return (generic or fitting)[0]


def _domain(wish: _Wish, server: Server) -> int:
    return int(wish.overrides.get("server", {}).get("scale_up_domain", server.scale_up_domain))


def _whole_servers(wish: _Wish, server: Server, ranks: int) -> None:
    """Clusters are made of whole servers; fewer ranks than one has take part of one that is whole."""
    wish.ranks = -(-ranks // server.accelerators) * server.accelerators


def _rack(wish: _Wish, server: Server, text: str) -> None:
    """Ranks of racks with one scale-up domain each are spread evenly over as few racks as hold them."""
    if server.scale_up_domain <= server.accelerators or wish.ranks <= server.scale_up_domain:
        return
    racks = -(-wish.ranks // server.scale_up_domain)
    each = -(-wish.ranks // racks // server.accelerators) * server.accelerators
    wish.overrides.setdefault("server", {})["scale_up_domain"] = each
    if not re.search(r"rack", text, re.IGNORECASE):
        wish.defaults.append(f"{racks} racks with {each} ranks each")


def _nics(wish: _Wish, server: Server, text: str, catalog: Catalog, *, several: bool) -> None:
    """NICs of a server and their rate, where the log states other ones than the catalogue."""
    found = stated_nics(text, server.accelerators)
    if found is None:
        if several:
            nic = catalog.nic(server.nic)
            wish.defaults.append(f"{server.nics} NICs of {nic.rate_bps / 1e9:g} Gb/s a server, as in {server.name}")
        return
    nics, gbps = found
    rate = catalog.nic(server.nic).rate_bps
    if abs(nics * gbps * 1e9 - server.nics * rate) < 1e9:
        return  # the same in other words: one NIC of 400 Gb/s or two ports of 200
    wish.overrides.setdefault("server", {})["nics"] = nics
    wish.overrides.setdefault("nic", {})["rate_bps"] = gbps * 1e9


def stated_nics(text: str, accelerators: int) -> tuple[int, float] | None:
    """NICs of a server and the Gb/s of each that a description states; None where it states none."""
    each = _PER_GPU.search(text)
    if each:
        return accelerators * int(each.group(1) or 1), float(each.group(2))
    after = _AFTER.search(text)
    if after:
        return int(after.group(2)), float(after.group(1))
    found = [(int(match.group(1)), float(match.group(2))) for match in _NICS.finditer(text)]
    found = [(nics, gbps) for nics, gbps in found if gbps in (25, 50, 100, 200, 400, 800, 1600)]
    return max(found, key=lambda pair: pair[0] * pair[1]) if found else None


def _fabric(
    wish: _Wish, server: Server, text: str, catalog: Catalog, constants: LaunchConstants, *, several: bool
) -> None:
    """The fabric by the words of the log, else by the vendor of the NIC."""
    lowered = text.lower()
    vendor = catalog.nic(server.nic).vendor.lower()
    name = None
    if re.search(r"infiniband|\bndr|\bhdr|\bxdr|\bib\b|quantum", lowered):
        name = "infiniband"
    elif "spectrum-x" in lowered:
        name = "spectrum-x"
    elif "roce" in lowered:
        name = "roce"
    overrides: dict[str, Any] = {}
    if name is None and vendor in ("aws", "google"):
        name = "uec" if vendor == "aws" else "roce"  # EFA's datagrams take many paths
    if name is None:
        name = _DEFAULT_FABRIC
        if several:
            wish.defaults.append(f"fabric {name}")
    if re.search(r"\btcpx\b", lowered):
        overrides["transport_efficiency"] = constants.tcpx_efficiency
    if name == "infiniband" and re.search(r"\bsharp\b", lowered):
        overrides["sharp"] = True
    wish.fabric = FabricSpec(name, overrides)


def _network_only(wish: _Wish, server: Server, text: str, ranks: int) -> None:
    """Runs that switch NVLink off: every rank is a server of its own."""
    if not re.search(r"--?nolocal|NVLink[^;]{0,20}disabled|NVLink off", text, re.IGNORECASE):
        return
    own = wish.overrides.setdefault("server", {})
    nics = own.get("nics", server.nics) // server.accelerators
    own.update(
        accelerators=1, scale_up_domain=1, nics=max(1, nics), accelerator_numa=(0,), nic_numa=(0,) * max(1, nics)
    )
    wish.ranks = ranks
    wish.defaults.append("scale-up switched off: every rank alone with its NICs")


def _policy(
    wish: _Wish, log: NcclLog, block: LogTable, collective: str, constants: LaunchConstants
) -> CollectivePolicy:
    algorithm = block.algorithm or _forced(log)
    forced = {collective: algorithm} if algorithm else {}
    return CollectivePolicy(
        algorithm=forced,
        protocol=dict.fromkeys(forced, "simple"),
        version=_version(wish, log),
        measured=constants.library,
    )


_NCCL_NAMES = {
    "collnetdirect": "collnet-direct",
    "collnetchain": "collnet-chain",
    "nvlstree": "nvls-tree",
    "ring": "ring",
    "tree": "tree",
}


def _forced(log: NcclLog) -> str:
    """The algorithm that its launch forces, in Railyard's words; empty where the library chose."""
    forced = re.search(r"NCCL_ALGO=(\w+)", log.headers.get("config", ""))
    return _NCCL_NAMES.get(forced.group(1).lower(), "") if forced else ""


def _version(wish: _Wish, log: NcclLog) -> str:
    """Version of the library: as the log says it, else the usual one."""
    said = stated_version(log)
    if not said:
        wish.defaults.append(f"NCCL {USUAL_VERSION}")
    return said or USUAL_VERSION


def stated_version(log: NcclLog) -> str:
    """Version of the library, as the log prints it (`2.28.7`, `22903`) or its header says it; empty where none does."""
    printed = re.match(r"2\.\d{1,2}", log.version)
    if printed:
        return printed.group(0)
    if re.fullmatch(r"2\d{4}", log.version):
        return f"2.{int(log.version[1:3])}"
    said = re.search(r"NCCL (?:version )?(2\.\d{1,2})", log.text)
    return said.group(1) if said else ""


@lru_cache(maxsize=64)
def _cached(key: tuple[Any, ...], catalog: Catalog) -> Cluster:
    ranks, server, fabric, fabric_overrides, overrides = key
    topology = clusters.topologies.get("rail-optimized")()
    network = NetworkSpec(topology=topology, fabric=FabricSpec(fabric, dict(fabric_overrides)))
    own = {record: dict(values) for record, values in overrides}
    return clusters.build(ClusterSpec(accelerators=ranks, server=server, back_end=network, overrides=own), catalog)


def _built(wish: _Wish, catalog: Catalog) -> Cluster:
    overrides = tuple((record, tuple(sorted(values.items()))) for record, values in sorted(wish.overrides.items()))
    fabric = tuple(sorted(wish.fabric.overrides.items()))
    return _cached((wish.ranks, wish.server, wish.fabric.name, fabric, overrides), catalog)
