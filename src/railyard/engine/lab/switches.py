"""Switches of a lab: counters of their shaped ports, and their routes by BGP.

BGP unnumbered by FRR's daemons, one zebra and one bgpd in each switch of a lab (RFC 5549, RFC 7938).
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from railyard.cluster.names import link_name
from railyard.engine.lab import blueprint
from railyard.engine.lab.blueprint import Blueprint, Command, played
from railyard.engine.lab.wiring import address, laid_out
from railyard.kit.files import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from railyard.cluster import Cluster
    from railyard.engine.lab.blueprint import LabNode, Wires


PORT = 29_500
"""Port of rank 0's rendezvous, as of torchrun."""

LONGEST_S = 3600.0

SAMPLE_S = 0.02


@dataclass(frozen=True)
class LinkCounts:
    """What a link did meanwhile.

    Attributes:
        waited_s: How long packets waited at it, by samples.
    """

    name: str
    rate_bps: float
    bytes: int
    waited_s: float


@dataclass(frozen=True)
class CommandResult:
    """How it ended.

    Attributes:
        links: That carried anything, the fullest first.
    """

    statuses: tuple[int, ...]
    links: tuple[LinkCounts, ...]


def execute(
    cluster: Cluster,
    words: Sequence[str],
    poll: Callable[[], None],
    *,
    dilation: float = 1.0,
    routing: str = "static",
) -> CommandResult:
    """Runs a command as every rank, each in the namespace of its server, with the variables that torchrun sets.

    Args:
        cluster: Whose network and ranks.
        words: The command.
        poll: Called now and then; may raise to end it.
        dilation: Links are that many times slower.
        routing: `static` or `frr`.

    Raises:
        InputError: This machine or this cluster cannot be a lab.
        SimulationError: The lab fails.
    """
    blueprint.need(routing)
    lab = laid_out(cluster, cluster.links.line_bps / dilation, routing)
    per_server = cluster.ranks_per_server
    meeting = address(int(cluster.back_end.port_of_rank[0, 0]))
    commands = tuple(
        Command(
            rank // per_server,
            tuple(words),
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(cluster.ranks),
                "LOCAL_RANK": str(rank % per_server),
                "LOCAL_WORLD_SIZE": str(per_server),
                "GROUP_RANK": str(rank // per_server),
                "MASTER_ADDR": meeting,
                "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": _interface(lab.wires.nodes[rank // per_server].addresses, cluster, rank),
                "OMP_NUM_THREADS": "1",
            },
        )
        for rank in range(cluster.ranks)
    )
    ran = played(Blueprint(lab.wires, commands=commands, sample_s=SAMPLE_S, limit_s=LONGEST_S), poll)
    links = [
        LinkCounts(link_name(cluster, port.link), port.rate_bps, sent, full)
        for port, sent, full in zip(lab.wires.ports, ran.counted.bytes, ran.counted.full_s, strict=True)
        if sent
    ]
    return CommandResult(ran.statuses, tuple(sorted(links, key=lambda link: (-link.waited_s, -link.bytes))))


def _interface(addresses: tuple[tuple[str, str], ...], cluster: Cluster, rank: int) -> str:
    """The interface of a rank's first NIC."""
    mine = address(int(np.asarray(cluster.back_end.port_of_rank)[rank, 0]))
    return next(interface for interface, one in addresses if one == mine)


NETLINK_ROUTE = 0
RTM_NEWQDISC, RTM_GETQDISC = 36, 38
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_DONE = 3
TCA_KIND, TCA_STATS2 = 1, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE = 1, 3
"""Attributes of linux/rtnetlink.h and linux/gen_stats.h."""

SHAPERS = (b"tbf\0", b"htb\0")

_HEADER = struct.Struct("=IHHII")
_TC = struct.Struct("=BxxxiIII")
_ATTRIBUTE = struct.Struct("=HH")


@dataclass
class Watch:
    """The queues of one namespace.

    Attributes:
        ports: Number of the port by index of its interface.
        socket: Netlink, of the namespace in which it was opened.
    """

    ports: dict[int, int]
    socket: socket.socket = field(
        default_factory=lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
    )

    def read(self) -> list[tuple[int, int, int, int]]:
        """Reads for each port its number, bytes sent, packets that wait, packets dropped."""
        body = _TC.pack(0, 0, 0, 0, 0)
        size = _HEADER.size + len(body)
        self.socket.send(_HEADER.pack(size, RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
        found: list[tuple[int, int, int, int]] = []
        while not self._messages(self.socket.recv(1 << 18), found):
            pass
        return found

    def _messages(self, data: bytes, found: list[tuple[int, int, int, int]]) -> bool:
        """Reads what came; whether it was the last."""
        at = 0
        while at + _HEADER.size <= len(data):
            size, kind = _HEADER.unpack_from(data, at)[:2]
            if kind == NLMSG_DONE or size < _HEADER.size:
                return True
            if kind == RTM_NEWQDISC:
                port = self.ports.get(_TC.unpack_from(data, at + _HEADER.size)[1])
                parts = _attributes(data, at + _HEADER.size + _TC.size, at + size)
                if port is not None and parts.get(TCA_KIND, b"")[:4] in SHAPERS and TCA_STATS2 in parts:
                    stats = parts[TCA_STATS2]
                    inner = _attributes(stats, 0, len(stats))
                    waiting, _, dropped = struct.unpack_from("=III", inner[TCA_STATS_QUEUE])
                    found.append((port, struct.unpack_from("=Q", inner[TCA_STATS_BASIC])[0], waiting, dropped))
            at += size + 3 & ~3
        return False


def _attributes(data: bytes, at: int, end: int) -> dict[int, bytes]:
    found = {}
    while at + _ATTRIBUTE.size <= end:
        size, kind = _ATTRIBUTE.unpack_from(data, at)
        if size < _ATTRIBUTE.size:
            break
        found[kind & 0x3FFF] = data[at + _ATTRIBUTE.size : at + size]
        at += size + 3 & ~3
    return found


DAEMONS = Path("/usr/lib/frr")
FIRST_AS = 4_200_000_000
"""AS number of switch 0: private numbers (RFC 6996), one a switch, so that paths of equal length are equal."""

CONVERGED_S = 60.0

# Next hops written into each route stand in the order of their gateways; groups of them in that of their discovery.
TEMPLATE = """\
hostname {name}
no zebra nexthop kernel enable
ip nht resolve-via-default
router bgp {number}
 bgp router-id 192.0.{high}.{low}
 bgp bestpath as-path multipath-relax
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 timers bgp 1 3
 neighbor fabric peer-group
 neighbor fabric remote-as external
 neighbor fabric capability extended-nexthop
{neighbors} address-family ipv4 unicast
  neighbor fabric activate
  maximum-paths 64
  redistribute kernel
 exit-address-family
{interfaces}"""


def configuration(wires: Wires, node: int) -> str:
    """Configuration of the daemons of a switch."""
    between = [port.name for port in wires.ports if port.node == node and wires.ports[port.peer].node >= wires.hosts]
    return TEMPLATE.format(
        name=wires.nodes[node].name.replace(" ", "-"),
        number=FIRST_AS + node,
        high=node >> 8,
        low=node & 255,
        neighbors="".join(f" neighbor {name} interface peer-group fabric\n" for name in between),
        interfaces="".join(f"interface {name}\n ipv6 nd ra-interval 1\n no ipv6 nd suppress-ra\n" for name in between),
    )


class Daemons:
    """The daemons of all switches, until the end of a `with`.

    Attributes:
        enter: What follows is done in the namespace of a node.
    """

    def __init__(self, wires: Wires, enter: Callable[[int], None]) -> None:
        self.wires, self.enter = wires, enter
        self.folder = Path(tempfile.mkdtemp(prefix="railyard-lab-frr-"))
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> None:
        """Starts them and waits for their routes.

        Raises:
            TimeoutError: Routes do not come.
        """
        try:
            for node in range(self.wires.hosts, len(self.wires.nodes)):
                self._start(node)
            until = time.monotonic() + CONVERGED_S
            for node in range(self.wires.hosts, len(self.wires.nodes)):
                while wrong := self._wrong(node):
                    if time.monotonic() > until:
                        raise TimeoutError(f"BGP of {self.wires.nodes[node].name} does not converge: {wrong}")
                    time.sleep(0.2)
        except BaseException:
            self._stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends them."""
        self._stop()

    def _stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, node: int) -> None:
        place = self.folder / str(node)
        place.mkdir()
        self.folder.chmod(0o755)
        shutil.chown(place, "frr", "frr")
        file = place / "frr.conf"
        file.write_text(configuration(self.wires, node), encoding="ascii")
        self.enter(node)
        for daemon in ("zebra", "bgpd"):
            words = [str(DAEMONS / daemon), "-f", str(file), "-i", str(place / f"{daemon}.pid")]
            words += ["-z", str(place / "zserv.api"), "--vty_socket", str(place), "-A", "127.0.0.1"]
            log = (place / f"{daemon}.log").open("wb")
            self.processes.append(
                subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - a process without threads
                )
            )
            log.close()
            while daemon == "zebra" and not (place / "zserv.api").exists():
                if self.processes[-1].poll() is not None:
                    raise OSError(f"zebra: {(place / 'zebra.log').read_text(errors='replace').strip()}")
                time.sleep(0.02)

    def _wrong(self, node: int) -> str:
        """What a switch lacks of its routes, in words; empty: nothing."""
        self.enter(node)
        listed = subprocess.run(["ip", "-j", "route"], capture_output=True, check=True).stdout
        there = {route["dst"]: _interfaces(route) for route in json.loads(listed)}
        return missing(self.wires.nodes[node], there)


def _interfaces(route: dict[str, object]) -> tuple[str, ...]:
    hops = route.get("nexthops")
    if isinstance(hops, list):
        return tuple(str(hop["dev"]) for hop in hops)
    return (str(route.get("dev", "")),)


def missing(node: LabNode, there: dict[str, tuple[str, ...]]) -> str:
    """The first route that is not as it should be, in words; empty: all are.

    Args:
        node: A switch.
        there: Interfaces by destination, as its kernel has them.
    """
    for target, interfaces in node.routes:
        if there.get(target) != interfaces:
            return f"{target} by {', '.join(there.get(target, ('nothing',)))}, not by {', '.join(interfaces)}"
    return ""
