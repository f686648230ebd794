"""BGP unnumbered by FRR's daemons, one zebra and one bgpd in each switch of a lab (RFC 5549, RFC 7938)."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.kit.files import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from railyard.engine.lab.blueprint import Node, Wires

DAEMONS = Path("/usr/lib/frr")
FIRST_AS = 4_200_000_000
"""Of switch 0: private numbers (RFC 6996), one a switch, so that paths of equal length are equal."""

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
    """What the daemons of a switch are told."""
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
        wires: The lab's.
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


def missing(node: Node, there: dict[str, tuple[str, ...]]) -> str:
    """The first route that is not as it should be, in words; empty: all are.

    Args:
        node: A switch.
        there: Interfaces by destination, as its kernel has them.
    """
    for address, interfaces in node.routes:
        if there.get(address) != interfaces:
            return f"{address} by {', '.join(there.get(address, ('nothing',)))}, not by {', '.join(interfaces)}"
    return ""
